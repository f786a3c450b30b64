#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/text_util.h"

namespace elmo {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_mutex;
bool g_bar_open = false;  // a bar stands on the current line

bool on_terminal() {
    static const bool terminal = isatty(STDERR_FILENO) != 0;
    return terminal;
}

void write_line(std::string_view line) {
    const std::lock_guard lock(g_mutex);
    if (g_bar_open) std::fputs("\r\033[K", stderr);
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fputc('\n', stderr);
    std::fflush(stderr);
    g_bar_open = false;
}

std::string clock_time(double seconds) {
    const auto s = static_cast<std::int64_t>(seconds);
    return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                     : fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

void set_log_level(LogLevel level) {
    g_level = level;
}

void log_info(std::string_view message) {
    if (g_level.load() >= LogLevel::kInfo) write_line(message);
}
void log_warning(std::string_view message) {
    write_line(fmt::format("warning: {}", message));
}
void log_debug(std::string_view message) {
    if (g_level.load() >= LogLevel::kDebug) write_line(message);
}

Progress::Progress(std::string title, std::int64_t total, std::string unit)
    : title_(std::move(title)), total_(total), unit_(std::move(unit)) {
    start_ = last_ = std::chrono::steady_clock::now();
}

Progress::~Progress() {
    if (finished_ || !on_terminal()) return;
    const std::lock_guard lock(g_mutex);
    if (g_bar_open) std::fputc('\n', stderr);  // an exception leaves the bar where it stood
    g_bar_open = false;
}

void Progress::begin_at(std::int64_t done) {
    first_ = done_ = done;
}

void Progress::update(std::int64_t done, std::string_view note) {
    done_ = done;
    const auto now = std::chrono::steady_clock::now();
    const auto period = on_terminal() ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
    if (now - last_ < period) return;
    last_ = now;
    draw(note, false);
}

void Progress::finish(std::string_view note) {
    if (total_ > 0 && !finished_) done_ = total_;
    stop(note);
}

void Progress::stop(std::string_view note) {
    if (finished_) return;
    finished_ = true;
    draw(note, true);
}

void Progress::draw(std::string_view note, bool last) {
    if (g_level.load() < LogLevel::kInfo) return;
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double rate = elapsed > 0 ? static_cast<double>(done_ - first_) / elapsed : 0;
    std::string line = title_;
    if (total_ > 0) {
        const double share = static_cast<double>(done_) / static_cast<double>(total_);
        if (on_terminal()) {
            const int filled = static_cast<int>(share * 24);
            line += " [";
            for (int i = 0; i < 24; ++i) line += i < filled ? "█" : "·";
            line += "]";
        }
        line +=
            fmt::format(" {:3.0f}% {}/{} {}", share * 100, with_commas(done_), with_commas(total_), unit_);
        if (!last && rate > 0)
            line += fmt::format(", {} left", clock_time(static_cast<double>(total_ - done_) / rate));
    } else {
        line += fmt::format(" {} {}", with_commas(done_), unit_);
    }
    line += fmt::format(", {}", clock_time(elapsed));
    if (!note.empty()) line += fmt::format(", {}", note);
    if (!on_terminal()) {
        write_line(line);
        return;
    }
    const std::lock_guard lock(g_mutex);
    std::fputs("\r\033[K", stderr);
    std::fwrite(line.data(), 1, line.size(), stderr);
    if (last) std::fputc('\n', stderr);
    std::fflush(stderr);
    g_bar_open = !last;
}

}  // namespace elmo
