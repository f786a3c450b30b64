// Messages and progress for people: stderr only, results never pass here. A bar on a terminal,
// plain lines now and then in a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "elmo/messages.h"  // set_log_level

namespace elmo {

void log_info(std::string_view message);
void log_warning(std::string_view message);  // prefixed with "warning: ", also when quiet
void log_debug(std::string_view message);

// Progress of one long piece of work. update() is cheap and may be called from one thread at a time;
// drawn at most ten times a second on a terminal, a line every ten seconds otherwise.
class Progress {
  public:
    // total 0: unknown. `unit` is what is counted, for example "texts".
    Progress(std::string title, std::int64_t total, std::string unit);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // This much was done before, by a run that is continued: what is left is told by the rest.
    void begin_at(std::int64_t done);
    // `note` follows the bar: the loss, a rate, whatever helps.
    void update(std::int64_t done, std::string_view note = {});
    // All is done: draws the final state and ends the line.
    void finish(std::string_view note = {});
    // The work ends here, done or not: draws how far it came and ends the line.
    void stop(std::string_view note = {});

  private:
    void draw(std::string_view note, bool last);

    std::string title_;
    std::int64_t total_;
    std::string unit_;
    std::int64_t first_ = 0, done_ = 0;
    bool finished_ = false;
    std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace elmo
