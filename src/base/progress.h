// Progress of one long piece of work, reported to a context's sink.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "elmo/context.h"

namespace elmo {

// update() is cheap and may be called from one thread at a time.
class Progress {
  public:
    // total 0: unknown. `unit` is what is counted, for example "texts".
    Progress(const Context& context, std::string title, std::int64_t total, std::string unit);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // This much was done by an earlier run: the time left is estimated from the rest.
    void begin_at(std::int64_t done);
    // `note` follows the bar, for example the loss or a rate.
    void update(std::int64_t done, std::string_view note = {});
    // All is done: reports the final state.
    void finish(std::string_view note = {});
    // The work ends here, done or not: reports the progress.
    void stop(std::string_view note = {});

  private:
    void report(std::string_view note, ProgressReport::State state) const;

    Context context_;
    std::string title_;
    std::int64_t total_;
    std::string unit_;
    std::int64_t first_ = 0, done_ = 0;
    bool ended_ = false;
    std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace elmo
