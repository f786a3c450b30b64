// What a run reads: its tokenizer, its data set, and which rows train and which validate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "batches/batcher.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "engine/engine.h"
#include "model/encoder/encoder_spec.h"
#include "run/checkpoint.h"
#include "run/choices.h"
#include "text/tokenizer.h"

namespace elmo {

// Of the label names in order; "" where there are none.
std::string names_hash(const Dataset& dataset);
std::string names_hash(const std::vector<std::string_view>& names);

// Of the tokens and labels of training rows, by which a run recognises its data.
std::string rows_hash(const Split& train, const Split& augmented = {});

// Opens everything for training. `checkpoint` is set when a run is continued: tokenizer and encoder come from
// it.
class RunData {
  public:
    RunData(const Context& context, Config config, const Checkpoint* checkpoint);

    const Config& config() const { return config_; }  // with every number chosen
    // The planner took what changes digits for recompute = auto: the run keeps it.
    void store_recompute(const std::string& mode);
    std::int64_t max_length() const { return max_length_; }  // as cut
    const EncoderSpec& encoder_spec() const { return spec_; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    const Dataset& dataset() const { return *dataset_; }
    const DataSummary& summary() const { return summary_; }

    const BatchPlan& train() const { return *train_; }
    // Rows of train() that augment made, after those of the data set.
    const Augmentation& augmentation() const { return augmentation_; }
    bool has_validation() const { return validation_.has_value(); }
    const BatchPlan& validation() const { return *validation_; }
    const Split& validation_split() const { return *validation_split_; }
    // Validation rows have a file of their own; else they are left out of the training rows.
    bool validation_split_is_file() const {
        return validation_split_ != nullptr && validation_split_ != &dataset_->train();
    }

    std::int64_t total_steps() const { return total_steps_; }
    // What this rank has of the run; with `ranks` in the configuration, what one of them has: the first, or
    // the planned one.
    RankShare share(const Context& context) const;
    void plan_rank(std::int64_t rank) { planned_rank_ = rank; }
    // From now on the data of the same run with another batch size.
    void plan_batch(std::int64_t batch_size);
    // Encoder and head that this rank trains. A collective of the ranks.
    EngineParts parts(const Context& context) const;
    // Room for every batch of the run and of its validations, with that many labels ranked.
    RunShape shape(const Context& context, std::int64_t largest_k) const;
    // Memory that keeps the text vectors of all training rows; 0 where they are not to be kept: the encoder
    // learns, or dropout of the kept vectors would round otherwise.
    std::int64_t kept_vector_bytes() const;
    // DataError, with what to do, if `state`, described by this data, is of other rows or labels than `was`.
    void require_data_of(const RunState& was, const RunState& state,
                         const std::filesystem::path& folder) const;
    // Fills the facts by which a run recognises its data.
    void describe(RunState& state) const;
    LabelTable labels() const;
    // Of the training rows; those that validate are not among them.
    TrainedTexts trained_texts() const;
    // The labels of this rank among those that are compensated, ascending: of the whole run the most frequent
    // in the training rows; ties go to the lower label. Validation rows and label texts do not count. A
    // collective of the ranks: the first counts for all.
    std::vector<std::int64_t> own_compensated(const Context& context) const;

  private:
    void warn_of_trained_validation(const Context& context, const Split& file) const;
    void make_spec(const Checkpoint* checkpoint);
    // Whether a continued run is given data at another place than it was trained on.
    bool is_other_path() const;
    // What to do where the data of a continued run is not what it was trained on.
    std::string data_advice() const;
    // Opens train and validation rows, cut at max_length or at what is chosen for it.
    void open_dataset(const Context& context);
    // Every number that is still `auto`, now that the data is known.
    void choose_numbers(const Context& context, const Checkpoint* checkpoint);
    std::vector<std::int64_t> frequent_labels(std::int64_t count) const;

    Config config_;
    std::string data_of_run_;  // of a continued one
    EncoderStart start_;
    EncoderSpec spec_;
    std::int64_t max_length_ = 0;
    std::unique_ptr<Tokenizer> tokenizer_;
    std::optional<Dataset> dataset_;
    DataSummary summary_;
    Augmentation augmentation_;
    std::optional<BatchPlan> train_, validation_;
    const Split* validation_split_ = nullptr;
    std::int64_t total_steps_ = 0;
    std::int64_t planned_rank_ = 0;
};

}  // namespace elmo
