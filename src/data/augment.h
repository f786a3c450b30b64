// Training points made from the labels: each label's text, with that label as its only positive, or with the
// labels that occur beside it as soft targets. They are rows for training only: no validation, no score and
// no label count sees them.
//
// Soft targets follow Gandalf (Kharbanda et al., KDD 2024): the target of label j for the text of label i is
// the share of i's training rows that also have j, left out below a threshold; that of i itself is 1.
#pragma once

#include <optional>

#include "cache/cache_file.h"
#include "config/views.h"
#include "data/dataset.h"
#include "elmo/context.h"
#include "text/tokenizer.h"

namespace elmo {

// What label names are as texts, on a sample of them: the share that has words, and the share that stands
// among the training texts as well. All zero where the data set has no names.
struct LabelTexts {
    double words = 0, rows = 0;
};
LabelTexts look_at_label_texts(const Dataset& dataset, const Tokenizer& tokenizer, std::int64_t max_length);

class Augmentation {
  public:
    // Maps the extra rows that reading.augment asks for, making them when they are not in the data set's
    // cache; no rows with "none". DataError where the data set has no label names. Labels whose text is empty
    // make no row.
    static Augmentation open(const Context& context, const ReadOptions& reading, const Dataset& dataset,
                             const Tokenizer& tokenizer);

    const Split& rows() const { return rows_; }
    std::int64_t cut_rows() const;  // texts longer than max_length
    std::int64_t mapped_bytes() const { return file_ ? file_->bytes() : 0; }

  private:
    std::optional<CacheFile> file_;
    Split rows_;
};

}  // namespace elmo
