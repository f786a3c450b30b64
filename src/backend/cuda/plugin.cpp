// The one entry point of libelmo_cuda.so: see backend/plugin.h.
#include "backend/plugin.h"

#include <cstring>

#include <elmo_interface.h>
#include "backend/cuda/cuda_backend.h"

extern "C" [[gnu::visibility("default")]] const char* elmo_cuda_plugin(const char* interface,
                                                                       const elmo::Context* context,
                                                                       elmo::Backend** made) {
    if (std::strcmp(interface, ELMO_BACKEND_INTERFACE) != 0) return ELMO_BACKEND_INTERFACE;
    *made = new elmo::cuda::CudaBackend(*context);
    return nullptr;
}
