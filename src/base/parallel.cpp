#include "base/parallel.h"

#include <atomic>

namespace elmo {
namespace {
std::atomic<int> g_num_threads{0};
}

void set_num_threads(int num_threads) {
    g_num_threads = num_threads;
}

int num_threads() {
    const int chosen = g_num_threads;
    return chosen > 0 ? chosen : omp_get_num_procs();
}

}  // namespace elmo
