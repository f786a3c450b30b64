// The device that a test program is about. The same tests are built twice: for the CPU backend, and with
// ELMO_TEST_GPU for the CUDA one (programs test_gpu_*).
#pragma once

#include "backend/backend.h"
#include "quiet.h"

namespace elmo {

#ifdef ELMO_TEST_GPU
inline constexpr bool kTestsGpu = true;
#else
inline constexpr bool kTestsGpu = false;
#endif
inline constexpr const char* kTestedDevice = kTestsGpu ? "cuda" : "cpu";

// Its backend, which takes views to its own memory.
inline std::unique_ptr<Backend> make_device_backend(int threads = 0) {
    const Context context = quiet().with_threads(threads);
#ifdef ELMO_TEST_GPU
    return make_cuda_backend(context);
#else
    return make_cpu_backend(context, "auto");
#endif
}

}  // namespace elmo
