// elmo inspect: what a run folder or a data set holds.
#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "data/dataset.h"
#include "elmo/fields.h"
#include "elmo/run.h"
#include "model/encoder/encoder_spec.h"
#include "run/calibration_file.h"
#include "run/checkpoint.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Facts = std::vector<Fact>;

// In people's units: digits in groups, yes and no, four digits of a number with a fraction.
template <class T>
std::string for_people(const T& value) {
    std::string storage;
    if constexpr (std::convertible_to<const T&, std::string_view>)
        return std::string(unicode::as_valid_utf8(value, storage));
    else if constexpr (std::is_same_v<T, bool>)
        return value ? "yes" : "no";
    else if constexpr (std::is_integral_v<T>)
        return with_commas(static_cast<std::int64_t>(value));
    else
        return fmt::format("{:.4g}", value);
}

// `text` is what people see; the JSON has the value itself under its key.
template <class T>
void add(Facts& facts, const char* key, const T& value, std::string text) {
    JsonLine literal;
    literal.value(value);
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    facts.push_back({key, std::move(text), literal.text(), std::move(name)});
}
template <class T>
void add(Facts& facts, const char* key, const T& value) {
    add(facts, key, value, for_people(value));
}
void add_bytes(Facts& facts, const char* key, std::int64_t bytes) {
    add(facts, key, bytes, human_bytes(bytes));
    std::string& title = facts.back().title;
    title.resize(title.rfind(' '));  // "head bytes" is "head" with a unit
}

void add_linear(Facts& facts, const Checkpoint& checkpoint) {
    const LinearModel model = load_linear_model(checkpoint.content(), checkpoint.state().labels);
    add(facts, "features", model.vocabulary.size());
    add(facts, "trees", static_cast<std::int64_t>(model.trees.roots.size()));
    add(facts, "weights", static_cast<std::int64_t>(model.trees.weights.size()));
    add_bytes(facts, "model_bytes", model.bytes());
}

Facts inspect_run(const Context& context, const fs::path& run, const Config& config) {
    Checkpoint checkpoint(run, config.checkpoint);
    const RunState& state = checkpoint.state();
    const EncoderSpec spec = stored_encoder(checkpoint);
    Facts facts;
    std::error_code error;
    const fs::path last = fs::exists(run / "manifest.json", error) ? run : run / "last";
    add(facts, "kind", "run");
    add(facts, "checkpoint", checkpoint.folder().string());
    add(facts, "step", state.step);
    add(facts, "total_steps", state.total_steps);
    const auto not_kept = [&](const char* key) {
        add(facts, key, nullptr, "not known: a head behind another encoder keeps none");
    };
    if (checkpoint.takes_vectors())
        not_kept("epoch");
    else
        add(facts, "epoch",
            static_cast<double>(state.step) /
                static_cast<double>(std::max<std::int64_t>(state.steps_per_epoch, 1)));
    if (state.last_loss == 0)
        add(facts, "last_loss", nullptr,
            checkpoint.is_linear()       ? "none: a linear model is solved, not trained in steps"
            : checkpoint.takes_vectors() ? "none: a head behind another encoder keeps none"
                                         : "none: the run was changed after its training");
    else
        add(facts, "last_loss", state.last_loss,
            fmt::format("{:.3g} per text and label", state.last_loss / static_cast<double>(state.labels)));
    add(facts, "select", checkpoint.config().select);
    if (state.best_step > 0) {
        add(facts, "best_score", state.best_score,
            fmt::format("{} {:.2f} on the validation rows", checkpoint.config().select, state.best_score));
        add(facts, "best_step", state.best_step);
    }
    add(facts, "labels", state.labels);
    add(facts, "label_names", !checkpoint.label_names().empty());
    if (checkpoint.takes_vectors())
        not_kept("train_rows");
    else
        add(facts, "train_rows", state.train_rows);
    if (!checkpoint.is_linear()) {
        add(facts, "precision", checkpoint.config().precision);
        add_bytes(facts, "head_bytes", checkpoint.head_bytes());
        add(facts, "saturations", state.saturations);
    }
    add(facts, "encoder", spec.family);
    if (checkpoint.is_linear()) {
        add_linear(facts, checkpoint);
    } else if (checkpoint.takes_vectors()) {
        add(facts, "width", spec.width);
    } else {
        add(facts, "width", spec.width);
        add(facts, "layers", spec.layers);
        add(facts, "vocab", spec.vocab);
        add(facts, "encoder_precision", std::string(name_of(spec.dtype)));
        add(facts, "resumable",
            fs::exists(last / "manifest.json", error) &&
                (checkpoint.config().freeze_encoder || fs::exists(last / "optimizer.safetensors", error)));
    }
    add(facts, "calibrated", read_calibration(context, checkpoint).has_value());
    add(facts, "data", checkpoint.config().data);
    return facts;
}

Facts inspect_data(const Context& context, const std::string& path, Config config) {
    config.data = path;
    DataSummary summary;
    Dataset::open_labels(context, config, &summary);
    Facts facts;
    add(facts, "kind", "data");
    add(facts, "format", summary.format);
    add(facts, "train_rows", summary.train_rows);
    add(facts, "test_rows", summary.test_rows);
    add(facts, "labels", summary.labels);
    add(facts, "label_names", summary.has_label_names);
    add(facts, "labels_per_row", summary.labels_per_row);
    add(facts, "rows_per_label", summary.rows_per_label);
    add(facts, "rows_without_labels", summary.rows_without_labels);
    add(facts, "labels_unseen_in_train", summary.labels_unseen_in_train);
    add(facts, "train_filter_pairs", summary.train_filter_pairs);
    add(facts, "test_filter_pairs", summary.test_filter_pairs);
    add(facts, "cache", summary.cache);
    return facts;
}

}  // namespace

std::vector<Fact> inspect(const Context& context, const std::string& path, const Config& config) {
    std::error_code error;
    for (const char* name : {"manifest.json", "best", "last"})
        if (fs::exists(fs::path(path) / name, error)) return inspect_run(context, path, config);
    // A run that has saved nothing so far, which the checkpoint says best.
    if (fs::exists(fs::path(path) / "recipe.toml", error) && fs::exists(fs::path(path) / "log.jsonl", error))
        return inspect_run(context, path, config);
    return inspect_data(context, path, config);
}

std::string to_json(const std::vector<Fact>& facts) {
    std::string line = "{";
    for (const Fact& fact : facts) {
        JsonLine name;
        name.value(fact.name);
        line += (line.size() > 1 ? "," : "") + name.text() + ":" + fact.json;
    }
    return line + "}";
}

}  // namespace elmo
