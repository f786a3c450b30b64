#include "serve/run_report.h"

#include <fmt/format.h>

#include <deque>
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
constexpr std::size_t kLongestPoint = 16 << 10, kLongestLine = 1 << 20;

// take(line) for each line of a file that may be an object. A file that is none, or a link, has none.
template <class Take>
void visit_lines(const fs::path& file, const Take& take) {
    std::error_code error;
    if (fs::symlink_status(file, error).type() != fs::file_type::regular) return;
    std::ifstream in(file, std::ios::binary);
    std::string text;
    if (const auto size = static_cast<std::int64_t>(fs::file_size(file, error)); size > kMostBytes) {
        in.seekg(size - kMostBytes);
        std::getline(in, text);  // cut in the middle
    }
    while (std::getline(in, text))
        if (text.starts_with('{') && text.size() <= kLongestLine) take(text);
}

// Null where it is no object: a line that is being written, or not ours.
Json object_of(const std::string& line) {
    try {
        Json object = parse_json(line, "line");
        return object.is_object() ? object : Json();
    } catch (const DataError&) {
        return {};
    }
}

// Few enough of very many lines, as far from each other as can be, and the last one. They are parsed in the
// end: that takes much longer than reading them.
class ThinnedLines {
  public:
    void add(const std::string& line) {
        if (line.size() > kLongestPoint) return;
        last_ = line;
        if (count_++ % every_ != 0) return;
        lines_.push_back(line);
        if (lines_.size() < 4 * kMostPoints) return;
        for (std::size_t i = 1; 2 * i < lines_.size(); ++i) lines_[i] = std::move(lines_[2 * i]);
        lines_.resize((lines_.size() + 1) / 2);
        every_ *= 2;
    }
    Json points() const {
        Json kept = Json::array();
        const std::size_t step = lines_.size() / kMostPoints + 1;
        for (std::size_t i = 0; i < lines_.size(); i += step)
            if (Json point = object_of(lines_[i]); point.is_object()) kept.push_back(std::move(point));
        const bool has_last =
            !lines_.empty() && (lines_.size() - 1) % step == 0 && (count_ - 1) % every_ == 0;
        if (Json point = object_of(last_); !has_last && point.is_object()) kept.push_back(std::move(point));
        return kept;
    }

  private:
    std::vector<std::string> lines_;
    std::string last_;
    std::size_t count_ = 0, every_ = 1;
};

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
    ThinnedLines step_lines, validations;
    std::string start_line, end_line;
    visit_lines(folder / "log.jsonl", [&](const std::string& line) {
        const auto is = [&](const char* event) {  // as the log begins each of its lines
            return line.starts_with(fmt::format("{{\"event\":\"{}\"", event));
        };
        if (is("step"))
            step_lines.add(line);
        else if (is("validation"))
            validations.add(line);
        else if (is("start") || is("resume"))
            start_line = line;
        else if (is("end"))
            end_line = line;
    });
    const auto object_or_none = [](const std::string& line) {
        Json object = object_of(line);
        return object.is_object() ? object : Json::object();
    };
    const Json start = object_or_none(start_line), end = object_or_none(end_line);
    Json steps = Json::array();
    for (const Json& point : step_lines.points()) steps.push_back(part_of(point, {"step", "epoch", "loss"}));
    std::deque<std::string> score_lines;
    visit_lines(folder / "scores.jsonl", [&](const std::string& line) {
        score_lines.push_back(line);
        if (score_lines.size() > kMostScores) score_lines.pop_front();
    });
    Json scores = Json::array();
    for (const std::string& line : score_lines)
        if (Json score = object_of(line); score.is_object()) scores.push_back(std::move(score));
    const Json reasons = start.value("reasons", Json::object());
    Json report;
    report["model"] = served.name();
    report["checkpoint"] = loaded.checkpoint;
    report["labels"] = loaded.predictor.num_labels();
    report["calibrated"] = loaded.predictor.calibrated();
    report["training"] = part_of(start, {"total_steps", "train_rows", "validation_rows", "planned_bytes",
                                         "backend", "precision", "encoder", "choices"});
    report["end"] = end;
    report["steps"] = steps;
    report["validations"] = validations.points();
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
