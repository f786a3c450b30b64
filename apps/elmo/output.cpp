#include "output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "elmo/error.h"
#include "elmo/messages.h"

namespace elmo::cli {
namespace {

[[noreturn]] void write_failed() {
    if (errno == EPIPE) throw OutputClosed();
    throw DataError(fmt::format("standard output: cannot write: {}", std::strerror(errno)));
}

}  // namespace

void write_stdout(std::string_view text) {
    // Label names and texts are of those who made them.
    static const bool terminal = ::isatty(STDOUT_FILENO) != 0;
    std::string shown;
    if (terminal) text = shown = for_terminal(text);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) write_failed();
}

void flush_stdout() {
    if (std::fflush(stdout) != 0) write_failed();
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string out;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c)
            line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c])
                           : fmt::format("  {:>{}}", row[c], widths[c]);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string aligned(const Facts& facts) {
    std::size_t width = 0;
    for (const auto& [name, value] : facts) width = std::max(width, name.size());
    std::string out;
    for (const auto& [name, value] : facts) out += fmt::format("{:<{}}  {}\n", name, width, value);
    return out;
}

std::string duration_text(double seconds) {
    if (seconds < 60) return fmt::format("{:.1f} s", seconds);
    const auto s = static_cast<std::int64_t>(seconds + 0.5);
    return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                     : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string measured_memory(std::int64_t bytes, const MemoryReport& planned) {
    const bool shared = planned.device == "cuda" && bytes > planned.total_bytes() / 10 * 11;
    return human_bytes(bytes) + (shared ? ", other programs on this GPU included" : "");
}

}  // namespace elmo::cli
