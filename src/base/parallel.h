// Threads for the whole library: one pool, one setting. Work is cut by its size and never by the number of
// threads, so results do not depend on it. Calls inside a running loop run inline. Waiting threads
// spin for a moment (loops follow one another closely) and then sleep: on a busy machine a spinning one would
// take the core that its partner needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace elmo {

// 0 means all cores.
void set_num_threads(int num_threads);
int num_threads();

// 0 on the thread that called parallel_for, 1 .. num_threads() - 1 on the pool's, inside the body.
int thread_index();

// body(i) for i in [0, count), in any order. The first exception thrown is rethrown after all have ended.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

// body(begin, end) over [0, count) in pieces of `grain`.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
    parallel_for((count + grain - 1) / grain,
                 [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
}

}  // namespace elmo
