#include "io/byte_source.h"

#include <algorithm>
#include <cstring>

#include "io/packed/decoder.h"

namespace elmo {

std::string without_packed_ending(std::string name) {
    for (const std::string_view ending : kPackedEndings)
        if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
    return name;
}

ByteSource::ByteSource(const std::filesystem::path& path, std::string name)
    : input_(std::make_unique<RawInput>(path, std::move(name))), decoder_(decoder_of(*input_)) {}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::read(char* out, std::size_t size) {
    if (decoder_) return decoder_->read(out, size);
    const std::string_view held = input_->held();
    if (held.empty()) return input_->read_raw(out, size);
    const std::size_t n = std::min(size, held.size());
    std::memcpy(out, held.data(), n);
    input_->take(n);
    return n;
}

bool ByteSource::ready() const {
    return (decoder_ && decoder_->finished()) || input_->ready();
}
bool ByteSource::is_compressed() const {
    return decoder_ != nullptr;
}
std::int64_t ByteSource::total() const {
    return input_->total();
}
std::int64_t ByteSource::taken() const {
    return input_->taken();
}

}  // namespace elmo
