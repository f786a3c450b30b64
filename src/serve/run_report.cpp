#include "serve/run_report.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/resolve.h"
#include "elmo/error.h"
#include "elmo/fields.h"
#include "formats/json_text.h"
#include "run/run_folder.h"
#include "serve/replies.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostBytes = 32 << 20;  // of a file; of a longer one its end is read
constexpr std::size_t kMostPoints = 400;
constexpr std::size_t kMostScores = 10;

// The objects of a file of JSON lines. A file that is none, or a link, has none.
std::vector<Json> lines_of(const fs::path& file) {
    std::vector<Json> lines;
    std::error_code error;
    if (fs::symlink_status(file, error).type() != fs::file_type::regular) return lines;
    std::ifstream in(file, std::ios::binary);
    std::string text;
    if (const auto size = static_cast<std::int64_t>(fs::file_size(file, error)); size > kMostBytes) {
        in.seekg(size - kMostBytes);
        std::getline(in, text);  // cut in the middle
    }
    while (std::getline(in, text)) {
        try {
            Json line = parse_json(text, "line");
            if (line.is_object()) lines.push_back(std::move(line));
        } catch (const DataError&) {
            continue;  // a line that is being written, or not ours
        }
    }
    return lines;
}

// Every n-th, so that few enough are left, and the last one.
Json thinned(const std::vector<Json>& points) {
    Json kept = Json::array();
    const std::size_t every = points.size() / kMostPoints + 1;
    for (std::size_t i = 0; i < points.size(); ++i)
        if (i % every == 0 || i + 1 == points.size()) kept.push_back(points[i]);
    return kept;
}

Json part_of(const Json& line, std::initializer_list<const char*> keys) {
    Json part = Json::object();
    for (const char* key : keys)
        if (line.contains(key)) part[key] = line[key];
    return part;
}

// The options that were chosen: all that differ from their default, with the reasons that the log of training
// has.
Json recipe_of(const fs::path& checkpoint, const Json& reasons) {
    Json recipe = Json::array();
    try {
        const Config config = read_run_recipe(checkpoint / "recipe.toml");
        const Config defaults;
        for (const OptionInfo& option : options()) {
            if (option.role == OptionRole::kOutput) continue;
            if (config.encoder == "linear" && option.key != "encoder" &&
                (option.group == "encoder" || option.group == "head" || option.group == "optimisation"))
                continue;  // numbers of steps that it does not take
            const std::string value = get_option(config, option.key), key(option.key);
            if (value == get_option(defaults, option.key)) continue;
            const auto reason = reasons.find(key);
            recipe.push_back(
                {{"key", key},
                 {"value", value},
                 {"reason", reason != reasons.end() && reason->is_string() ? reason->get<std::string>()
                                                                           : std::string()}});
        }
    } catch (const std::exception&) {
        return recipe;  // replaced while it was read, or damaged
    }
    return recipe;
}

// The scores of a label in the run's folder, with their protocol; nothing where there are none of these
// weights. The file is searched, not kept: it may be large, and it may be replaced.
Json label_scores(const fs::path& file, const std::string& checkpoint, std::int64_t label) {
    std::error_code error;
    if (fs::symlink_status(file, error).type() != fs::file_type::regular) return {};
    std::ifstream in(file, std::ios::binary);
    std::string line;
    try {
        if (!std::getline(in, line)) return {};
        const Json protocol = parse_json(line, "line");
        if (protocol.value("checkpoint", "").find(checkpoint) == std::string::npos) return {};
        const std::string start = "{\"label\":" + std::to_string(label) + ",";
        while (std::getline(in, line)) {
            if (!line.starts_with(start)) continue;
            Json scores = parse_json(line, "line");
            scores["protocol"] =
                part_of(protocol, {"data", "split", "samples", "threshold", "threshold_source"});
            return scores;
        }
    } catch (const std::exception&) {  // damaged, or not ours
        return {};
    }
    return {};
}

}  // namespace

std::string run_report(const ServedRun& served, const LoadedRun& loaded) {
    const fs::path folder = served.folder();
    std::vector<Json> steps, validations;
    Json start = Json::object(), end = Json::object();
    for (const Json& line : lines_of(folder / "log.jsonl")) {
        const std::string event =
            line.value("event", Json()).is_string() ? line["event"].get<std::string>() : "";
        if (event == "start" || event == "resume")
            start = line;
        else if (event == "step")
            steps.push_back(part_of(line, {"step", "epoch", "loss"}));
        else if (event == "validation")
            validations.push_back(line);
        else if (event == "end")
            end = line;
    }
    std::vector<Json> scores = lines_of(folder / "scores.jsonl");
    if (scores.size() > kMostScores)
        scores.erase(scores.begin(), scores.end() - static_cast<std::ptrdiff_t>(kMostScores));
    const Json reasons = start.value("reasons", Json::object());
    Json report;
    report["model"] = served.name();
    report["checkpoint"] = loaded.checkpoint;
    report["labels"] = loaded.predictor.num_labels();
    report["calibrated"] = loaded.predictor.calibrated();
    report["training"] = part_of(start, {"total_steps", "train_rows", "validation_rows", "planned_bytes",
                                         "backend", "precision", "encoder", "choices"});
    report["end"] = end;
    report["steps"] = thinned(steps);
    report["validations"] = thinned(validations);
    report["scores"] = scores;
    report["recipe"] =
        recipe_of(loaded.predictor.checkpoint_folder(), reasons.is_object() ? reasons : Json::object());
    report["memory"] = own_json(to_json(loaded.predictor.plan()));
    return json_string(report);
}

std::string label_report(const ServedRun& served, const LoadedRun& loaded, const LabelInfo& label,
                         const std::vector<NearLabel>& nearest) {
    Json report = Json::parse(to_json(label), nullptr, false);
    report["model"] = served.name();
    report["checkpoint"] = loaded.checkpoint;
    report["nearest"] = Json::parse(to_json(FieldGroup{[&](auto&& visit) { visit("nearest", nearest); }}),
                                    nullptr, false)["nearest"];
    if (Json scores =
            label_scores(fs::path(served.folder()) / kLabelScoresFile, loaded.checkpoint, label.label);
        scores.is_object())
        report["scores"] = std::move(scores);
    return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace elmo
