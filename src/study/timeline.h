// The memory of a step by phase: what a plan holds when, as a chart and as a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/memory.h"
#include "page/study.h"

namespace elmo {

double gib(std::int64_t bytes);

// Bytes of each layer in each phase.
struct Timeline {
    std::vector<std::string> phases, layers;
    std::vector<std::vector<std::int64_t>> bytes;  // [layer][phase]
    std::vector<std::int64_t> totals;              // [phase]
};

Timeline timeline_of(const MemoryReport& plan);
// `mode` is for the title.
StackedChart chart_of(const Timeline& timeline, const std::string& mode);
Table table_of(const Timeline& timeline, const std::string& name, const std::string& mode);

}  // namespace elmo
