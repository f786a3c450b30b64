// What the launcher's environment says, and the library that speaks its MPI, or Gloo.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "elmo/error.h"
#include "ranks/lifeline.h"
#include "ranks/plugin.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

std::optional<int> number(const char* variable) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return {};
    int value = 0;
    const char* const end = text + std::string_view(text).size();
    const auto [rest, status] = std::from_chars(text, end, value);
    if (status != std::errc() || rest != end || value < 0) return {};
    return value;
}

[[noreturn]] void refuse(const LaunchedAs& as, const std::string& why) {
    throw ConfigError(
        fmt::format("{} says that this is rank {} of {}: {}", as.launcher, as.rank, as.size, why));
}

// What speaks with the other ranks.
struct Engine {
    const char *library, *entry, *variable, *package;
};
Engine engine_of(const LaunchedAs& as) {
    if (as.has_meeting_place)
        return {kGlooLibrary, kGlooPlugin, "ELMO_GLOO_LIBRARY", "Gloo is installed (libgloo-dev)"};
    return {kMpiLibrary, kMpiPlugin, "ELMO_MPI_LIBRARY", "MPI is installed (libopenmpi-dev)"};
}

// Beside the program, or where it is installed; or what the engine's variable names.
fs::path find_library(const LaunchedAs& as, const Engine& engine) {
    if (const char* given = std::getenv(engine.variable); given != nullptr && *given != '\0') return given;
    Dl_info info{};
    fs::path file;
    if (dladdr(reinterpret_cast<void*>(&launched_as), &info) != 0 && info.dli_fname != nullptr)
        file = info.dli_fname;
    if (!file.is_absolute()) file = "/proc/self/exe";
    std::error_code error;
    const fs::path folder = fs::canonical(file, error).parent_path(), above = folder.parent_path();
    std::vector<std::string> places;
    for (const fs::path& place : {folder, folder / "elmo", above / "lib" / "elmo", above / "lib"}) {
        if (fs::exists(place / engine.library, error)) return place / engine.library;
        places.push_back(place.string());
    }
    refuse(as,
           fmt::format("{} is not in {}; build elmo where {}, set {} to its path, or start elmo without the "
                       "launcher",
                       engine.library, fmt::join(places, ", "), engine.package, engine.variable));
}

PluginRanks* open_plugin(const LaunchedAs& as) {
    const Engine engine = engine_of(as);
    const std::string path = find_library(as, engine).string();
    // Open MPI's own plugins look for its names among the global ones.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) refuse(as, fmt::format("{} does not load ({})", path, dlerror()));
    auto* plugin = reinterpret_cast<RanksPlugin*>(dlsym(library, engine.entry));
    if (plugin == nullptr) refuse(as, fmt::format("{} is not {}; use that", path, engine.library));
    PluginRanks* made = nullptr;
    if (const char* theirs = (*plugin)(ELMO_RANKS_INTERFACE, &made))
        refuse(as, fmt::format("{} belongs to another elmo (expected {}, found {})", path,
                               ELMO_RANKS_INTERFACE, theirs));
    return made;
}

}  // namespace

LaunchedAs launched_as() {
    struct Names {
        const char *size, *rank;
    };
    // SLURM_STEP_NUM_TASKS is set only inside srun; SLURM_NTASKS is set in plain batch scripts too.
    for (const Names& names :
         {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
          Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
        const auto size = number(names.size), rank = number(names.rank);
        if (size && rank && *size > 1 && *rank < *size) return {*rank, *size, names.size};
    }
    // torchrun and its kin. An MPI's variables go before: mpirun passes these on where a user has set them.
    const auto size = number("WORLD_SIZE"), rank = number("RANK"), port = number("MASTER_PORT");
    const char* address = std::getenv("MASTER_ADDR");
    if (size && rank && *size > 1 && *rank < *size && port && address != nullptr && *address != '\0')
        return {*rank, *size, "WORLD_SIZE", true};
    return {};
}

struct Launch::Impl {
    explicit Impl(const LaunchedAs& as) : plugin(open_plugin(as)), ranks(plugin) {
        if (plugin->size() != as.size)
            refuse(as,
                   fmt::format("{}, which {} was built for, counts {}: the launcher belongs to another MPI "
                               "(with srun: --mpi=pmix or pmi2)",
                               plugin->describe(), kMpiLibrary, plugin->size()));
        lifeline = std::make_unique<Lifeline>(*plugin, plugin->host());
    }

    PluginRanks* plugin;
    std::shared_ptr<Ranks> ranks;
    std::unique_ptr<Lifeline> lifeline;
};

Launch::Launch(const LaunchedAs& as) : impl_(std::make_unique<Impl>(as)) {}
Launch::~Launch() = default;

const std::shared_ptr<Ranks>& Launch::ranks() const {
    return impl_->ranks;
}

void Launch::set_timeout(double seconds) {
    impl_->lifeline->set_timeout(seconds);
}

void Launch::fail(int status, std::string_view message) noexcept {
    impl_->lifeline->fail(status, message);
}

void Launch::finish() {
    impl_->plugin->barrier();
    impl_->lifeline->close();
    impl_->plugin->finish();
}

}  // namespace elmo
