// The memory of a run: every tensor by name, and what is alive in each phase of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"

namespace elmo {

struct Segment {
    std::string name;  // "head/weights", "encoder/activations/layer.3/attention", ...
    std::int64_t bytes = 0;
    bool at_peak = false;  // alive when the arena is fullest
};

// A phase of a training step, at its fullest moment.
struct MemoryPhase {
    std::string name;  // "start", "encoder forward", "head", "encoder backward"
    std::int64_t bytes = 0;
    std::vector<std::size_t> segments;  // alive at that moment: indices into MemoryReport::segments
};

struct ELMO_API MemoryReport {
    std::string device;               // whose memory: "cpu", "cuda" (without the CUDA context), "reference"
    std::vector<Segment> segments;    // in the order of allocation
    std::vector<MemoryPhase> phases;  // in the order of a step; the fullest has arena_bytes
    std::int64_t arena_bytes = 0;     // peak of the arena: what elmo allocates for the model and the step
    std::int64_t mapped_bytes = 0;    // files mapped, not allocated: token cache, head at prediction
    std::int64_t program_bytes = 0;   // code, libraries and their scratch: measured once, not planned
    std::int64_t total_bytes() const { return arena_bytes + mapped_bytes + program_bytes; }
    std::int64_t host_bytes = 0;  // of the host, beside a device's: a head in host memory. Not in the total
    std::int64_t max_bytes = 0;   // max_memory, 0 if not given
    bool fits() const { return max_bytes == 0 || total_bytes() <= max_bytes; }
    bool fixed_width = false;        // the encoder has its own
    bool fixed_model = false;        // a run's: only what works on it can be made smaller
    std::int64_t chunks = 1;         // chosen or given
    std::string recompute = "none";  // of the encoder's layers, chosen or given
    std::string describe() const;    // a table for people
    std::string advice() const;      // what to change so that less is needed, by what takes most
};

template <typename Visit>
void visit_fields(const Segment& segment, Visit&& visit) {
    visit("name", segment.name);
    visit("bytes", segment.bytes);
    visit("at_peak", segment.at_peak);
}

template <typename Visit>
void visit_fields(const MemoryPhase& phase, Visit&& visit) {
    visit("name", phase.name);
    visit("bytes", phase.bytes);
}

template <typename Visit>
void visit_fields(const MemoryReport& report, Visit&& visit) {
    visit("total_bytes", report.total_bytes());
    visit("arena_bytes", report.arena_bytes);
    visit("mapped_bytes", report.mapped_bytes);
    visit("program_bytes", report.program_bytes);
    visit("host_bytes", report.host_bytes);
    visit("chunks", report.chunks);
    visit("recompute", report.recompute);
    visit("phases", report.phases);
    visit("segments", report.segments);
}

}  // namespace elmo
