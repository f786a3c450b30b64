// What a call runs with, besides its options: threads, where messages and progress go, when to stop, which
// device. Passed to every verb. The library has no global state, so callers with different contexts do not
// affect each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "elmo/api.h"

namespace elmo {

class Ranks;
class ThreadPool;

enum class Severity { kDebug, kInfo, kWarning };

// The progress of one long piece of work.
struct ProgressReport {
    enum class State { kRunning, kEnded, kAbandoned };  // abandoned: by an exception

    std::string_view title, unit;  // "reading texts", "bytes"
    std::string_view note;         // for example the loss or a rate; may be empty
    std::int64_t done = 0;
    std::int64_t total = 0;  // 0: unknown
    std::int64_t first = 0;  // done before, by the run that this one continues
    double seconds = 0;      // since the work began
    State state = State::kRunning;
};

// Where messages and progress go. Each function may be called from any thread, one call at a time for each
// piece of work; an empty function drops them.
struct Sinks {
    std::function<void(Severity, std::string_view)> message;
    std::function<void(const ProgressReport&)> progress;
    // A line of a run's log, as it goes to RUN/log.jsonl: a JSON object.
    std::function<void(std::string_view)> log_line;
    // The shortest time between two reports of running work; the last report always comes.
    std::chrono::milliseconds progress_every{100};
};

// How much of it the terminal shows. Warnings are shown at every level.
enum class LogLevel { kQuiet, kInfo, kDebug };
// Standard error: a bar on a terminal, plain lines now and then elsewhere.
ELMO_API Sinks terminal(LogLevel level = LogLevel::kInfo);
// Drops everything.
ELMO_API Sinks silent();

// Copies share the threads. Several threads may use one context: its threads run one loop at a time, and
// other loops meanwhile run on their caller's thread.
class ELMO_API Context {
  public:
    struct Settings {
        int threads = 0;  // 0: all cores
        Sinks sinks = terminal();
        const std::atomic<bool>* stop = nullptr;  // set it to end the work early
        int device = 0;                           // which GPU
        std::shared_ptr<Ranks> ranks = {};        // the processes of one run (elmo/ranks.h); null: this one
    };

    Context();  // the settings as they stand above
    explicit Context(Settings settings);

    // The same with another number of threads; 0 keeps the current one.
    Context with_threads(std::int64_t threads) const;
    // The same with other sinks.
    Context with_sinks(Sinks sinks) const;
    // The same with another flag to stop by.
    Context with_stop(const std::atomic<bool>& stop) const;

    void info(std::string_view message) const;
    void warning(std::string_view message) const;
    void debug(std::string_view message) const;
    const Sinks& sinks() const { return settings_->sinks; }

    bool stop_requested() const { return settings_->stop != nullptr && settings_->stop->load(); }
    // Throws Interrupted when a stop was asked for. For work that leaves nothing behind when it ends early,
    // such as reading data; training saves instead.
    void leave_if_stopped() const;
    int device() const { return settings_->device; }
    // Null where the run has one process.
    Ranks* ranks() const { return settings_->ranks.get(); }

    int num_threads() const;
    ThreadPool& threads() const { return *pool_; }

    // Resident memory of the process when the context was made. Data that is mapped or allocated later is
    // counted separately.
    std::int64_t start_bytes() const { return start_bytes_; }

  private:
    std::shared_ptr<const Settings> settings_;
    std::shared_ptr<ThreadPool> pool_;
    std::int64_t start_bytes_ = 0;
};

}  // namespace elmo
