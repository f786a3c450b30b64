// The CUDA backend of a build without CUDA.
#include "backend/backend.h"
#include "elmo/error.h"

namespace elmo {

std::unique_ptr<Backend> make_cuda_backend() {
    throw ConfigError(
        "device: expected cpu or reference, found 'cuda': this elmo was built without CUDA; build it where "
        "nvcc "
        "(CUDA 13.0 or newer) is on the PATH");
}

}  // namespace elmo
