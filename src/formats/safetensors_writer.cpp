#include "formats/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "formats/json_text.h"
#include "formats/safetensors.h"
#include "io/file_error.h"

namespace elmo {
namespace {

constexpr std::size_t kAlignment = 64;

std::int64_t bytes_of(const TensorSpec& spec, const std::string& file) {
    std::int64_t product = safetensors_element_bytes(spec.dtype);
    bool wrong = product == 0 || spec.name == "__metadata__";
    for (const std::int64_t n : spec.shape)
        wrong = wrong || n < 0 || __builtin_mul_overflow(product, n, &product);
    if (wrong)
        throw DataError(fmt::format("{}: tensor '{}' cannot be written: {} [{}]", file, quoted(spec.name),
                                    quoted(spec.dtype), fmt::join(spec.shape, ", ")));
    return product;
}

}  // namespace

SafeTensorsWriter::SafeTensorsWriter(const std::filesystem::path& path,
                                     const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
    const std::string file = path.string();
    std::vector<const TensorSpec*> order;
    for (const auto& spec : tensors) order.push_back(&spec);
    std::stable_sort(order.begin(), order.end(), [](const TensorSpec* a, const TensorSpec* b) {
        return safetensors_element_bytes(a->dtype) > safetensors_element_bytes(b->dtype);
    });

    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    // Pushed as pairs: looking each name up, as header[name] does, is quadratic in an ordered object.
    auto& fields = header.get_ref<nlohmann::ordered_json::object_t&>();
    if (!metadata.empty()) fields.emplace_back("__metadata__", metadata);
    std::int64_t next = 0;
    for (const TensorSpec* spec : order) {
        const std::int64_t begin = next;
        if (__builtin_add_overflow(begin, bytes_of(*spec, file), &next))
            throw DataError(fmt::format("{}: the tensors are too large for one file", file));
        nlohmann::ordered_json field;
        field["dtype"] = spec->dtype;
        field["shape"] = spec->shape;
        field["data_offsets"] = {begin, next};
        fields.emplace_back(spec->name, std::move(field));
        if (!slots_.emplace(spec->name, Slot{begin, next}).second)
            throw DataError(fmt::format("{}: tensor '{}' is given twice", file, quoted(spec->name)));
    }
    std::string text;
    try {
        text = header.dump();
    } catch (const nlohmann::json::exception& error) {
        throw DataError(fmt::format("{}: names and metadata must be UTF-8: {}", file, json_reason(error)));
    }
    text.resize((8 + text.size() + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
    if (text.size() > static_cast<std::size_t>(kMaxSafeTensorsHeader))
        throw DataError(fmt::format("{}: the header of {} tensors has {} bytes, the format allows {}", file,
                                    tensors.size(), text.size(), kMaxSafeTensorsHeader));
    const std::uint64_t length = text.size();
    char prefix[8];
    std::memcpy(prefix, &length, 8);
    const auto data_begin = static_cast<std::int64_t>(8 + length);
    for (auto& [name, slot] : slots_) slot = {slot.next + data_begin, slot.end + data_begin};
    file_.reserve(data_begin + next);
    file_.write(std::string_view(prefix, 8));
    file_.write(text);
}

void SafeTensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
    const auto it = slots_.find(name);
    const std::string file = file_.target().string();
    if (it == slots_.end())
        throw DataError(fmt::format("{}: tensor '{}' was not announced", file, quoted(name)));
    Slot& slot = it->second;
    if (static_cast<std::int64_t>(bytes.size()) > slot.end - slot.next)
        throw DataError(fmt::format("{}: tensor '{}': expected at most {} more bytes, found {}", file,
                                    quoted(name), slot.end - slot.next, bytes.size()));
    file_.write_at(slot.next, bytes);
    slot.next += static_cast<std::int64_t>(bytes.size());
}

void SafeTensorsWriter::commit() {
    for (const auto& [name, slot] : slots_)
        if (slot.next != slot.end)
            throw DataError(fmt::format("{}: tensor '{}' lacks {} bytes", file_.target().string(),
                                        quoted(name), slot.end - slot.next));
    file_.commit();
}

}  // namespace elmo
