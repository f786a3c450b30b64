// A run's checkpoint and the labelled rows that it is judged on: what eval and calibrate share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "model/encoder/encoder_spec.h"
#include "rank/label_match.h"
#include "rank/scoring.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"

namespace elmo {

// The rows that reading.split names. Validation rows of a share are those that training left out.
struct ScoredRows {
    const Split* split = nullptr;
    SplitName name = SplitName::kTest;
    std::vector<std::int64_t> rows;
};
ScoredRows choose_rows(const ReadOptions& reading, const Dataset& dataset);

class ScoredRun {
  public:
    // Opens checkpoint and data. Reading options that are not given come from the run. If the labels differ
    // from the run's, they are matched by name, and this is reported; DataError if fewer than half of them
    // match.
    ScoredRun(const Context& context, const std::string& run, const Config& given);
    ScoredRun(const ScoredRun&) = delete;
    ScoredRun& operator=(const ScoredRun&) = delete;

    const Checkpoint& checkpoint() const { return checkpoint_; }
    const Config& config() const { return config_; }
    const Dataset& dataset() const { return dataset_; }
    // In the run's label numbers.
    const ScoredRows& rows() const { return rows_; }
    // Labels that occur: the run's, then those of the data that it does not have.
    std::int64_t num_labels() const { return checkpoint_.state().labels + unknown_; }
    // Training rows of each of them: as the run counted them, and as the data set does for those that the run
    // does not have.
    std::vector<std::int64_t> label_counts() const;
    // How labels were matched; "" if they are the run's.
    const std::string& matched() const { return matched_; }

    // Ranks k labels of each row, filter pairs removed: see rank_rows.
    void rank(std::int64_t k, const std::string& title, const TakeRanked& take) const;

  private:
    Context context_;
    Checkpoint checkpoint_;
    EncoderSpec spec_;
    std::unique_ptr<Tokenizer> tokenizer_;
    Config config_;
    Dataset dataset_;
    ScoredRows rows_;
    std::int64_t unknown_ = 0;
    std::vector<std::int64_t> unknown_counts_;
    std::string matched_;
    Split renumbered_;  // what rows_ points to when labels were matched, over these values
    std::vector<std::uint32_t> labels_, filter_;

    void match(const std::string& run);
};

}  // namespace elmo
