// A run's checkpoint and the labelled rows that it is judged on: what eval and calibrate share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "elmo/config.h"
#include "model/encoder_spec.h"
#include "text/tokenizer.h"
#include "train/checkpoint.h"
#include "train/scoring.h"

namespace elmo {

// The rows that config.split names. Validation rows of a share are those that training left out.
struct ScoredRows {
    const Split* split = nullptr;
    SplitName name = SplitName::kTest;
    std::vector<std::int64_t> rows;
};
ScoredRows choose_rows(const Config& config, const Dataset& dataset);

class ScoredRun {
  public:
    // Opens checkpoint and data. What says how the data is read comes from the run where `given` has the
    // default. DataError when the data has other labels than the run.
    ScoredRun(const std::string& run, const Config& given);

    const Checkpoint& checkpoint() const { return checkpoint_; }
    const Config& config() const { return config_; }
    const Dataset& dataset() const { return dataset_; }
    const ScoredRows& rows() const { return rows_; }

    // Ranks k labels of each row, filter pairs removed: see rank_rows.
    void rank(std::int64_t k, const std::string& title, const TakeRanked& take) const;

  private:
    Checkpoint checkpoint_;
    EncoderSpec spec_;
    std::unique_ptr<Tokenizer> tokenizer_;
    Config config_;
    Dataset dataset_;
    ScoredRows rows_;
};

}  // namespace elmo
