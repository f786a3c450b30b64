#include "rank/answers/answered_texts.h"

#include <algorithm>
#include <cstring>

#include "io/checksum.h"
#include "io/file_error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Never 0, which a crash of the machine may leave in the disk's blocks.
std::uint64_t hash_of(std::string_view text) {
    return std::max<std::uint64_t>(hash64(text), 1);
}

std::uint64_t hash_at(const MappedFile& file, std::int64_t index) {
    std::uint64_t hash = 0;
    std::memcpy(&hash, file.bytes().data() + index * sizeof hash, sizeof hash);
    return hash;
}

}  // namespace

AnsweredTexts::AnsweredTexts(fs::path file) : path_(std::move(file)) {
    std::error_code error;
    if (!fs::exists(path_, error)) return;
    before_ = MappedFile(path_);
    const auto entries = before_.size() / static_cast<std::int64_t>(sizeof(std::uint64_t));
    while (count_ < entries && hash_at(before_, count_) != 0) ++count_;
}

bool AnsweredTexts::is(std::int64_t index, std::string_view text) const {
    return index < count_ && hash_at(before_, index) == hash_of(text);
}

void AnsweredTexts::keep(std::int64_t count) {
    out_ = OutputFile(path_, OutputFile::Open::kAppend);
    std::error_code error;
    fs::resize_file(path_, static_cast<std::uintmax_t>(count) * sizeof(std::uint64_t), error);
    if (error) throw_file_error(path_, "cut", error.value());
    count_ = count;
}

void AnsweredTexts::add(std::string_view text) {
    const std::uint64_t hash = hash_of(text);
    out_.write(std::as_bytes(std::span(&hash, 1)));
}

}  // namespace elmo
