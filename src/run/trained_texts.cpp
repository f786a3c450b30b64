#include "run/trained_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "elmo/error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "io/checksum.h"

namespace elmo {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
    return hash64(std::as_bytes(tokens));
}

}  // namespace

void TrainedTexts::take(std::vector<std::uint64_t> more) {
    hashes_.insert(hashes_.end(), more.begin(), more.end());
    std::sort(hashes_.begin(), hashes_.end());
    hashes_.erase(std::unique(hashes_.begin(), hashes_.end()), hashes_.end());
    if (hashes_.size() <= kMost) return;
    hashes_.resize(kMost);
    is_whole_ = false;
}

void TrainedTexts::add(const TokenRows& texts, std::span<const std::int64_t> rows) {
    std::vector<std::uint64_t> some;
    for (const std::int64_t row : rows) {
        if (texts.length(row) == 0) continue;
        const std::uint64_t hash = hash_of(texts.row(row));
        if (!is_whole_ && hash > hashes_.back()) continue;
        some.push_back(hash);
        if (some.size() < kMost) continue;
        take(std::move(some));
        some.clear();
    }
    take(std::move(some));
}

void TrainedTexts::add(const TrainedTexts& other) {
    // Beyond the last hash of one that is not whole nothing is known.
    const auto last = [](const TrainedTexts& texts) {
        return texts.is_whole_ ? ~std::uint64_t{0} : texts.hashes_.back();
    };
    const std::uint64_t known = std::min(last(*this), last(other));
    is_whole_ = is_whole_ && other.is_whole_;
    take(other.hashes_);
    hashes_.erase(std::upper_bound(hashes_.begin(), hashes_.end(), known), hashes_.end());
}

std::int64_t TrainedTexts::count(const TokenRows& texts, std::span<const std::int64_t> rows) const {
    std::int64_t asked = 0, found = 0;
    for (const std::int64_t row : rows) {
        if (texts.length(row) == 0) continue;
        const std::uint64_t hash = hash_of(texts.row(row));
        if (!is_whole_ && hash > hashes_.back()) continue;
        ++asked;
        found += std::binary_search(hashes_.begin(), hashes_.end(), hash);
    }
    if (is_whole_ || asked == 0) return found;
    return std::llround(static_cast<double>(found) / static_cast<double>(asked) *
                        static_cast<double>(rows.size()));
}

std::vector<std::int64_t> TrainedTexts::others(const TokenRows& texts,
                                               std::span<const std::int64_t> rows) const {
    std::vector<std::int64_t> found;
    for (const std::int64_t row : rows)
        if (texts.length(row) == 0 ||
            !std::binary_search(hashes_.begin(), hashes_.end(), hash_of(texts.row(row))))
            found.push_back(row);
    return found;
}

void TrainedTexts::save(const std::filesystem::path& file) const {
    SafeTensorsWriter out(file, {{"hashes", "U64", {static_cast<std::int64_t>(hashes_.size())}}},
                          {{"whole", is_whole_ ? "true" : "false"}});
    out.write("hashes", std::span<const std::uint64_t>(hashes_));
    out.commit();
}

TrainedTexts TrainedTexts::load(const InputFolder& folder) {
    TrainedTexts texts;
    if (!folder.has(kTrainedTextsFile)) return texts;
    const SafeTensors file = SafeTensors::open(folder.map(kTrainedTextsFile));
    const TensorInfo& tensor = file.at("hashes");
    if (tensor.dtype != "U64" || tensor.num_elements() > static_cast<std::int64_t>(kMost))
        throw DataError(fmt::format("{}: expected {} hashes of U64 at most, found {} {}", file.file(), kMost,
                                    tensor.dtype, tensor.shape_text()));
    texts.hashes_.resize(static_cast<std::size_t>(tensor.num_elements()));
    std::memcpy(texts.hashes_.data(), tensor.data.data(), tensor.data.size());
    const auto whole = file.metadata().find("whole");
    texts.is_whole_ = whole == file.metadata().end() || whole->second != "false" || texts.hashes_.empty();
    if (std::adjacent_find(texts.hashes_.begin(), texts.hashes_.end(), std::greater_equal<>()) !=
        texts.hashes_.end())
        throw DataError(fmt::format(
            "{}: expected hashes that ascend, found others; the checkpoint is damaged", file.file()));
    return texts;
}

}  // namespace elmo
