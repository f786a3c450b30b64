#include "study/cells.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "run/checkpoint.h"

namespace elmo {
namespace fs = std::filesystem;

StudyCell::StudyCell(const fs::path& out, std::string name, const Config& config)
    : name_(std::move(name)), config_(config) {
    std::string file = name_;
    for (char& c : file)
        if (c == ':' || c == ',' || c == '/' || c == ' ') c = '_';
    file_ = out / "cells" / (file + ".json");
    run_ = out / "runs" / file;
    begun_ = out / "runs" / (file + ".toml");
    config_.resume = config_.overwrite = false;
    config_.out.clear();
}

void StudyCell::require_same(const fs::path& what, const std::string& recipe) const {
    if (const std::string other = other_result(recipe, config_); !other.empty())
        throw ConfigError(fmt::format(
            "out: {} {}; give the options of the study, another folder, or --overwrite to run all "
            "cells again",
            what.string(), other));
}

std::map<std::string, double> StudyCell::numbers(const std::vector<std::string>& keys) const {
    const nlohmann::json json = read_json(file_);
    const auto damaged = [&](const std::string& key) {
        return DataError(
            fmt::format("{}: expected a cell of a study with \"{}\"; remove the file to run it again",
                        file_.string(), key));
    };
    if (!json.is_object() || !json.contains("recipe") || !json["recipe"].is_string()) throw damaged("recipe");
    require_same(file_, json["recipe"].get<std::string>());
    std::map<std::string, double> numbers;
    for (const std::string& key : keys) {
        if (!json.contains(key) || !json[key].is_number()) throw damaged(key);
        numbers[key] = json[key].get<double>();
    }
    return numbers;
}

TrainResult StudyCell::train(const Context& context) const {
    fs::create_directories(run_.parent_path());
    Config config = config_;
    config.out = run_.string();
    config.resume = fs::exists(run_);
    if (!config.resume)
        write_file_atomically(begun_, stored_recipe(config_));
    else if (fs::exists(begun_))
        require_same(run_, read_file(begun_));
    else
        throw ConfigError(fmt::format(
            "out: expected {}, the options that {} was begun with, found none; remove this folder "
            "to train the cell again",
            begun_.string(), run_.string()));
    const TrainResult trained = elmo::train(context, config);
    if (trained.interrupted) throw Interrupted("stopped; the same command with --resume goes on");
    return trained;
}

void StudyCell::keep(const std::map<std::string, double>& numbers) const {
    nlohmann::ordered_json json = {{"cell", name_}};
    for (const auto& [key, value] : numbers) json[key] = value;
    json["recipe"] = stored_recipe(config_);
    fs::create_directories(file_.parent_path());
    write_file_atomically(file_, json_string(json, 1) + "\n");
}

void StudyCell::remove_run() const {
    fs::remove_all(run_);
    fs::remove(begun_);
}

void remove_cells(const fs::path& out) {
    for (const char* part : {"cells", "runs"}) fs::remove_all(out / part);
}

}  // namespace elmo
