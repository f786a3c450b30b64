// `elmo train`: one run, from data to checkpoints.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

struct TrainResult {
    std::string run;  // its folder
    std::int64_t steps = 0;
    double epochs = 0;
    bool interrupted = false;
    double train_seconds = 0;  // inside steps only
    double texts_per_second = 0;
    // Of a text: the sum over all labels, mean over the last batch logged. NaN (null in JSON) of a linear
    // model.
    double last_loss = std::numeric_limits<double>::quiet_NaN();
    // The same divided by the labels: a mean per text and label.
    double last_loss_per_label = std::numeric_limits<double>::quiet_NaN();
    std::string select;  // the score that picks the best
    // Percent, of the validation set; NaN where nothing validated.
    double best_score = std::numeric_limits<double>::quiet_NaN();
    std::int64_t best_step = 0;
    MemoryReport planned;
    std::int64_t measured_peak_bytes = 0;  // peak resident memory of the process
    std::int64_t saturations = 0;          // weights that reached the largest finite number of their format
    std::int64_t skipped_steps = 0;        // precision renee: of the encoder, dx beyond FP16
};

template <typename Visit>
void visit_fields(const TrainResult& result, Visit&& visit) {
    visit("run", result.run);
    visit("steps", result.steps);
    visit("epochs", result.epochs);
    visit("interrupted", result.interrupted);
    visit("train_seconds", result.train_seconds);
    visit("texts_per_second", result.texts_per_second);
    visit("last_loss", result.last_loss);
    visit("last_loss_per_label", result.last_loss_per_label);
    visit("select", result.select);
    visit("best_score", result.best_score);
    visit("best_step", result.best_step);
    visit("planned_peak_bytes", result.planned.total_bytes());
    visit("measured_peak_bytes", result.measured_peak_bytes);
    visit("saturations", result.saturations);
    visit("skipped_steps", result.skipped_steps);
    visit("plan", result.planned);
}

// Trains. When its context asks it to stop, it ends after the current step with everything saved.
ELMO_API TrainResult train(const Context& context, const Config& config);

}  // namespace elmo
