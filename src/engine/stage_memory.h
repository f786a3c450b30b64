// Memory of a stage of work that lays out an arena of its own: its plan, and whether it may be taken.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "elmo/context.h"
#include "elmo/memory.h"

namespace elmo {

// The plan that a dry arena stands for. `mapped_bytes` are of files, `table_bytes` ordinary memory that grows
// with the data: both count where the arena is the host's.
MemoryReport plan_of(const Context& context, const Arena& dry, const Backend& backend,
                     std::int64_t mapped_bytes, std::int64_t table_bytes);

// What the arena of this plan may take: max_memory less what else the plan holds, and what is free now.
std::int64_t arena_room(const MemoryReport& plan, const std::string& max_memory, const Backend& backend);

// OutOfMemory with the plan when the arena needs more than that.
void require_fits(const MemoryReport& plan, const std::string& max_memory, const Backend& backend);

}  // namespace elmo
