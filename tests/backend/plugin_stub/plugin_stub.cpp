// A library in the place of libelmo_cuda.so that has its door and nothing behind it: says a line and throws.
#include <cstring>

#include "backend/plugin.h"
#include "elmo/context.h"
#include "elmo/error.h"

#ifndef ELMO_STUB_INTERFACE
#include <elmo_interface.h>
#define ELMO_STUB_INTERFACE ELMO_BACKEND_INTERFACE
#endif

extern "C" [[gnu::visibility("default")]] const char* elmo_cuda_plugin(const char* interface,
                                                                       const elmo::Context* context,
                                                                       elmo::Backend**) {
    if (std::strcmp(interface, ELMO_STUB_INTERFACE) != 0) return ELMO_STUB_INTERFACE;
    context->sinks().message(elmo::Severity::kWarning, "a line from the library");
    throw elmo::OutOfMemory("thrown in the library");
}
