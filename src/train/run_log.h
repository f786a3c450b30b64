// The reports of a training run: RUN/log.jsonl, RUN/tensorboard/ and the progress bar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/progress.h"
#include "elmo/config.h"
#include "elmo/evaluation.h"
#include "formats/json_lines.h"
#include "formats/tensorboard.h"
#include "train/step_meter.h"

namespace elmo {

// One line of the log: the state after `step`, rates over the steps since the previous line.
struct StepLog {
    std::int64_t step = 0;
    double epoch = 0;
    double loss = 0;  // binary cross-entropy of a text: the sum over all labels, mean over the batch
    double loss_per_label = 0;  // the same divided by the labels: what people are shown
    double encoder_lr = 0, head_lr = 0;
    double step_ms = 0, texts_per_second = 0, tokens_per_second = 0;
    std::int64_t saturations = 0;  // since the start of the run
    std::optional<DeviceUse> device;
    struct Scaling {
        double loss_scale = 0;
        std::int64_t skipped_steps = 0;  // since the start of the run
    };
    std::optional<Scaling> scaling;  // precision renee
};

// Every option of a run by its key: its value, and why it has it.
nlohmann::ordered_json values_json(const Config& config);
nlohmann::ordered_json reasons_json(const Config& config);

class RunLog {
  public:
    // Continues what is in `run`; `first_step` is the number of steps already done. Without steps there is no
    // bar.
    RunLog(const Context& context, const std::filesystem::path& run, std::int64_t first_step,
           std::int64_t total_steps);

    // One JSON line of kind "start", "resume", "validation", "checkpoint", "end"... with what belongs to it.
    void event(const std::string& kind, std::int64_t step, nlohmann::ordered_json fields);
    void step(const StepLog& line);
    void validation(std::int64_t step, double epoch, const Evaluation& scores);
    // Moves the bar, which shows the epoch and what the last logged step had to say.
    void tick(std::int64_t step, double epoch);
    void finish();

  private:
    void write(const nlohmann::ordered_json& line);

    Context context_;
    JsonLinesWriter lines_;
    TensorBoardWriter board_;
    std::optional<Progress> progress_;
    std::string note_, shown_;
};

}  // namespace elmo
