#include "base/parallel.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace elmo {
namespace {

std::atomic<int> g_num_threads{0};
thread_local int t_index = 0;
thread_local bool t_inside = false;  // running a body

// Waits until `value` is no longer `old`: looks for a twentieth of a millisecond, about what waking a
// sleeping thread costs, then sleeps.
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
    value.wait(old);
}

// One loop at a time. Workers sleep until the generation changes, take part when their index is below
// `threads`, and count themselves out.
class Pool {
  public:
    static Pool& instance() {
        static Pool pool;
        return pool;
    }

    // False when another thread is running a loop: the caller then does the work itself.
    bool run(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
        const std::unique_lock lock(busy_, std::try_to_lock);
        if (!lock.owns_lock()) return false;
        while (static_cast<int>(workers_.size()) < threads - 1) {
            const int index = static_cast<int>(workers_.size()) + 1;
            workers_.emplace_back([this, index, seen = generation_.load()] { work(index, seen); });
        }
        body_ = &body;
        count_ = count;
        threads_ = threads;
        next_ = 0;
        error_ = nullptr;
        running_ = static_cast<int>(workers_.size());
        ++generation_;
        generation_.notify_all();
        take_part();
        for (int left = running_; left != 0; left = running_) wait_for_change(running_, left);
        if (error_) std::rethrow_exception(error_);
        return true;
    }

  private:
    ~Pool() {
        stop_ = true;
        ++generation_;
        generation_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    void work(int index, std::uint32_t seen) {
        t_index = index;
        for (;;) {
            wait_for_change(generation_, seen);
            seen = generation_;
            if (stop_) return;
            if (index < threads_) take_part();
            if (--running_ == 0) running_.notify_one();
        }
    }

    void take_part() {
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

    std::mutex busy_, error_mutex_;
    std::vector<std::thread> workers_;
    std::atomic<std::uint32_t> generation_{0};
    std::atomic<int> running_{0};
    std::atomic<std::int64_t> next_{0};
    std::atomic<bool> stop_{false};
    const std::function<void(std::int64_t)>* body_ = nullptr;
    std::int64_t count_ = 0;
    int threads_ = 0;
    std::exception_ptr error_;
};

}  // namespace

void set_num_threads(int num_threads) {
    g_num_threads = num_threads;
}

int num_threads() {
    const int chosen = g_num_threads;
    return chosen > 0 ? chosen : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int thread_index() {
    return t_index;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
    const int threads = static_cast<int>(std::min<std::int64_t>(count, num_threads()));
    if (threads > 1 && !t_inside && Pool::instance().run(count, threads, body)) return;
    for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace elmo
