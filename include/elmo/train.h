// `elmo train`: one run, from data to checkpoints.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

struct TrainResult {
    std::int64_t steps = 0;
    double epochs = 0;
    bool interrupted = false;
    double train_seconds = 0;  // inside steps only
    double texts_per_second = 0;
    double last_loss = 0;
    std::string select;     // what best means
    double best_score = 0;  // percent; of the validation set
    std::int64_t best_step = 0;
    MemoryReport planned;
    std::int64_t measured_peak_bytes = 0;  // peak resident memory of the process
    std::int64_t saturations = 0;          // weights that met the largest finite number of their format
    std::int64_t skipped_steps = 0;        // precision renee: gradients beyond FP16
};

// Trains. Asked to stop by its context, it ends after the running step with everything saved.
ELMO_API TrainResult train(const Context& context, const Config& config);

}  // namespace elmo
