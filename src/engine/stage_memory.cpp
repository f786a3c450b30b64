#include "engine/stage_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "engine/session.h"

namespace elmo {
namespace {

std::int64_t free_room(const Backend& backend) {
    return backend.free_bytes() - (backend.host_memory() ? kLibraryBytes : 0);
}

}  // namespace

MemoryReport plan_of(const Context& context, const Arena& dry, const Backend& backend,
                     std::int64_t mapped_bytes, std::int64_t table_bytes) {
    MemoryReport plan;
    plan.segments = dry.segments();
    plan.arena_bytes = dry.peak_bytes();
    plan.device = std::string(backend.name());
    if (backend.host_memory()) {
        plan.mapped_bytes = mapped_bytes;
        plan.program_bytes = context.start_bytes() + kLibraryBytes + table_bytes;
    }
    return plan;
}

std::int64_t arena_room(const MemoryReport& plan, const std::string& max_memory, const Backend& backend) {
    std::int64_t room = free_room(backend);
    if (!max_memory.empty())
        room = std::min(room, parse_bytes(max_memory) - (plan.total_bytes() - plan.arena_bytes));
    return room;
}

void require_fits(const MemoryReport& plan, const std::string& max_memory, const Backend& backend) {
    if (!max_memory.empty())
        require_room(plan, parse_bytes(max_memory) - (plan.total_bytes() - plan.arena_bytes),
                     fmt::format("max_memory of {} less program and mapped files",
                                 human_bytes(parse_bytes(max_memory))));
    require_free_memory(plan, backend);
}

}  // namespace elmo
