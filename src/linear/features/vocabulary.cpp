#include "linear/features/vocabulary.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace elmo {
namespace {

constexpr std::int64_t kChunk = 1024;     // texts that one thread takes at once
constexpr std::int64_t kGroup = 32;       // chunks between two additions to the counts
constexpr double kWeightOfLetters = 0.4;  // weight of letters beside that of words

// In how many texts each feature is: open addressing, as the keys are hashes already.
class TextCounts {
  public:
    TextCounts() : keys_(1024), counts_(1024) {}

    void add(std::uint64_t key) {
        if (2 * size_ >= keys_.size()) grow();
        const std::size_t at = place(key);
        if (counts_[at] == 0) {
            keys_[at] = key;
            ++size_;
        }
        ++counts_[at];
    }
    std::vector<std::pair<std::uint64_t, std::int32_t>> take() {
        std::vector<std::pair<std::uint64_t, std::int32_t>> kept;
        for (std::size_t i = 0; i < keys_.size(); ++i)
            if (counts_[i] > 0) kept.emplace_back(keys_[i], counts_[i]);
        keys_ = {};
        counts_ = {};
        std::sort(kept.begin(), kept.end());
        return kept;
    }

  private:
    std::size_t place(std::uint64_t key) const {
        const std::size_t mask = keys_.size() - 1;
        std::size_t at = key & mask;
        while (counts_[at] != 0 && keys_[at] != key) at = (at + 1) & mask;
        return at;
    }
    void grow() {
        std::vector<std::uint64_t> keys(2 * keys_.size());
        std::vector<std::int32_t> counts(keys.size());
        keys.swap(keys_);
        counts.swap(counts_);
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (counts[i] != 0) {
                const std::size_t at = place(keys[i]);
                keys_[at] = keys[i];
                counts_[at] = counts[i];
            }
    }

    std::vector<std::uint64_t> keys_;
    std::vector<std::int32_t> counts_;
    std::size_t size_ = 0;
};

}  // namespace

Vocabulary::Vocabulary(std::vector<std::uint64_t> hashes, std::vector<float> weights)
    : hashes_(std::move(hashes)), weights_(std::move(weights)) {
    int bits = 0;
    while (bits < 20 && (std::size_t{1} << (bits + 3)) < hashes_.size()) ++bits;
    shift_ = 64 - bits;
    const std::size_t buckets = std::size_t{1} << bits;
    buckets_.assign(buckets + 1, 0);
    for (const std::uint64_t hash : hashes_) ++buckets_[(bits == 0 ? 0 : hash >> shift_) + 1];
    for (std::size_t i = 0; i < buckets; ++i) buckets_[i + 1] += buckets_[i];
}

std::int64_t Vocabulary::find(std::uint64_t hash) const {
    if (hashes_.empty()) return -1;
    const std::size_t bucket = shift_ == 64 ? 0 : hash >> shift_;
    const auto begin = hashes_.begin() + buckets_[bucket], end = hashes_.begin() + buckets_[bucket + 1];
    const auto at = std::lower_bound(begin, end, hash);
    return at != end && *at == hash ? at - hashes_.begin() : -1;
}

void Vocabulary::append_row(std::vector<std::uint64_t>& features, SparseRows& rows) const {
    std::sort(features.begin(), features.end());
    const std::size_t first = rows.values.size();
    double length = 0;
    for (std::size_t i = 0; i < features.size();) {
        std::size_t end = i;
        while (end < features.size() && features[end] == features[i]) ++end;
        if (const std::int64_t column = find(features[i]); column >= 0) {
            const float value =
                (1 + std::log(static_cast<float>(end - i))) * weights_[static_cast<std::size_t>(column)];
            rows.columns.push_back(static_cast<std::int32_t>(column));
            rows.values.push_back(value);
            length += static_cast<double>(value) * value;
        }
        i = end;
    }
    const auto scale = static_cast<float>(length > 0 ? 1 / std::sqrt(length) : 0);
    for (std::size_t i = first; i < rows.values.size(); ++i) rows.values[i] *= scale;
    rows.offsets.push_back(static_cast<std::int64_t>(rows.values.size()));
}

Vocabulary learn_vocabulary(const Context& context, const Analyser& analyser, const TokensOf& tokens,
                            std::int64_t rows) {
    TextCounts counts;
    std::vector<std::vector<std::uint64_t>> found(static_cast<std::size_t>(kGroup));  // of a chunk each
    for (std::int64_t group = 0; group < rows; group += kGroup * kChunk) {
        context.threads().parallel_for(kGroup, [&](std::int64_t chunk) {
            auto& all = found[static_cast<std::size_t>(chunk)];
            all.clear();
            std::vector<std::uint64_t> features;
            const std::int64_t begin = group + chunk * kChunk;
            for (std::int64_t row = begin; row < std::min(begin + kChunk, rows); ++row) {
                analyser.analyse(tokens(row), features);
                std::sort(features.begin(), features.end());
                features.erase(std::unique(features.begin(), features.end()), features.end());
                all.insert(all.end(), features.begin(), features.end());
            }
        });
        for (const auto& all : found)
            for (const std::uint64_t feature : all) counts.add(feature);
    }
    found.clear();
    std::vector<std::uint64_t> hashes;
    std::vector<float> weights;
    for (const auto& [hash, count] : counts.take()) {
        hashes.push_back(hash);
        const double rareness = std::log((1.0 + static_cast<double>(rows)) / (1.0 + count)) + 1;
        weights.push_back(static_cast<float>((is_letters(hash) ? kWeightOfLetters : 1) * rareness));
    }
    return Vocabulary(std::move(hashes), std::move(weights));
}

SparseRows make_rows(const Context& context, const Analyser& analyser, const Vocabulary& vocabulary,
                     const TokensOf& tokens, std::int64_t rows) {
    const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
    std::vector<SparseRows> parts(static_cast<std::size_t>(chunks));
    context.threads().parallel_for(chunks, [&](std::int64_t chunk) {
        std::vector<std::uint64_t> features;
        for (std::int64_t row = chunk * kChunk; row < std::min((chunk + 1) * kChunk, rows); ++row) {
            analyser.analyse(tokens(row), features);
            vocabulary.append_row(features, parts[static_cast<std::size_t>(chunk)]);
        }
    });
    SparseRows all;
    std::size_t size = 0;
    for (const SparseRows& part : parts) size += part.values.size();
    all.columns.reserve(size);
    all.values.reserve(size);
    all.offsets.reserve(static_cast<std::size_t>(rows) + 1);
    for (SparseRows& part : parts) {
        const std::int64_t base = all.offsets.back();
        for (std::int64_t i = 1; i <= part.rows(); ++i)
            all.offsets.push_back(base + part.offsets[static_cast<std::size_t>(i)]);
        all.columns.insert(all.columns.end(), part.columns.begin(), part.columns.end());
        all.values.insert(all.values.end(), part.values.begin(), part.values.end());
        part = {};
    }
    return all;
}

}  // namespace elmo
