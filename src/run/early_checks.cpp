#include "run/early_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "engine/engine.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kFewBytes = std::uintmax_t{256} << 20;

// The folder itself or the nearest one above it that exists.
fs::path nearest_folder(fs::path folder) {
    std::error_code error;
    folder = fs::absolute(folder).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
    return folder;
}

// Creates the folder and removes it again: file systems differ too much to be asked.
void require_folder(const fs::path& out, const fs::path& there) {
    const fs::path target = fs::absolute(out).lexically_normal();
    std::error_code error;
    if (!fs::exists(target, error)) {
        fs::create_directories(target, error);
        const std::error_code failure = error;
        fs::path made = target.has_filename() ? target : target.parent_path();
        for (; made != there && made.has_relative_path(); made = made.parent_path()) fs::remove(made, error);
        if (failure)
            throw DataError(fmt::format("{}: cannot be created: {}", out.string(), failure.message()));
    } else if (::access(target.c_str(), W_OK | X_OK) != 0) {
        throw DataError(
            fmt::format("{}: expected a folder that can be written, found one that cannot; give "
                        "another --out",
                        out.string()));
    }
}

}  // namespace

void check_before_import(const Context& context, const Config& config) {
    if (!config.out.empty()) {
        const fs::path there = nearest_folder(config.out);
        require_folder(config.out, there);
        std::error_code error;
        const fs::space_info space = fs::space(there, error);
        if (!error && space.available < kFewBytes)
            context.warning(fmt::format("{}: only {} free on its disk; checkpoints are written there",
                                        config.out, human_bytes(static_cast<std::int64_t>(space.available))));
    }
    require_device(context, config);
}

}  // namespace elmo
