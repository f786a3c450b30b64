// A data set as the rest of elmo sees it: memory-mapped views of its binary cache, which is made if it is
// absent or its sources have changed.
//
// The cache is one file per part (train.labels, test.tokens, names, ...), each with its own key, so a
// changed file or option rebuilds only what was made from it. Memory holds only the parts of a data set that
// are touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/views.h"
#include "elmo/context.h"
#include "elmo/dataset.h"
#include "sources/rows.h"
#include "text/tokenizer.h"

namespace elmo {

class Dataset {
  public:
    // Labels only: splits without tokens. Needs no texts in the XMC layout. Warns of labels that are left
    // out.
    static Dataset open_labels(const Context& context, const ReadOptions& reading,
                               DataSummary* summary = nullptr);
    // Repaired input and doubtful labels are warned of when they are imported, or always, and then of labels
    // that are left out, too.
    enum class Warn { kWhenImported, kAlways };
    // With the tokens of the named splits (those that the data set has).
    static Dataset open(const Context& context, const ReadOptions& reading, const Tokenizer& tokenizer,
                        DataSummary* summary = nullptr,
                        const std::vector<SplitName>& splits = {std::begin(kAllSplits), std::end(kAllSplits)},
                        Warn warn = Warn::kWhenImported);
    // Says how many labels were left out of the rows of a split, as no training row has them.
    void warn_of_unseen(const Context& context, SplitName name) const;
    // Says which of the labels the rows of a split cannot have, as their file of columns of 0 and 1 has none
    // for them. `names` is asked where there are such columns.
    using Names = std::function<std::vector<std::string_view>()>;
    void warn_of_missing_columns(const Context& context, SplitName name, const Names& names) const;
    ~Dataset();
    Dataset(Dataset&&) noexcept;
    Dataset& operator=(Dataset&&) noexcept;

    const Split& split(SplitName name) const;
    const Split& train() const { return split(SplitName::kTrain); }
    const Split& test() const { return split(SplitName::kTest); }
    // A validation file's rows; not present where reading.validation is a share (see split_validation).
    const Split& validation() const { return split(SplitName::kValidation); }

    std::int64_t num_labels() const;
    bool has_label_names() const;
    std::string_view label_name(std::int64_t label) const;  // "" without names
    // Of the names in order, a line end after each.
    std::uint64_t names_hash() const;
    // Training rows of each label; empty where the data set has no training labels.
    std::span<const std::int64_t> label_counts() const;

    // "trn_filter_labels.txt (xxh64 0123456789abcdef)", or "none".
    std::string filter_description(SplitName name) const;
    std::int64_t mapped_bytes() const;
    // The folder of the binary cache.
    const std::filesystem::path& cache() const;

  private:
    struct Impl;
    static Dataset open_with(const Context& context, const ReadOptions& reading, const Tokenizer* tokenizer,
                             DataSummary* summary, const std::vector<SplitName>& splits, Warn warn);
    explicit Dataset(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Rows for training and for validation out of the training split, ascending. With a share, a row's place
// depends only on (seed, row), where row is the first one with the same text, so that no text is on both
// sides (unless reading.equal_texts_together is off; texts may then be empty); without one all rows train.
// ConfigError when no row is left to train on.
struct RowLists {
    std::vector<std::int64_t> train, validation;
};
RowLists split_validation(const ReadOptions& reading, std::int64_t train_rows, const TokenRows& texts);

// The most labels that a filter removes from one row.
std::int64_t longest_filter(const Split& split);

}  // namespace elmo
