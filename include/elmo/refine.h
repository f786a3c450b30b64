// `elmo refine`: trains the head of a run again in higher precision, with a fixed encoder.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

struct RefineResult {
    std::string run;  // its folder
    std::string from_precision, precision;
    std::int64_t texts = 0, labels = 0, steps = 0;
    std::int64_t subsets = 0, subset_labels = 0;  // of this call
    std::int64_t labels_done = 0;                 // now; all of them unless interrupted
    std::int64_t labels_resumed = 0;              // of these, done by earlier calls
    bool interrupted = false;
    // Of a text, over the labels refined in this call: means over the first and the last 32 steps, or halves.
    double first_loss = 0, last_loss = 0;
    double seconds = 0;
    std::int64_t vector_bytes = 0;          // of the text vectors, on disk during the work
    MemoryReport encoding_plan, head_plan;  // the two stages, one after the other
    std::int64_t measured_peak_bytes = 0;   // of the larger stage
};

template <typename Visit>
void visit_fields(const RefineResult& result, Visit&& visit) {
    visit("run", result.run);
    visit("from_precision", result.from_precision);
    visit("precision", result.precision);
    visit("texts", result.texts);
    visit("labels", result.labels);
    visit("labels_done", result.labels_done);
    visit("labels_resumed", result.labels_resumed);
    visit("steps", result.steps);
    visit("subsets", result.subsets);
    visit("subset_labels", result.subset_labels);
    visit("interrupted", result.interrupted);
    visit("first_loss", result.first_loss);
    visit("last_loss", result.last_loss);
    visit("seconds", result.seconds);
    visit("vector_bytes", result.vector_bytes);
    visit("measured_peak_bytes", result.measured_peak_bytes);
    visit("encoding_plan", result.encoding_plan);
    visit("head_plan", result.head_plan);
}

// The defaults for refining this run: the run's own recipe, bf16, two epochs, a tenth of the run's head_lr,
// no dropout if the encoder is a transformer. A caller may change them, or give refine() only what differs.
// DataError.
ELMO_API Config refinement_defaults(const std::string& run, const std::string& checkpoint = "best");

// Writes to config.out the run in `run` with its head refined on config.data. The vectors of all training
// texts are computed once into OUT/refine. Then the head is trained on them, as many labels at a time as fit
// in config.max_memory and the machine; the result does not depend on how many. The same call with
// config.resume continues after an interruption. Options used: how data is read,
// checkpoint, precision (bf16 or fp32), epochs, steps, batch_size, head_lr, head_weight_decay, dropout,
// schedule, warmup_steps, chunks, out, resume, overwrite, device, threads, cpu_products, max_memory; all
// others come from the run. When its context asks it to stop, it ends after the current step and keeps
// finished subsets.
ELMO_API RefineResult refine(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
