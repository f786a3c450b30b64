#include "data/augment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/parallel.h"
#include "data/ragged_writer.h"
#include "data/token_import.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::int64_t kLabelsABlock = 4096;

struct TokenBlock {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::int64_t cut = 0;
};

// The tokens of every label that has a text, and how many were cut.
std::int64_t write_tokens(const Config& config, const Dataset& dataset, const Tokenizer& tokenizer,
                          CacheWriter& file) {
    RaggedWriter<std::int32_t> writer(file, "tokens");
    const std::int64_t num_labels = dataset.num_labels();
    Progress progress("tokenizing labels", num_labels, "labels");
    std::vector<TokenBlock> blocks(2 * num_threads());
    std::int64_t cut = 0;
    const std::int64_t stride = kLabelsABlock * static_cast<std::int64_t>(blocks.size());
    for (std::int64_t first = 0; first < num_labels; first += stride) {
        const std::int64_t last = std::min(first + stride, num_labels);
        parallel_ranges(last - first, kLabelsABlock, [&](std::int64_t begin, std::int64_t end) {
            TokenBlock& block = blocks[begin / kLabelsABlock];
            block = {};
            std::vector<std::int32_t> ids;
            for (std::int64_t label = first + begin; label < first + end; ++label) {
                const std::string_view text = dataset.label_name(label);
                if (text.empty()) continue;
                block.cut +=
                    tokenizer.encode(text, config.max_length, ids) > static_cast<std::int64_t>(ids.size());
                block.ids.insert(block.ids.end(), ids.begin(), ids.end());
                block.lengths.push_back(static_cast<std::int64_t>(ids.size()));
            }
        });
        for (TokenBlock& block : blocks) {
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

}  // namespace

Augmentation Augmentation::open(const Config& config, const Dataset& dataset, const Tokenizer& tokenizer) {
    Augmentation result;
    if (config.augment == "none") return result;
    if (!dataset.has_label_names())
        throw DataError(fmt::format(
            "{}: expected label texts (Y.txt, or lbl.json) for augment {}, found none; leave --augment out",
            config.data, config.augment));
    CacheKey key(config.data, "augment");
    key.add("augment", config.augment);
    key.add("names", hash_text(dataset.names_hash()));
    key.add("tokenizer", fmt::format("{}", tokenizer.fingerprint()));
    key.add("max_length", fmt::format("{}", config.max_length));
    result.file_ = CacheFile::open(dataset.cache(), key);
    if (!result.file_) {
        CacheWriter file(dataset.cache(), key);
        const std::int64_t cut = write_tokens(config, dataset, tokenizer, file);
        write_own_labels(dataset, file);
        file.section("stats", std::vector<TokenStats>{{0, cut}});
        file.commit();
        result.file_ = CacheFile::read_back(dataset.cache(), key);
    }
    result.rows_.present = true;
    result.rows_.tokens = read_ragged<std::int32_t>(*result.file_, "tokens");
    result.rows_.labels = read_ragged<std::uint32_t>(*result.file_, "labels");
    const auto ids = result.rows_.labels.values;
    if (result.rows_.tokens.rows() != result.rows_.labels.rows() ||
        (!ids.empty() && *std::max_element(ids.begin(), ids.end()) >= dataset.num_labels()))
        throw DataError(fmt::format("{}: the cache is inconsistent; delete it", dataset.cache().string()));
    return result;
}

std::int64_t Augmentation::cut_rows() const {
    return file_ ? file_->section<TokenStats>("stats")[0].cut_rows : 0;
}

}  // namespace elmo
