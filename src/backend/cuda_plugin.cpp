// The program's side of the CUDA backend: finds libelmo_cuda.so and opens it. A run on a CPU never opens it,
// so CUDA's libraries take no memory there, and one program serves machines with and without them.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <elmo_interface.h>
#include "backend/plugin.h"
#include "elmo/error.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& why) {
    throw ConfigError("device: expected cpu or reference, found 'cuda': " + why);
}

// The folder of the program, or of the library that this code is part of.
fs::path own_folder() {
    Dl_info info{};
    fs::path file;
    if (dladdr(reinterpret_cast<void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr)
        file = info.dli_fname;
    if (!file.is_absolute()) file = "/proc/self/exe";  // a program has the name that it was called by
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    return error ? fs::path() : real.parent_path();
}

// Where the library is, or ConfigError that names the places.
fs::path find_library() {
    if (const char* given = std::getenv("ELMO_CUDA_LIBRARY"); given != nullptr && *given != '\0') {
        if (!fs::exists(given))
            refuse(fmt::format("ELMO_CUDA_LIBRARY is {}, which does not exist; set it to {}", given,
                               kCudaLibrary));
        return given;
    }
    const fs::path folder = own_folder(), above = folder.parent_path();
    std::vector<std::string> places;
    for (const fs::path& place : {folder, folder / "elmo", above / "lib" / "elmo", above / "lib"}) {
        if (fs::exists(place / kCudaLibrary)) return place / kCudaLibrary;
        places.push_back(place.string());
    }
    refuse(
        fmt::format("{} is not in {}; build it where nvcc (CUDA 13.0 or newer) is on the PATH (cmake --build "
                    "build --target elmo_cuda), or set ELMO_CUDA_LIBRARY to its path",
                    kCudaLibrary, fmt::join(places, ", ")));
}

// Opens the library, which stays open.
CudaPlugin* open_library(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        refuse(
            fmt::format("{} does not load ({}); it needs the libraries of CUDA 13 (cuBLAS): install them, or "
                        "put their folder on LD_LIBRARY_PATH",
                        path, dlerror()));
    auto* plugin = reinterpret_cast<CudaPlugin*>(dlsym(library, kCudaPlugin));
    if (plugin == nullptr) refuse(fmt::format("{} is not {}; use that", path, kCudaLibrary));
    return plugin;
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const Context& context) {
    const std::string path = find_library().string();
    Backend* made = nullptr;
    const char* theirs = open_library(path)(ELMO_BACKEND_INTERFACE, &context, &made);
    if (theirs != nullptr)
        refuse(
            fmt::format("{} belongs to another elmo (expected {}, found {}); build both from the same source "
                        "(cmake --build build --target elmo elmo_cuda)",
                        path, ELMO_BACKEND_INTERFACE, theirs));
    return std::unique_ptr<Backend>(made);
}

}  // namespace elmo
