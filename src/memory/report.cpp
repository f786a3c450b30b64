// The memory report as a table for people: segments folded to the first two parts of their names.
#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/memory.h"

namespace elmo {
namespace {

// "encoder/layer.3/qkv" -> "encoder/layer.*"; "scratch/thread.1" -> "scratch/thread.*".
std::string folded(const std::string& name) {
    const std::size_t first = name.find('/');
    const std::size_t second = first == std::string::npos ? first : name.find('/', first + 1);
    std::string group = name.substr(0, second);
    const std::size_t dot = group.rfind('.');
    const bool numbered = dot != std::string::npos && dot + 1 < group.size() &&
                          std::all_of(group.begin() + static_cast<std::ptrdiff_t>(dot) + 1, group.end(),
                                      [](char c) { return c >= '0' && c <= '9'; });
    return numbered ? group.substr(0, dot) + ".*" : group;
}

}  // namespace

std::string MemoryReport::describe() const {
    struct Group {
        std::string name;
        std::int64_t count = 0, bytes = 0, at_peak = 0;
    };
    std::vector<Group> groups;  // in the order of their first segment
    for (const auto& segment : segments) {
        const std::string name = folded(segment.name);
        auto group =
            std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.name == name; });
        if (group == groups.end()) group = groups.insert(groups.end(), Group{name});
        ++group->count;
        group->bytes += segment.bytes;
        group->at_peak += segment.at_peak ? segment.bytes : 0;
    }
    std::string text =
        fmt::format("{:<44} {:>8} {:>12} {:>12}\n", "segment", "tensors", "bytes", "at the peak");
    const auto line = [&](std::string_view name, std::string_view count, std::int64_t bytes,
                          std::int64_t peak) {
        text +=
            fmt::format("{:<44} {:>8} {:>12} {:>12}\n", name, count, human_bytes(bytes), human_bytes(peak));
    };
    for (const auto& group : groups)
        line(group.name, std::to_string(group.count), group.bytes, group.at_peak);
    line("arena", "", arena_bytes, arena_bytes);
    if (mapped_bytes > 0) line("mapped files", "", mapped_bytes, mapped_bytes);
    if (program_bytes > 0) line("program and libraries", "", program_bytes, program_bytes);
    line("total", "", total_bytes(), total_bytes());
    if (host_bytes > 0) line("beside it, of the host: the head", "", host_bytes, host_bytes);
    text +=
        fmt::format("head in {} {}; recompute: {}\n", chunks, chunks == 1 ? "chunk" : "chunks", recompute);
    return text;
}

std::string MemoryReport::advice() const {
    if (const std::int64_t fixed = mapped_bytes + program_bytes; max_bytes > 0 && fixed >= max_bytes)
        return fmt::format("raise max_memory: the program and mapped files alone take {}",
                           human_bytes(fixed));
    std::int64_t head = 0, encoder = 0, step = 0;
    for (const Segment& segment : segments) {
        const auto begins = [&](const char* name) { return segment.name.starts_with(name); };
        // Hardly less for a smaller batch.
        const bool stays = begins("scratch/thread") || begins("scratch/shared") || begins("scratch/cublaslt");
        if (!segment.at_peak || stays) continue;
        std::int64_t& part = begins("head/") ? head
                             : begins("encoder/weights") || begins("encoder/first_moments") ||
                                     begins("encoder/second_moments") || begins("encoder/compensation") ||
                                     begins("encoder/gradients")
                                 ? encoder
                                 : step;
        part += segment.bytes;
    }
    const bool step_may_do = max_bytes > 0 && step >= total_bytes() - max_bytes;
    if (fixed_model) return step_may_do ? "lower batch_size, or raise max_memory" : "raise max_memory";
    if (head >= encoder && head >= step)
        return fmt::format("store the head in fewer bits (precision), or {}",
                           fixed_width ? "take an encoder of less width" : "lower width");
    if (encoder >= step)
        return fmt::format("{}{}", step_may_do ? "lower batch_size or max_length, or " : "",
                           fixed_width ? "take a smaller encoder" : "lower vocab_size or width");
    return fixed_width ? "lower batch_size or max_length" : "lower batch_size, max_length or width";
}

}  // namespace elmo
