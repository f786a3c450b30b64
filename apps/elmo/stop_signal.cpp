#include "stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
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

// The first signal, on a clock that only goes forward. Written once, before g_stop is set.
timespec g_first;

// Wrappers such as timeout(1) signal a program and its group: the same wish, twice at once.
bool is_same_wish() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds = static_cast<double>(now.tv_sec - g_first.tv_sec) +
                           1e-9 * static_cast<double>(now.tv_nsec - g_first.tv_nsec);
    return seconds < 1;
}

void on_signal(int) {
    if (g_stop) {
        if (is_same_wish()) return;
        _exit(130);
    }
    clock_gettime(CLOCK_MONOTONIC, &g_first);
    g_stop = true;
    if (g_speaks) say("\nelmo: stopping as soon as all that was done is saved; once more stops at once\n");
}

// The terminal was closed, or a scheduler wants the place (SIGUSR1): the signal may come more than once, and
// nobody reads messages.
void on_hangup(int) {
    g_stop = true;
}

// A handler must not run on the stack of the work that it interrupts: oneDNN's products for AVX2 keep numbers
// below their stack pointer, where the kernel would put the handler's frame. Signals of the process go to the
// main thread, whose own stack for handlers this is.
void give_handlers_a_stack() {
    static char memory[1 << 16];
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = sizeof(memory);
    sigaltstack(&stack, nullptr);
}

void handle(int number, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(number, &action, nullptr);
}

bool is_ignored(int number) {
    struct sigaction action {};
    return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

const std::atomic<bool>& stop_on_signal() {
    g_speaks = is_first_rank();
    give_handlers_a_stack();
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGUSR1, on_hangup);
    if (!is_ignored(SIGHUP)) handle(SIGHUP, on_hangup);  // by nohup
    return g_stop;
}

}  // namespace elmo::cli
