// `elmo plan`: the memory of a training run, known before it starts, and its time, estimated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

// The memory of a training run of this configuration, without running it. Uses the data set's cache for
// labels and lengths if `data` is set, else `labels` and full-length texts.
ELMO_API MemoryReport plan_memory(const Context& context, const Config& config);

// How long training takes: the least time that this machine's measured product and copy rates allow for the
// work of a step, divided by the share of them that steps usually reach. Reading, validation and saving come
// on top.
struct TimeEstimate {
    double step_ms = 0;  // 0: not known
    double texts_per_second = 0;
    std::int64_t steps = 0;  // 0: no data says how many
    double seconds = 0;      // of all steps
    std::string why_none;    // for people, where step_ms is 0
};

// The memory of the same run with another precision or batch size.
struct PlanChoice {
    std::string precision;
    std::int64_t batch_size = 0;
    std::int64_t bytes = 0;
    bool planned = false;  // this is the run itself
    bool fits = false;     // in max_memory, or else in what is free here now
};

struct ELMO_API PlanReport {
    MemoryReport memory;
    TimeEstimate time;
    std::int64_t room_bytes = 0;      // that choices are compared with; 0: not known
    std::vector<PlanChoice> choices;  // precisions, each with several batch sizes; empty for linear
    // Of several ranks: tables of labels and texts in main memory, which only the first has for all labels.
    // On a CPU the total has those of the rank that is planned.
    std::int64_t first_rank_table_bytes = 0, other_rank_table_bytes = 0;
    std::string describe() const;  // tables for people
};

template <typename Visit>
void visit_fields(const TimeEstimate& time, Visit&& visit) {
    visit("step_ms", time.step_ms);
    visit("texts_per_second", time.texts_per_second);
    visit("steps", time.steps);
    visit("seconds", time.seconds);
    visit("why_none", time.why_none);
}

template <typename Visit>
void visit_fields(const PlanChoice& choice, Visit&& visit) {
    visit("precision", choice.precision);
    visit("batch_size", choice.batch_size);
    visit("bytes", choice.bytes);
    visit("planned", choice.planned);
    visit("fits", choice.fits);
}

template <typename Visit>
void visit_fields(const PlanReport& report, Visit&& visit) {
    visit_fields(report.memory, visit);
    visit("estimated_time", report.time);
    visit("room_bytes", report.room_bytes);
    visit("choices", report.choices);
    visit("first_rank_table_bytes", report.first_rank_table_bytes);
    visit("other_rank_table_bytes", report.other_rank_table_bytes);
}

// The plan with an estimate of the time and with what else would fit. Measures this machine for a second,
// unless its device is not here.
ELMO_API PlanReport plan_training(const Context& context, const Config& config);

}  // namespace elmo
