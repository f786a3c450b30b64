// elmo labels: a run with labels added or removed; everything else is copied byte for byte.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "data/unknown_texts.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/labels.h"
#include "formats/json_lines.h"
#include "io/line_reader.h"
#include "rank/label_list.h"
#include "rank/label_match.h"
#include "revise/new_rows.h"
#include "run/run_data.h"
#include "run/run_folder.h"
#include "sources/detect.h"
#include "sources/records/record.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

struct NewLabel {
    std::string name, text;
    std::int64_t line = 0;  // of the file; 0 where it comes from data
};

// Whether a file is one of texts with their labels: by its name, or by one of its lines.
bool is_data(const std::string& file, std::string_view line) {
    const std::string name = plain_name(file);
    return name.ends_with(".csv") || name.ends_with(".jsonl") || name.ends_with(".json") ||
           name.ends_with(".ndjson") || line.starts_with("__label__") ||
           (line.starts_with('{') && line.ends_with('}'));
}

std::vector<NewLabel> read_new_labels(const std::string& file, Encoding encoding) {
    std::vector<NewLabel> labels;
    std::string storage;
    ImportCounts counts;
    LineReader reader(file);
    while (const auto line = reader.next_line()) {
        if (line->empty()) continue;
        if (is_data(file, *line))
            reader.fail(fmt::format(
                "expected a new label per line (its name, or its name, a tab and a text that describes "
                "it), found '{}', as data has it; give texts with their labels as --data {}, and "
                "names in a file that ends in .txt",
                quoted(*line), file));
        const std::string_view words =
            valid_utf8({*line, reader.line_number(), reader.name()}, encoding, storage, counts);
        const std::size_t tab = words.find('\t');
        const std::string name(trim(words.substr(0, tab)));  // as data is read
        if (name.empty()) reader.fail("expected a name, or a name, a tab and a text; found no name");
        labels.push_back({name, tab == std::string_view::npos ? name : std::string(words.substr(tab + 1)),
                          reader.line_number()});
    }
    if (labels.empty()) throw DataError(fmt::format("{}: expected new labels, found none", file));
    return labels;
}

std::vector<NewLabel> labels_of(const Dataset& dataset) {
    std::vector<NewLabel> labels;
    for (std::int64_t label = 0; label < dataset.num_labels(); ++label) {
        const std::string name(dataset.label_name(label));
        labels.push_back({name, name});
    }
    return labels;
}

using NameTable = std::unordered_map<std::string, std::int64_t>;

// The candidates that the run does not have. In a file, a known or repeated label is an error.
std::vector<NewLabel> only_new(std::vector<NewLabel> candidates, const std::vector<std::string_view>& known,
                               const std::string& file) {
    NameTable place;
    std::vector<bool> drop(candidates.size());
    const auto refuse = [&](const NewLabel& label, const char* expected) {
        throw DataError(fmt::format("{}:{}: expected {}, found '{}'; remove the line", file, label.line,
                                    expected, quoted(label.name)));
    };
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (!place.try_emplace(candidates[i].name, static_cast<std::int64_t>(i)).second) {
            if (!file.empty()) refuse(candidates[i], "every new label once");
            drop[i] = true;
        }
    for (const std::string_view name : known)
        if (const auto found = place.find(std::string(name)); found != place.end()) {
            const auto i = static_cast<std::size_t>(found->second);
            if (!file.empty()) refuse(candidates[i], "labels that the run does not have");
            drop[i] = true;
        }
    std::vector<NewLabel> result;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (!drop[i]) result.push_back(std::move(candidates[i]));
    return result;
}

// Labels whose rows come from texts of which the tokenizer knows little: different ones may get the same row.
void warn_of_unknown_texts(const Context& context, const Tokenizer& tokenizer,
                           const std::vector<NewLabel>& labels, std::span<const std::int64_t> rows_in_data) {
    constexpr std::int64_t kShown = 3;
    std::vector<std::int32_t> ids;
    std::int64_t unknown = 0;
    std::string shown;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (rows_in_data[i] != 0) continue;
        tokenizer.encode(labels[i].text, 0, ids);
        if (is_mostly_unknown(ids, tokenizer) && unknown++ < kShown)
            shown += fmt::format("{}'{}'", shown.empty() ? "" : ", ", quoted(labels[i].name));
    }
    if (unknown > 0)
        context.warning(
            fmt::format("the run's tokenizer knows little of the texts of {} ({}{}), whose rows may be the "
                        "same: give texts "
                        "that have these labels (--data)",
                        counted(unknown, "new label"), shown, unknown > kShown ? ", ..." : ""));
}

// How the run was trained: the default for its new rows.
constexpr OptionKey kRunTraining[] = {"head_lr",        "head_weight_decay", "dropout",
                                      "weight_dropout", "schedule",          "batch_size"};

Config with_run_training(const Context& context, const Config& options, const Checkpoint& checkpoint) {
    const Config& run = checkpoint.config();
    Config config = with_run_reading(options, run);
    copy_option(config, options, "data");  // only what is given: a file of labels needs none
    for (const OptionKey key : {OptionKey("augment"), OptionKey("augment_threshold")})
        copy_option(config, options, key);  // the run's own labels have their rows
    for (const OptionKey key : kRunTraining)
        if (!given(config, key)) copy_option(config, run, key);
    choose_option(config, "precision", &Config::precision,
                  precision_of(stored_head(checkpoint.content()).format), "the run's head");
    choose_option<std::string>(config, "head_kahan", &Config::head_kahan, "0",
                               "the frequency of a new label is not known");
    copy_option(config, run, "head_rounding");
    copy_option(config, run, "head_noise");
    copy_option(config, run, "windows");
    choose_option(
        config, "max_length", &Config::max_length,
        Auto<std::int64_t>(cut_length(context, run.max_length, read_encoder_spec(checkpoint.content()))),
        "what the run's encoder takes");
    const std::string all_rows = "every row counts";
    choose_option(config, "test_share", &Config::test_share, 0.0, all_rows);
    choose_option<std::string>(config, "validation", &Config::validation, "0", all_rows);
    choose_option<std::string>(config, "split", &Config::split, "train", all_rows);
    choose_option<std::string>(config, "filter", &Config::filter, "none", all_rows);
    return with_usual_numbers(config);
}

void check_ready(const std::string& run, const Config& config) {
    require_other_folder(run, config.out);
    validate(config);
}

// The run's state with other labels: its scores were those of the old ones.
RunState changed_state(const RunState& was, const LabelTable& labels) {
    RunState state = was;
    state.labels = static_cast<std::int64_t>(labels.counts.size());
    state.names_hash = names_hash(labels.names);
    state.best_score = state.top_score = -1;
    state.last_loss = 0;  // that of other labels
    state.best_step = 0;
    return state;
}

void write_run(RunFolder& folder, const Checkpoint& from, const LabelTable& labels,
               std::span<const std::int64_t> kept, Backend& backend, View added, View added_exponents,
               const char* action, const TrainedTexts* texts = nullptr) {
    folder.prepare();
    derive_checkpoint(
        folder.best(), from, labels, changed_state(from.state(), labels),
        [&](const std::filesystem::path& to) {
            rewrite_head(from.content(), kept, backend, added, added_exponents, to);
        },
        nullptr, texts);
    JsonLinesWriter(folder.path() / "log.jsonl")
        .write({{"event", "labels"},
                {"action", action},
                {"from", from.folder().string()},
                {"labels_before", from.state().labels},
                {"labels", static_cast<std::int64_t>(labels.counts.size())}});
}

}  // namespace

Config resolve_new_labels(const Context& context, const std::string& run, const Config& config) {
    return with_run_training(context, config, Checkpoint(run, config.checkpoint));
}

LabelChange add_labels(const Context& given_context, const std::string& run, const std::string& file,
                       const Config& given) {
    check_ready(run, given);
    const Context context = given_context.with_threads(given.threads);
    if (file.empty() && given.data.empty())
        throw ConfigError("labels add: expected a file of new labels, or --data with texts that carry them");
    if (given.steps > 0 && given.data.empty())
        throw ConfigError("steps: new labels are trained on --data, found none");
    RunFolder folder(context, given);
    Checkpoint checkpoint(run, given.checkpoint);
    refuse_linear(checkpoint, "labels add");
    const auto known = checkpoint.label_names();
    if (known.empty())
        throw DataError(fmt::format(
            "{}: expected a run with label names, found one with numbers alone; labels cannot be added to it",
            run));
    const Config config = with_run_training(context, given, checkpoint);
    const auto tokenizer = stored_tokenizer(checkpoint.content());
    std::optional<Dataset> dataset;
    if (!config.data.empty()) {
        dataset = Dataset::open(context, config, *tokenizer, nullptr, {SplitName::kTrain});
        if (!dataset->has_label_names() || !dataset->train().present)
            throw DataError(
                fmt::format("{}: expected training rows and label names, found none of them; new "
                            "labels are found by name",
                            config.data));
    }
    const std::vector<NewLabel> labels =
        only_new(file.empty() ? labels_of(*dataset) : read_new_labels(file, encoding_of(given)), known, file);
    if (labels.empty()) throw DataError(fmt::format("{}: expected new labels, found none", config.data));

    LabelChange change;
    change.out = config.out;
    change.added = true;
    change.labels_before = checkpoint.state().labels;
    change.labels_after = change.labels_before + static_cast<std::int64_t>(labels.size());
    NewLabelData data;
    LabelTable table{checkpoint.read_label_counts(), known};
    std::vector<std::string_view> texts;
    NameTable place;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        place[labels[i].name] = static_cast<std::int64_t>(i);
        table.names.push_back(labels[i].name);
        texts.push_back(labels[i].text);
    }
    table.counts.resize(table.names.size());
    if (dataset) {
        data.split = &dataset->train();
        std::vector<std::string_view> data_names;
        for (std::int64_t label = 0; label < dataset->num_labels(); ++label)
            data_names.push_back(dataset->label_name(label));
        data.known_label = match_labels(data_names, known).number;
        for (std::int64_t& label : data.known_label)
            if (label >= change.labels_before) label = -1;
        for (std::int64_t label = 0; label < dataset->num_labels(); ++label) {
            const auto found = place.find(std::string(dataset->label_name(label)));
            data.new_label.push_back(found == place.end() ? -1 : found->second);
            if (found != place.end())
                table.counts[static_cast<std::size_t>(change.labels_before + found->second)] +=
                    dataset->label_counts()[static_cast<std::size_t>(label)];
        }
    }
    warn_of_unknown_texts(context, *tokenizer, labels,
                          std::span(table.counts).subspan(static_cast<std::size_t>(change.labels_before)));
    NewRows rows(context, checkpoint, *tokenizer, config, config.max_length,
                 static_cast<std::int64_t>(labels.size()), data, config.steps > 0);
    rows.start({checkpoint.read_label_counts(), known}, texts, change);
    if (config.steps > 0) rows.train(change);
    std::vector<std::int64_t> kept(static_cast<std::size_t>(change.labels_before));
    std::iota(kept.begin(), kept.end(), std::int64_t{0});
    TrainedTexts trained = TrainedTexts::load(checkpoint.content());
    if (dataset) trained.add(dataset->train().tokens, all_rows(dataset->train().rows()));
    write_run(folder, checkpoint, table, kept, rows.backend(), rows.weights(), rows.row_exponents(), "add",
              &trained);
    return change;
}

LabelChange remove_labels(const Context& given_context, const std::string& run, const std::string& file,
                          const Config& config) {
    check_ready(run, config);
    const Context context = given_context.with_threads(config.threads);
    RunFolder folder(context, config);
    Checkpoint checkpoint(run, config.checkpoint);
    refuse_linear(checkpoint, "labels remove");
    const auto names = checkpoint.label_names();
    const std::int64_t labels = checkpoint.state().labels;
    const auto kept = all_labels_but(read_label_list(file, names, labels), labels);
    if (kept.empty()) throw DataError(fmt::format("{}: expected a label to be left, found none", file));
    const auto counts = checkpoint.read_label_counts();
    LabelTable table;
    for (const std::int64_t label : kept) {
        table.counts.push_back(counts[static_cast<std::size_t>(label)]);
        if (!names.empty()) table.names.push_back(names[static_cast<std::size_t>(label)]);
    }
    const auto backend = make_backend(context, config);
    write_run(folder, checkpoint, table, kept, *backend, View{}, View{}, "remove");
    LabelChange change;
    change.out = config.out;
    change.labels_before = labels;
    change.labels_after = static_cast<std::int64_t>(kept.size());
    return change;
}

}  // namespace elmo
