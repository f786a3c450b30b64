// A library that is opened at run time and has its own copy of the pool's code, as libelmo_cuda.so has.
#include <atomic>

#include "base/parallel.h"

extern "C" __attribute__((visibility("default"))) int elmo_count_to_eight(elmo::ThreadPool& pool) {
    std::atomic<int> counted = 0;
    pool.parallel_for(8, [&](std::int64_t) { ++counted; });
    return counted;
}
