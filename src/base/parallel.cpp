#include "base/parallel.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <system_error>

namespace elmo {
namespace {

thread_local int t_index = 0;        // of a pool's thread, for as long as it lives
thread_local bool t_inside = false;  // running a body

// Sleeping and waking by the kernel, which knows a waiter by the address of what it waits for. The atomic's
// own wait() notes waiters in a table, of which the program and each library opened at run time have their
// own: threads that sleep in one of them would not be woken by a loop that another one starts.
template <class T>
void sleep_while(const std::atomic<T>& value, T old) {
    static_assert(sizeof(value) == sizeof(int));
    ::syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
}
template <class T>
void wake_all(const std::atomic<T>& value) {
    ::syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Waits until `value` differs from `old`: spins for a twentieth of a millisecond, about the cost of waking a
// sleeping thread, then sleeps.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
        for (int i = 0; i < 64; ++i) {
            if (value != old) return;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    } while (std::chrono::steady_clock::now() < until);
    while (value == old) sleep_while(value, old);
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

ThreadPool::~ThreadPool() {
    forget_threads_of_parent();
    stop_ = true;
    ++generation_;
    wake_all(generation_);
    for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
    const int threads = static_cast<int>(std::min<std::int64_t>(count, size_));
    if (threads > 1 && !t_inside && run(count, threads, body)) return;
    for (std::int64_t i = 0; i < count; ++i) body(i);
}

// One loop at a time. Workers sleep until the generation changes, take part when their index is below
// `threads`, and count themselves out.
bool ThreadPool::run(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    forget_threads_of_parent();
    try {
        while (static_cast<int>(workers_.size()) < threads - 1) {
            const int index = static_cast<int>(workers_.size()) + 1;
            workers_.emplace_back([this, index, seen = generation_.load()] { work(index, seen); });
        }
    } catch (const std::system_error&) {
        // No room for another: results do not depend on their number, so those that there are do the work.
        threads = static_cast<int>(workers_.size()) + 1;
    }
    body_ = &body;
    count_ = count;
    threads_ = threads;
    next_ = 0;
    error_ = nullptr;
    running_ = static_cast<int>(workers_.size());
    ++generation_;
    wake_all(generation_);
    take_part();
    for (int left = running_; left != 0; left = running_) wait_for_change(running_, left);
    if (error_) std::rethrow_exception(error_);
    return true;
}

// A process that was forked has none of the threads of its parent: nobody would end their work, and they
// cannot be joined. Their handles are never destroyed.
void ThreadPool::forget_threads_of_parent() {
    const pid_t here = ::getpid();
    if (maker_ == here) return;
    if (!workers_.empty()) new std::vector<std::thread>(std::move(workers_));
    workers_.clear();
    maker_ = here;
}

void ThreadPool::work(int index, std::uint32_t seen) {
    t_index = index;
    for (;;) {
        wait_for_change(generation_, seen);
        seen = generation_;
        if (stop_) return;
        if (index < threads_) take_part();
        if (--running_ == 0) wake_all(running_);
    }
}

void ThreadPool::take_part() {
    t_inside = true;
    for (std::int64_t i = next_++; i < count_; i = next_++) {
        try {
            (*body_)(i);
        } catch (...) {
            const std::lock_guard lock(error_mutex_);
            if (!error_) error_ = std::current_exception();
        }
    }
    t_inside = false;
}

int thread_index() {
    return t_index;
}

}  // namespace elmo
