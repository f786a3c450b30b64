// `elmo bench`: speed beside the roofline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

struct BenchPhase {
    std::string name;
    double median_ms = 0;
    double flops = 0;
    double bytes = 0;
};

template <typename Visit>
void visit_fields(const BenchPhase& phase, Visit&& visit) {
    visit("name", phase.name);
    visit("median_ms", phase.median_ms);
    visit("flops", phase.flops);
    visit("bytes", phase.bytes);
}

struct BenchResult {
    std::string what;  // "step", "head", "encoder", "predict", "tokenize"
    std::string device;
    std::int64_t threads = 0;
    double median_ms = 0, min_ms = 0, max_ms = 0;
    double host_ms = 0;  // time the host needs to enqueue one step on a device
    std::vector<BenchPhase> phases;
    double flops = 0, bytes = 0;         // of one step
    double peak_gflops = 0;              // measured product rate of this machine, same arithmetic
    double peak_gbytes = 0;              // measured copy rate
    double floor_ms = 0;                 // max(flops / peak, bytes / copy rate)
    double sol_percent = 0;              // floor / median: share of the speed of light
    double head_ms = 0, encoder_ms = 0;  // medians of their phases
    MemoryReport memory;                 // the plan
    std::int64_t measured_peak_bytes = 0;
    std::int64_t skipped_steps = 0;  // precision renee: dx beyond FP16; includes the warm-up steps
    double items_per_second = 0;     // texts, or bytes of text for tokenize
    // predict, where a tokenizer is given: tokens of a batch by all threads, and texts per second with it.
    double tokenize_ms = 0, texts_per_second = 0;
};

template <typename Visit>
void visit_fields(const BenchResult& result, Visit&& visit) {
    visit("what", result.what);
    visit("device", result.device);
    visit("threads", result.threads);
    visit("median_ms", result.median_ms);
    visit("min_ms", result.min_ms);
    visit("host_ms", result.host_ms);
    visit("max_ms", result.max_ms);
    visit("items_per_second", result.items_per_second);
    if (result.tokenize_ms > 0) {
        visit("tokenize_ms", result.tokenize_ms);
        visit("texts_per_second", result.texts_per_second);
    }
    visit("flops", result.flops);
    visit("bytes", result.bytes);
    visit("peak_gflops", result.peak_gflops);
    visit("peak_gbytes", result.peak_gbytes);
    visit("floor_ms", result.floor_ms);
    visit("sol_percent", result.sol_percent);
    visit("head_ms", result.head_ms);
    visit("encoder_ms", result.encoder_ms);
    visit("peak_gib", static_cast<double>(result.memory.total_bytes()) / (1 << 30));
    visit("planned_bytes", result.memory.total_bytes());
    visit("recompute", result.memory.recompute);
    visit("chunks", result.memory.chunks);
    visit("measured_peak_bytes", result.measured_peak_bytes);
    visit("skipped_steps", result.skipped_steps);
    visit("phases", result.phases);
    visit("segments", result.memory.segments);
}

// what: step, head, encoder, predict or tokenize. Uses labels, batch_size, max_length, width, encoder,
// precision, threads, steps (iterations) of the configuration.
ELMO_API BenchResult bench(const Context& context, const std::string& what, const Config& config);

}  // namespace elmo
