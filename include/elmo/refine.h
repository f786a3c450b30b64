// `elmo refine`: the head of a trained run once more, in higher precision, with the encoder as it is.
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
    std::int64_t labels_resumed = 0;              // of them there before
    bool interrupted = false;
    // Of a text, over the labels refined in this call: means over the first and the last 32 steps, or halves.
    double first_loss = 0, last_loss = 0;
    double seconds = 0;
    std::int64_t vector_bytes = 0;          // of the text vectors, on the disk while it works
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

// What a refinement of this run takes where nothing is given: the run's own recipe, bf16, two epochs, a
// tenth of the run's head_lr, no dropout where the encoder is a transformer. A caller may change it, or give
// refine() only what is to differ. DataError.
ELMO_API Config refinement_defaults(const std::string& run, const std::string& checkpoint = "best");

// Writes to config.out the run in `run` with its head refined on config.data. The vectors of all training
// texts are computed once into OUT/refine, then the head is trained on them, as many labels at a time as
// config.max_memory and the machine have room for: the result does not depend on how many. A call that was
// interrupted or killed is continued by the same call with config.resume. Options used: how data is read,
// checkpoint, precision (bf16 or fp32), epochs, steps, batch_size, head_lr, head_weight_decay, dropout,
// schedule, warmup_steps, chunks, out, resume, overwrite, device, threads, cpu_products, max_memory; all
// others are the run's. Asked to stop by its context, it ends after the running step; finished subsets are
// kept.
ELMO_API RefineResult refine(const Context& context, const std::string& run, const Config& config);

}  // namespace elmo
