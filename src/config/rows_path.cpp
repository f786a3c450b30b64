#include "config/rows_path.h"

#include <string>

namespace elmo {
namespace {

bool is_rows_name(const std::string& name) {
    if (!name.starts_with(kRowsPrefix)) return false;
    const std::string_view rest = std::string_view(name).substr(kRowsPrefix.size());
    const auto consists_of = [&](std::string_view characters) {
        return rest.find_first_not_of(characters) == rest.npos;
    };
    constexpr std::string_view kAll = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (rest.size() == 6) return consists_of(kAll);
    return (rest.size() == 16 || rest.size() == 32) && consists_of(kAll.substr(0, 16));
}

}  // namespace

bool is_rows_path(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    if (name == "train.jsonl" || name == "test.jsonl")
        return is_rows_name(path.parent_path().filename().string());
    return is_rows_name(name);
}

}  // namespace elmo
