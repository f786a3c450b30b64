// Threads for the whole library: one pool (OpenMP's), one setting. Work is cut by its size and never
// by the number of threads, so results do not depend on it. Calls inside a running loop run inline.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

namespace elmo {

// 0 means all cores.
void set_num_threads(int num_threads);
int num_threads();

// body(i) for i in [0, count), in any order. The first exception thrown is rethrown after all have ended.
template <class Body>
void parallel_for(std::int64_t count, const Body& body) {
    if (count <= 0) return;
    const int threads =
        static_cast<int>(std::min<std::int64_t>(count, omp_in_parallel() ? 1 : num_threads()));
    if (threads == 1) {
        for (std::int64_t i = 0; i < count; ++i) body(i);
        return;
    }
    std::exception_ptr error;
    std::mutex error_mutex;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i) {
        try {
            body(i);
        } catch (...) {
            const std::lock_guard lock(error_mutex);
            if (!error) error = std::current_exception();
        }
    }
    if (error) std::rethrow_exception(error);
}

// body(begin, end) over [0, count) in pieces of `grain`.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
    parallel_for((count + grain - 1) / grain,
                 [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
}

}  // namespace elmo
