// A backend in a separate library, opened on first use: what the library and the program agree on. The
// library has one entry point, elmo_cuda_plugin. Objects pass through it in both directions, so both must
// come from the same headers and compiler: ELMO_BACKEND_INTERFACE (made by CMake from those) names them.
#pragma once

#include "backend/backend.h"

namespace elmo {

inline constexpr const char* kCudaLibrary = "libelmo_cuda.so";
inline constexpr const char* kCudaPlugin = "elmo_cuda_plugin";

// If `interface` is the library's own: makes a backend in `*made` and returns null. Otherwise does nothing
// and returns the library's interface.
using CudaPlugin = const char*(const char* interface, const Context* context, Backend** made);

}  // namespace elmo
