#include "base/progress.h"

namespace elmo {

Progress::Progress(const Context& context, std::string title, std::int64_t total, std::string unit)
    : context_(context), title_(std::move(title)), total_(total), unit_(std::move(unit)) {
    start_ = last_ = std::chrono::steady_clock::now();
}

Progress::~Progress() {
    try {
        if (!ended_) report({}, ProgressReport::State::kAbandoned);
    } catch (...) {  // a sink that throws during stack unwinding
    }
}

void Progress::begin_at(std::int64_t done) {
    first_ = done_ = done;
}

void Progress::update(std::int64_t done, std::string_view note) {
    done_ = done;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < context_.sinks().progress_every) return;
    last_ = now;
    report(note, ProgressReport::State::kRunning);
}

void Progress::finish(std::string_view note) {
    if (total_ > 0 && !ended_) done_ = total_;
    stop(note);
}

void Progress::stop(std::string_view note) {
    if (ended_) return;
    ended_ = true;
    report(note, ProgressReport::State::kEnded);
}

void Progress::report(std::string_view note, ProgressReport::State state) const {
    if (!context_.sinks().progress) return;
    ProgressReport report;
    report.title = title_;
    report.unit = unit_;
    report.note = note;
    report.done = done_;
    report.total = total_;
    report.first = first_;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    report.state = state;
    context_.sinks().progress(report);
}

}  // namespace elmo
