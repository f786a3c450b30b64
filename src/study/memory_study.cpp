// elmo study memory: what a step holds, by segment and phase, and how its peak grows with the labels.
#include <fmt/format.h>

#include "elmo/elmo.h"
#include "study/engines.h"

namespace elmo {

Study memory_study(const StudyRequest& request) {
    Study study;
    study.name = request.name;
    study.title = "Memory of a training step";
    const MemoryReport plan = plan_memory(request.config);
    Table table{"segments", "Segments", {{"segment", "segment"}, {"bytes", "bytes"}}, {}};
    for (const Segment& segment : plan.segments) table.rows.push_back({segment.name, segment.bytes});
    study.tables = {table};
    return study;
}

}  // namespace elmo
