// Threads of one context: a pool. Work is divided by its size, never by the number of threads, so results do
// not depend on that number. Calls inside a running loop run inline, and so do those of a second thread while
// a loop of the pool runs. Waiting threads spin for a moment (loops follow each other closely) and then
// sleep: on a busy machine a spinning thread would take the core that another one needs.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace elmo {

class ThreadPool {
  public:
    explicit ThreadPool(int threads);  // 0: as many as there are cores
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return size_; }  // with the caller's thread

    // body(i) for i in [0, count), in any order. The first exception thrown is rethrown after all have ended.
    void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

    // body(begin, end) over [0, count) in pieces of `grain`.
    template <class Body>
    void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
        parallel_for((count + grain - 1) / grain,
                     [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
    }

  private:
    // False if another thread is running a loop: the caller then does the work itself.
    bool run(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);
    void work(int index, std::uint32_t seen);
    void take_part();
    void forget_threads_of_parent();

    const int size_;
    std::mutex busy_, error_mutex_;
    std::vector<std::thread> workers_;  // made when first needed, by the process maker_
    pid_t maker_ = 0;
    std::atomic<std::uint32_t> generation_{0};
    std::atomic<int> running_{0};
    std::atomic<std::int64_t> next_{0};
    std::atomic<bool> stop_{false};
    const std::function<void(std::int64_t)>* body_ = nullptr;
    std::int64_t count_ = 0;
    int threads_ = 0;
    std::exception_ptr error_;
};

// 0 on the thread that called parallel_for, 1 .. size() - 1 on the pool's, inside the body.
int thread_index();

}  // namespace elmo
