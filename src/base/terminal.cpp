// The sinks that write to standard error: a bar on a terminal, plain lines elsewhere. Results never go
// through here.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "base/text_util.h"
#include "elmo/context.h"

namespace elmo {
namespace {

std::string clock_time(double seconds) {
    const auto s = static_cast<std::int64_t>(seconds);
    return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                     : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string progress_line(const ProgressReport& report, bool bar) {
    const bool last = report.state == ProgressReport::State::kEnded;
    const double rate =
        report.seconds > 0 ? static_cast<double>(report.done - report.first) / report.seconds : 0;
    std::string line(report.title);
    if (report.total > 0) {
        const double share = static_cast<double>(report.done) / static_cast<double>(report.total);
        if (bar) {
            const int filled = static_cast<int>(share * 24);
            line += " [";
            for (int i = 0; i < 24; ++i) line += i < filled ? "█" : "·";
            line += "]";
        }
        line += fmt::format(" {:3.0f}% {}/{} {}", share * 100, with_commas(report.done),
                            with_commas(report.total), report.unit);
        if (!last && rate > 0)
            line +=
                fmt::format(", {} left", clock_time(static_cast<double>(report.total - report.done) / rate));
    } else {
        line += fmt::format(" {} {}", with_commas(report.done),
                            report.unit.substr(0, report.unit.size() - (report.done == 1 ? 1 : 0)));
    }
    line += fmt::format(", {}", clock_time(report.seconds));
    if (!report.note.empty()) line += fmt::format(", {}", report.note);
    return line;
}

class Terminal {
  public:
    explicit Terminal(LogLevel level) : level_(level) {}

    bool is_terminal() const { return is_terminal_; }

    void message(Severity severity, std::string_view text) {
        if (severity == Severity::kInfo && level_ < LogLevel::kInfo) return;
        if (severity == Severity::kDebug && level_ < LogLevel::kDebug) return;
        write_line(severity == Severity::kWarning ? fmt::format("warning: {}", text) : std::string(text));
    }

    void progress(const ProgressReport& report) {
        if (report.state == ProgressReport::State::kAbandoned) {
            end_bar();
            return;
        }
        if (level_ < LogLevel::kInfo) return;
        const std::string line = progress_line(report, is_terminal_);
        if (!is_terminal_) {
            write_line(line);
            return;
        }
        const bool last = report.state == ProgressReport::State::kEnded;
        const std::lock_guard lock(mutex_);
        write("\r\033[K" + for_terminal(line) + (last ? "\n" : ""));
        bar_open_ = !last;
    }

  private:
    void write_line(std::string_view line) {
        const std::lock_guard lock(mutex_);
        write(fmt::format("{}{}\n", bar_open_ ? "\r\033[K" : "",
                          is_terminal_ ? for_terminal(line) : std::string(line)));
        bar_open_ = false;
    }

    // In one piece: another context may write there too.
    static void write(const std::string& text) {
        std::fwrite(text.data(), 1, text.size(), stderr);
        std::fflush(stderr);
    }

    // An exception leaves the bar where it stood.
    void end_bar() {
        const std::lock_guard lock(mutex_);
        if (bar_open_) write("\n");
        bar_open_ = false;
    }

    const LogLevel level_;
    const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
    std::mutex mutex_;
    bool bar_open_ = false;  // a bar stands on the current line
};

}  // namespace

Sinks terminal(LogLevel level) {
    const auto screen = std::make_shared<Terminal>(level);
    Sinks sinks;
    sinks.message = [screen](Severity severity, std::string_view text) { screen->message(severity, text); };
    sinks.progress = [screen](const ProgressReport& report) { screen->progress(report); };
    sinks.progress_every = std::chrono::milliseconds(screen->is_terminal() ? 100 : 10000);
    return sinks;
}

Sinks silent() {
    return {};
}

}  // namespace elmo
