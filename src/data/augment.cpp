#include "data/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/parallel.h"
#include "base/progress.h"
#include "cache/ragged_writer.h"
#include "data/token_import.h"
#include "elmo/error.h"
#include "io/checksum.h"

namespace elmo {
namespace {

constexpr std::int64_t kLabelsABlock = 4096;

struct LabelTextBlock {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::int64_t cut = 0;
};

// The tokens of every label that has a text, and how many were cut.
std::int64_t write_tokens(const Context& context, const ReadOptions& reading, const Dataset& dataset,
                          const Tokenizer& tokenizer, CacheWriter& file) {
    RaggedWriter<std::int32_t> writer(file, "tokens");
    const std::int64_t num_labels = dataset.num_labels();
    Progress progress(context, "tokenizing labels", num_labels, "labels");
    std::vector<LabelTextBlock> blocks(2 * context.num_threads());
    std::int64_t cut = 0;
    const std::int64_t stride = kLabelsABlock * static_cast<std::int64_t>(blocks.size());
    for (std::int64_t first = 0; first < num_labels; first += stride) {
        context.leave_if_stopped();
        const std::int64_t last = std::min(first + stride, num_labels);
        context.threads().parallel_ranges(
            last - first, kLabelsABlock, [&](std::int64_t begin, std::int64_t end) {
                LabelTextBlock& block = blocks[begin / kLabelsABlock];
                block = {};
                std::vector<std::int32_t> ids;
                for (std::int64_t label = first + begin; label < first + end; ++label) {
                    const std::string_view text = dataset.label_name(label);
                    if (text.empty()) continue;
                    block.cut += tokenizer.encode(text, reading.max_length, ids) >
                                 static_cast<std::int64_t>(ids.size());
                    block.ids.insert(block.ids.end(), ids.begin(), ids.end());
                    block.lengths.push_back(static_cast<std::int64_t>(ids.size()));
                }
            });
        for (LabelTextBlock& block : blocks) {
            writer.add(std::span<const std::int32_t>(block.ids), block.lengths);
            cut += block.cut;
            block = {};
        }
        progress.update(last);
    }
    writer.finish();
    progress.finish();
    return cut;
}

void write_own_labels(const Dataset& dataset, CacheWriter& file) {
    RaggedWriter<std::uint32_t> writer(file, "labels");
    const std::int64_t one = 1;
    for (std::int64_t label = 0; label < dataset.num_labels(); ++label) {
        if (dataset.label_name(label).empty()) continue;
        const auto id = static_cast<std::uint32_t>(label);
        writer.add(std::span(&id, 1), std::span(&one, 1));
    }
    writer.finish();
}

// Training rows of each label: those of label l are rows[offsets[l], offsets[l + 1]).
struct RowsOfLabels {
    std::vector<std::int64_t> offsets;
    std::vector<std::uint32_t> rows;
};

RowsOfLabels rows_of_labels(const LabelMatrix& matrix, std::int64_t num_labels) {
    RowsOfLabels result;
    result.offsets.resize(static_cast<std::size_t>(num_labels) + 1);
    result.rows.resize(matrix.values.size());
    for (const std::uint32_t label : matrix.values) ++result.offsets[label + std::size_t{1}];
    for (std::int64_t label = 0; label < num_labels; ++label)
        result.offsets[label + 1] += result.offsets[label];
    std::vector<std::int64_t> next(result.offsets.begin(), result.offsets.end() - 1);
    for (std::int64_t row = 0; row < matrix.rows(); ++row)
        for (const std::uint32_t label : matrix.row(row))
            result.rows[next[label]++] = static_cast<std::uint32_t>(row);
    return result;
}

struct TargetBlock {
    std::vector<std::uint32_t> labels;
    std::vector<float> targets;
    std::vector<std::int64_t> lengths;
};

void write_cooccurring_labels(const Context& context, const Dataset& dataset, double threshold,
                              CacheWriter& file) {
    const LabelMatrix& matrix = dataset.train().labels;
    const std::int64_t num_labels = dataset.num_labels();
    const RowsOfLabels index = rows_of_labels(matrix, num_labels);
    RaggedWriter<std::uint32_t> writer(file, "labels");
    std::vector<float> all_targets;
    std::vector<TargetBlock> blocks(2 * context.num_threads());
    // Of each thread, all zero between labels.
    std::vector<std::vector<std::uint32_t>> counts(context.num_threads());
    const std::int64_t stride = kLabelsABlock * static_cast<std::int64_t>(blocks.size());
    Progress progress(context, "counting labels beside labels", num_labels, "labels");
    for (std::int64_t first = 0; first < num_labels; first += stride) {
        context.leave_if_stopped();
        const std::int64_t last = std::min(first + stride, num_labels);
        context.threads().parallel_ranges(
            last - first, kLabelsABlock, [&](std::int64_t begin, std::int64_t end) {
                TargetBlock& block = blocks[begin / kLabelsABlock];
                auto& count = counts[thread_index()];
                count.resize(static_cast<std::size_t>(num_labels));
                std::vector<std::uint32_t> seen;
                for (std::int64_t label = first + begin; label < first + end; ++label) {
                    if (dataset.label_name(label).empty()) continue;
                    seen.assign(1, static_cast<std::uint32_t>(label));
                    for (std::int64_t p = index.offsets[label]; p < index.offsets[label + 1]; ++p)
                        for (const std::uint32_t other : matrix.row(index.rows[p]))
                            if (count[other]++ == 0 && other != label) seen.push_back(other);
                    std::sort(seen.begin(), seen.end());
                    const auto rows = static_cast<double>(index.offsets[label + 1] - index.offsets[label]);
                    const std::size_t before = block.labels.size();
                    for (const std::uint32_t other : seen) {
                        const double target = other == label ? 1.0 : count[other] / rows;
                        count[other] = 0;
                        if (target < threshold) continue;
                        block.labels.push_back(other);
                        block.targets.push_back(static_cast<float>(target));
                    }
                    block.lengths.push_back(static_cast<std::int64_t>(block.labels.size() - before));
                }
            });
        for (TargetBlock& block : blocks) {
            writer.add(std::span<const std::uint32_t>(block.labels), block.lengths);
            all_targets.insert(all_targets.end(), block.targets.begin(), block.targets.end());
            block = {};
        }
        progress.update(last);
    }
    progress.finish();
    writer.finish();
    file.section("targets", all_targets);
}

constexpr std::int64_t kSampledLabels = 2000;

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
    Hash64 hash;
    hash.update(std::as_bytes(tokens));
    return hash.digest();
}

// Three letters in a row, or a character beyond ASCII: no number, no code.
bool has_word(std::string_view text) {
    int letters = 0;
    for (const char c : text) {
        if (static_cast<unsigned char>(c) >= 0x80) return true;
        letters = std::isalpha(static_cast<unsigned char>(c)) ? letters + 1 : 0;
        if (letters == 3) return true;
    }
    return false;
}

}  // namespace

LabelTexts look_at_label_texts(const Dataset& dataset, const Tokenizer& tokenizer, std::int64_t max_length) {
    LabelTexts found;
    if (!dataset.has_label_names()) return found;
    const std::int64_t labels = dataset.num_labels(), sampled = std::min(labels, kSampledLabels);
    std::unordered_map<std::uint64_t, std::int64_t> wanted;  // how many sampled labels have these tokens
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < sampled; ++i) {
        const std::string_view text = dataset.label_name(i * labels / sampled);
        found.words += has_word(text) ? 1 : 0;
        tokenizer.encode(text, max_length, ids);
        ++wanted[hash_of(ids)];
    }
    const RaggedRows<std::int32_t>& rows = dataset.train().tokens;
    for (std::int64_t row = 0; row < rows.rows() && !wanted.empty(); ++row)
        if (const auto same = wanted.find(hash_of(rows.row(row))); same != wanted.end()) {
            found.rows += static_cast<double>(same->second);
            wanted.erase(same);
        }
    found.words /= static_cast<double>(sampled);
    found.rows /= static_cast<double>(sampled);
    return found;
}

Augmentation Augmentation::open(const Context& context, const ReadOptions& reading, const Dataset& dataset,
                                const Tokenizer& tokenizer) {
    Augmentation result;
    if (reading.augment == AugmentChoice::kNone || reading.augment == AugmentChoice::kAuto) return result;
    const bool soft = reading.augment == AugmentChoice::kCooccurrence;
    const char* const name = soft ? "cooccurrence" : "labels";
    if (!dataset.has_label_names())
        throw DataError(fmt::format(
            "{}: expected label texts (Y.txt, or lbl.json) for augment {}, found none; leave --augment out",
            reading.data, name));
    CacheKey key(reading.data, "augment");
    key.add("augment", name);
    key.add("names", hash_text(dataset.names_hash()));
    key.add("tokenizer", fmt::format("{}", tokenizer.fingerprint()));
    key.add("max_length", fmt::format("{}", reading.max_length));
    if (soft) {
        Hash64 labels;
        labels.update(std::as_bytes(dataset.train().labels.offsets));
        labels.update(std::as_bytes(dataset.train().labels.values));
        key.add("threshold", fmt::format("{}", reading.augment_threshold));
        key.add("labels", hash_text(labels.digest()));
    }
    result.file_ = CacheFile::open(dataset.cache(), key);
    if (!result.file_) {
        CacheWriter file(dataset.cache(), key);
        const std::int64_t cut = write_tokens(context, reading, dataset, tokenizer, file);
        if (soft)
            write_cooccurring_labels(context, dataset, reading.augment_threshold, file);
        else
            write_own_labels(dataset, file);
        file.section("stats", std::vector<TokenStats>{{0, cut}});
        file.commit();
        result.file_ = CacheFile::read_back(dataset.cache(), key);
    }
    result.rows_.present = true;
    result.rows_.tokens = read_ragged<std::int32_t>(*result.file_, "tokens");
    result.rows_.labels = read_ragged<std::uint32_t>(*result.file_, "labels");
    if (soft) result.rows_.label_targets = result.file_->section<float>("targets");
    const auto ids = result.rows_.labels.values;
    if (result.rows_.tokens.rows() != result.rows_.labels.rows() ||
        (soft && result.rows_.label_targets.size() != ids.size()) ||
        (!ids.empty() && *std::max_element(ids.begin(), ids.end()) >= dataset.num_labels()))
        throw DataError(fmt::format("{}: the cache is inconsistent; delete it", dataset.cache().string()));
    return result;
}

std::int64_t Augmentation::cut_rows() const {
    return file_ ? file_->value<TokenStats>("stats").cut_rows : 0;
}

}  // namespace elmo
