// A run's checkpoint and the labelled rows that it is judged on: what eval and calibrate share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "model/encoder/encoder_spec.h"
#include "rank/label_match.h"
#include "rank/scored_rows.h"
#include "rank/scoring.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"

namespace elmo {

// A row with its true labels, ascending, in the run's numbers.
struct ScoredRow {
    SplitName split;
    std::int64_t row;
    std::span<const std::uint32_t> truth;
};
using TakeScored = std::function<void(const ScoredRow& row, std::vector<ScoredLabel>& ranked)>;

// What messages call a run that is the only one.
inline constexpr const char* kThisRun = "this run";

class ScoredRun {
  public:
    // Opens checkpoint and data. Reading options that are not given come from the run. If the labels differ
    // from the run's, they are matched by name, and this is reported; DataError if fewer than half of them
    // match. Rows that trained the run are noticed by their texts and reported.
    ScoredRun(const Context& context, const std::string& run, const Config& given)
        : ScoredRun(context, run, Checkpoint(run, given.checkpoint), given) {}
    // Of a checkpoint that is open, for what can be refused before the data are read. Messages call the run
    // `called`.
    ScoredRun(const Context& context, const std::string& run, Checkpoint checkpoint, const Config& given,
              std::string called = kThisRun);
    ScoredRun(const ScoredRun&) = delete;
    ScoredRun& operator=(const ScoredRun&) = delete;

    const Checkpoint& checkpoint() const { return checkpoint_; }
    const Config& config() const { return config_; }
    const Dataset& dataset() const { return dataset_; }
    // In the run's label numbers.
    const std::vector<ScoredRows>& parts() const { return parts_; }
    std::int64_t num_rows() const;
    // Of data most of whose rows trained the run, so that only the others are scored: all of them. Else 0.
    std::int64_t offered_rows() const { return offered_rows_; }
    // Labels that occur: the run's, then those of the data that it does not have.
    std::int64_t num_labels() const { return checkpoint_.state().labels + unknown_; }
    // Training rows of each of them: as the run counted them, and as the data set does for those that the run
    // does not have.
    std::vector<std::int64_t> label_counts() const;
    // Names of labels are known after load_names(); a label without one is named by its number.
    void load_names() { names_ = checkpoint_.label_names(); }
    std::string label_name(std::int64_t label) const;
    // Texts among the rows that trained the run, as many as are known: earlier versions kept no trace.
    std::int64_t trained_rows() const { return trained_rows_; }
    // Others of which that cannot be told: the tokenizer knows little of them.
    std::int64_t untold_rows() const { return untold_rows_; }
    // How labels were matched; "" if they are the run's.
    const std::string& matched() const { return matched_; }
    // The number in the data of a label of the run; -1 where the data does not have it.
    std::int64_t data_number(std::int64_t label) const {
        return data_numbers_.empty() ? label : data_numbers_[static_cast<std::size_t>(label)];
    }
    // Labels of the run that the data does not have.
    std::int64_t missing_labels() const { return missing_; }
    // Tells which rows are scored.
    std::uint64_t rows_hash() const;

    // Ranks k labels of each row, filter pairs removed: see rank_rows. `table_bytes`: what the caller keeps
    // meanwhile, for the plan.
    void rank(std::int64_t k, const std::string& title, const TakeScored& take,
              std::int64_t table_bytes = 0) const;

  private:
    Context context_;
    std::string called_;
    Checkpoint checkpoint_;
    EncoderSpec spec_;
    std::unique_ptr<Tokenizer> tokenizer_;
    Config config_;
    Dataset dataset_;
    std::vector<ScoredRows> parts_;
    std::int64_t trained_rows_ = 0, untold_rows_ = 0;
    std::int64_t unknown_ = 0, missing_ = 0;
    std::vector<std::int64_t> data_numbers_;  // empty where labels are the run's
    std::vector<std::int64_t> unknown_counts_;
    std::vector<std::string_view> names_, unknown_names_;
    std::string matched_;
    std::int64_t offered_rows_ = 0;
    // What a part points to when labels were matched.
    struct Renumbered {
        Split split;
        std::vector<std::uint32_t> labels, filter;
    };
    std::vector<std::unique_ptr<Renumbered>> renumbered_;

    void match(const std::string& run);
    std::string scored_data() const;  // for messages: the data, or the file of its validation rows
    // The rows to score, the others where most of them trained the run; reports texts that did.
    void choose_parts(const Config& given);
    void choose_untrained(const Config& given, const TrainedTexts& texts);
    bool is_other_data(const TrainedTexts& texts) const;
    void leave_other_data(const Config& given, const TrainedTexts& texts);
    void score_all(const char* reason);
};

}  // namespace elmo
