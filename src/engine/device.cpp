#include "engine/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "backend/backend.h"
#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

// An error's first clause, without the option that it opens with: what is wrong, not what to do about it.
std::string first_clause(std::string_view message) {
    constexpr std::string_view opening = "found 'cuda': ";
    if (const std::size_t at = message.find(opening); at != std::string_view::npos)
        message.remove_prefix(at + opening.size());
    return std::string(message.substr(0, message.find(';')));
}

ChosenDevice named_device(const std::string& name) {
    const std::string why = "ELMO_DEVICE names it";
    if (name == "cpu") return {DeviceChoice::kCpu, name, why};
    if (name == "cuda") return {DeviceChoice::kCuda, name, why};
    if (name == "reference") return {DeviceChoice::kReference, name, why};
    throw ConfigError(fmt::format("ELMO_DEVICE: expected cpu, cuda or reference, found '{}'", quoted(name)));
}

// The driver is small; libelmo_cuda.so maps 150 MiB of cuBLAS, which nobody without a GPU should pay for.
bool has_driver() {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr) return false;
    ::dlclose(driver);
    return true;
}

}  // namespace

ChosenDevice choose_device(const Context& context) {
    if (const char* named = std::getenv("ELMO_DEVICE"); named != nullptr && *named != '\0')
        return named_device(named);
    if (!has_driver()) return {DeviceChoice::kCpu, "cpu", "no GPU: no NVIDIA driver is installed"};
    try {
        make_cuda_backend(context.with_sinks(silent()))->allocate(1);  // which starts the GPU
        return {DeviceChoice::kCuda, "cuda", "a GPU answers"};
    } catch (const Error& error) {
        return {DeviceChoice::kCpu, "cpu", "no GPU: " + first_clause(error.what())};
    }
}

}  // namespace elmo
