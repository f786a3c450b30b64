// The training loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elmo/context.h"
#include "elmo/train.h"
#include "engine/train_step.h"
#include "ranks/collectives.h"
#include "run/checkpoint.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "train/collapse.h"
#include "train/kept_vectors.h"
#include "train/run_log.h"
#include "train/schedule.h"
#include "train/step_meter.h"
#include "train/take_over.h"

namespace elmo {

// Observes chosen steps of a run: the input of the head.
class StepProbe {
  public:
    virtual ~StepProbe() = default;
    virtual bool wants(std::int64_t step) const = 0;
    // x and w are in the backend's memory; w is from before the update.
    virtual void look(std::int64_t step, Backend& backend, View x_BD, View w_LD,
                      const Positives& positives) = 0;
};

class Trainer {
  public:
    // `config` is resolved. Opens data, plans and takes memory, starts or restores the weights. Writes
    // nothing yet.
    Trainer(const Context& context, RunFolder& folder, const Config& config);
    TrainResult run();
    // Before run(): a checkpoint of best/ of the same run, which went further than what was restored.
    void keep_best(const RunState& found);
    std::int64_t total_steps() const { return state_.total_steps; }
    const Config& config() const { return config_; }  // with every number chosen
    // Before run(): the probe must outlive it.
    void set_probe(StepProbe& probe) { probe_ = &probe; }

  private:
    void restore(const Checkpoint& checkpoint);
    std::int64_t skipped_steps() const;
    void announce() const;
    void loop();
    std::int64_t eval_steps() const;  // between validations
    bool out_of_patience() const;     // below the best score in as many validations as patience says
    TrainResult summary(bool interrupted) const;
    // One step on one batch; the loss of a text when wanted.
    double step_on(const Batch& batch, bool want_loss);
    // What the step's update of the encoder takes.
    EncoderUpdate encoder_update(bool check) const;
    [[noreturn]] void non_finite(std::int64_t step, const std::string& what) const;
    void check_gradient(const Parameter& parameter) const;
    void event(const std::string& kind, nlohmann::ordered_json fields);  // to the log
    void log_step(double loss, std::int64_t texts);
    void validate_and_save(bool saves_last);
    // The score that is selected by. Collapse.
    double validate();
    double near_best() const;  // how far below the highest score a later one is kept as the best
    EngineOptions engine_options() const;
    EngineParts parts_of_same_run();
    // Says where many rows that are to validate trained the run that this one starts from, or, `of_several`,
    // those before it.
    void warn_of_validation(const TrainedTexts& of_init, bool of_several) const;
    // label_weights_ from those of all labels, which the first rank gets.
    void share_label_weights(const std::function<std::vector<float>()>& all);
    // Whether the vectors of different texts still differ. Collapse.
    void look_at_vectors();
    void collapsed(const std::optional<std::string>& what) const;
    void save(const std::filesystem::path& folder, bool to_continue);
    // Whether any rank wants to stop, and whether the first wants to save last/ by the clock.
    enum Wish : std::uint32_t { kStop = 1, kSave = 2 };
    std::uint32_t agree(bool stop, bool save) const;
    double epoch() const {
        return static_cast<double>(state_.step) / static_cast<double>(state_.steps_per_epoch);
    }

    Context context_;
    Ranks& ranks_;
    RunFolder& folder_;
    RunData data_;
    const Config& config_;  // of data_
    LabelTable labels_;     // of the first rank
    RunState state_;
    TrainedTexts trained_texts_;        // of this run and the one that it started from; of the first rank
    std::vector<float> label_weights_;  // how many times positives count; empty: once; of all labels on the
                                        // first rank, of its own on another
    Schedule schedule_;
    Engine engine_;
    StepMeter meter_;
    std::optional<TakenOver> taken_;   // of a run that starts from another one
    std::optional<KeptVectors> kept_;  // of a frozen encoder
    std::optional<RunLog> log_;        // of the first rank
    StepProbe* probe_ = nullptr;
    double blind_loss_ = 0;

    double seconds_ = 0, logged_seconds_ = 0;  // inside steps
    // Of last/: when it was saved, how long that took, and its step.
    std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
    double save_seconds_ = 0;
    std::int64_t saved_step_ = -1;
    std::int64_t texts_ = 0, logged_texts_ = 0, logged_tokens_ = 0, logged_step_ = 0;
};

}  // namespace elmo
