#include "stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace elmo::cli {
namespace {

std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void say(std::string_view message) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
}

void on_signal(int) {
    if (g_stop.exchange(true)) _exit(130);
    say("\nelmo: stopping after this step and saving; once more stops at once\n");
}

}  // namespace

const std::atomic<bool>& stop_on_signal() {
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    return g_stop;
}

}  // namespace elmo::cli
