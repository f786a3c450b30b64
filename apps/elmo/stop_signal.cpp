#include "stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "launch.h"

namespace elmo::cli {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<bool> g_speaks{true};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void say(std::string_view message) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
}

void on_signal(int) {
    if (g_stop.exchange(true)) _exit(130);
    if (g_speaks) say("\nelmo: stopping as soon as all that was learnt is saved; once more stops at once\n");
}

// The terminal was closed, or a scheduler wants the place (SIGUSR1): the signal may come more than once, and
// nobody reads messages.
void on_hangup(int) {
    g_stop = true;
}

}  // namespace

const std::atomic<bool>& stop_on_signal() {
    g_speaks = is_first_rank();
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    std::signal(SIGUSR1, on_hangup);
    if (std::signal(SIGHUP, on_hangup) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
    return g_stop;
}

}  // namespace elmo::cli
