// The memory report as a table for people.
#include <fmt/format.h>

#include <map>

#include "base/text_util.h"
#include "elmo/elmo.h"

namespace elmo {

std::string MemoryReport::describe() const {
    std::string text = fmt::format("{:<52} {:>12}\n", "segment", "bytes");
    for (const auto& segment : segments)
        text += fmt::format("{:<52} {:>12}{}\n", segment.name, human_bytes(segment.bytes),
                            segment.at_peak ? "" : "  (not at the peak)");
    text += fmt::format("{:<52} {:>12}\n", "arena peak", human_bytes(arena_bytes));
    if (mapped_bytes > 0) text += fmt::format("{:<52} {:>12}\n", "mapped files", human_bytes(mapped_bytes));
    text += fmt::format("{:<52} {:>12}\n", "program and libraries", human_bytes(program_bytes));
    text += fmt::format("{:<52} {:>12}\n", "total", human_bytes(total_bytes()));
    return text;
}

}  // namespace elmo
