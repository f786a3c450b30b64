#include "attended.h"

#include <nanobind/stl/string.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace nb = nanobind;

namespace elmo::python {
namespace {

using Report = std::function<void(nb::handle listener)>;

// Ends work that nobody waits for any more.
struct Abandoned : std::exception {};

// Where the work leaves its reports and the calling thread fetches them.
class Desk {
  public:
    // Waits while many reports lie there: a slow listener slows the work, and memory does not grow.
    void leave(Report report) {
        std::unique_lock lock(mutex_);
        put(lock, std::move(report));
    }
    // Waits until the listener has had it, so that what it wishes holds from here on.
    void deliver(Report report) {
        std::unique_lock lock(mutex_);
        const std::uint64_t number = put(lock, std::move(report));
        taken_.wait(lock, [&] { return num_delivered_ >= number; });
    }
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        left_.notify_one();
    }
    // All reports, after at most a tenth of a second; those of the last call count as delivered. False when
    // there will be no more.
    bool fetch(std::deque<Report>& reports) {
        std::unique_lock lock(mutex_);
        num_delivered_ += reports.size();
        taken_.notify_all();
        left_.wait_for(lock, std::chrono::milliseconds(100), [&] { return closed_ || !reports_.empty(); });
        reports.clear();
        reports.swap(reports_);
        taken_.notify_all();
        return !closed_;
    }

    std::atomic<bool> stop{false}, abandon{false};

  private:
    // Its number, from 1.
    std::uint64_t put(std::unique_lock<std::mutex>& lock, Report report) {
        taken_.wait(lock, [&] { return reports_.size() < kMost; });
        reports_.push_back(std::move(report));
        left_.notify_one();
        return ++num_left_;
    }

    static constexpr std::size_t kMost = 1024;
    std::mutex mutex_;
    std::condition_variable left_, taken_;
    std::deque<Report> reports_;
    std::uint64_t num_left_ = 0, num_delivered_ = 0;
    bool closed_ = false;
};

Sinks sinks_of(Desk& desk, bool has_callbacks) {
    Sinks sinks;
    sinks.message = [&desk](Severity severity, std::string_view text) {
        desk.leave([severity, text = std::string(text)](nb::handle listener) {
            listener.attr("message")(static_cast<int>(severity), text);
        });
    };
    sinks.progress = [&desk](const ProgressReport& report) {
        if (desk.abandon && report.state == ProgressReport::State::kRunning) throw Abandoned();
        desk.leave([title = std::string(report.title), unit = std::string(report.unit),
                    note = std::string(report.note), done = report.done, total = report.total,
                    first = report.first, state = report.state](nb::handle listener) {
            listener.attr("progress")(title, unit, note, done, total, first, static_cast<int>(state));
        });
    };
    if (!has_callbacks) return sinks;
    sinks.log_line = [&desk](std::string_view line) {
        desk.deliver([&desk, line = std::string(line)](nb::handle listener) {
            if (nb::cast<bool>(listener.attr("log_line")(line))) desk.stop = true;
        });
    };
    return sinks;
}

// Calls the listener; whatever it raises, or a signal does, is returned.
std::exception_ptr deliver(nb::handle listener, const std::deque<Report>& reports) {
    try {
        if (!listener.is_none())
            for (const Report& report : reports) report(listener);
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    } catch (const nb::python_error&) {
        return std::current_exception();
    }
    return nullptr;
}

}  // namespace

void attend(nb::object listener, OnInterrupt on_interrupt, const std::function<void(const Context&)>& work) {
    Desk desk;
    const bool has_callbacks = !listener.is_none() && nb::cast<bool>(listener.attr("has_callbacks"));
    const Context context({.sinks = sinks_of(desk, has_callbacks), .stop = &desk.stop});
    std::exception_ptr failed, raised;
    std::thread worker([&] {
        try {
            work(context);
        } catch (...) {
            failed = std::current_exception();
        }
        desk.close();
    });
    std::deque<Report> reports;
    for (bool more = true; more;) {
        {
            const nb::gil_scoped_release release;
            more = desk.fetch(reports);
        }
        if (raised) {  // the work is ending: further Ctrl-C are the same wish
            if (PyErr_CheckSignals() != 0) PyErr_Clear();
        } else if ((raised = deliver(listener, reports))) {
            desk.stop = true;
            desk.abandon = on_interrupt == OnInterrupt::kAbandon;
        }
    }
    {
        const nb::gil_scoped_release release;
        worker.join();
    }
    if (raised) std::rethrow_exception(raised);
    if (failed) std::rethrow_exception(failed);
}

}  // namespace elmo::python
