#include "run/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/json_text.h"

namespace elmo {
namespace {

// States of earlier versions have none of these.
constexpr std::string_view kTopScore = "top_score", kRecentLosses = "recent_losses",
                           kSmallestLoss = "smallest_loss";
constexpr std::size_t kMostLosses = 100;

// One list of the state's keys: writing and reading walk it.
template <class State, class Visit>
void visit_state(State& state, const Visit& visit) {
    visit("step", state.step);
    visit("total_steps", state.total_steps);
    visit("steps_per_epoch", state.steps_per_epoch);
    visit("updates", state.updates);
    visit("saturations", state.saturations);
    visit("last_loss", state.last_loss);
    visit("best_score", state.best_score);
    visit("best_step", state.best_step);
    visit(kTopScore, state.top_score);
    visit(kRecentLosses, state.recent_losses);
    visit(kSmallestLoss, state.smallest_loss);
    visit("train_rows", state.train_rows);
    visit("labels", state.labels);
    visit("data_hash", state.data_hash);
    visit("names_hash", state.names_hash);
}

template <class T>
bool get_value(const nlohmann::json& json, T& value) {
    return get_exact(json, value);
}
bool get_value(const nlohmann::json& json, std::vector<double>& values) {
    if (!json.is_array() || json.size() > kMostLosses) return false;
    values.resize(json.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!get_exact(json[i], values[i])) return false;
    return true;
}

}  // namespace

std::string state_text(const RunState& state) {
    nlohmann::ordered_json json;
    visit_state(state, [&](std::string_view key, const auto& value) { json[std::string(key)] = value; });
    return json_string(json, 2) + "\n";
}

RunState read_state(const nlohmann::json& json, const std::string& file) {
    RunState state;
    visit_state(state, [&](std::string_view key, auto& value) {
        if ((key == kTopScore || key == kRecentLosses || key == kSmallestLoss) && !json.contains(key)) return;
        constexpr bool kCount = std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>;
        bool sound = json.contains(key) && get_value(json[key], value);
        // A step below 0 or far beyond the run would address a batch that does not exist.
        if constexpr (kCount) sound = sound && value >= 0 && value >> 62 == 0;
        if (!sound)
            throw DataError(fmt::format(
                "{}: expected {} for '{}', found {}", file,
                kCount ? "a whole number from 0 to 2^62" : "a value of its type", key,
                json.contains(key) ? quoted(json_string(json[key], -1, true)) : std::string("none")));
    });
    state.top_score = std::max(state.top_score, state.best_score);
    if (state.labels < 1)
        throw DataError(fmt::format("{}: expected labels from 1, found {}", file, state.labels));
    if (state.step > state.total_steps)
        throw DataError(
            fmt::format("{}: expected a step of {} at most, found {}", file, state.total_steps, state.step));
    return state;
}

}  // namespace elmo
