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

struct BenchResult {
    std::string what;  // "step", "head", "encoder", "predict", "tokenize"
    std::string device;
    std::int64_t threads = 0;
    double median_ms = 0, min_ms = 0, max_ms = 0;
    double host_ms = 0;  // what the host takes to hand one step to a device
    std::vector<BenchPhase> phases;
    double flops = 0, bytes = 0;         // of one step
    double peak_gflops = 0;              // measured product rate of this machine, same arithmetic
    double peak_gbytes = 0;              // measured copy rate
    double floor_ms = 0;                 // max(flops / peak, bytes / copy rate)
    double sol_percent = 0;              // floor / median: share of the speed of light
    double head_ms = 0, encoder_ms = 0;  // medians of their phases
    MemoryReport memory;                 // the plan
    std::int64_t measured_peak_bytes = 0;
    std::int64_t skipped_steps = 0;  // precision renee: gradients beyond FP16; before the timed steps too
    double items_per_second = 0;     // texts, or bytes of text for tokenize
};

// what: step, head, encoder, predict or tokenize. Uses labels, batch_size, max_length, width, encoder,
// precision, threads, steps (iterations) of the configuration.
ELMO_API BenchResult bench(const Context& context, const std::string& what, const Config& config);

}  // namespace elmo
