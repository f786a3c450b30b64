// elmo report: an evaluation as a page.
#include "elmo/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text_util.h"
#include "config/resolve.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/resolve.h"
#include "io/atomic_file.h"
#include "io/links.h"
#include "rank/report/threshold.h"
#include "ranks/collectives.h"
#include "run/calibration_file.h"
#include "run/checkpoint.h"
#include "run/run_folder.h"
#include "study/study_files.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kUsualErrors = 20;
constexpr double kUsualThreshold = 0.5;
constexpr std::size_t kShownText = 400, kShownLabels = 12;  // of an example: bytes, answers
constexpr std::size_t kShownInstead = 2;

// Before the work.
void require_page(const Config& config) {
    if (config.out.empty())
        throw ConfigError("out: expected a file for the page, found none; give --out PAGE.html");
    std::error_code error;
    if (fs::is_directory(config.out, error))
        throw ConfigError(fmt::format("out: expected a file for the page, found the folder {}", config.out));
    for (const std::string& read : {config.data, config.predictions})
        if (!read.empty() && fs::equivalent(read, config.out, error))
            throw ConfigError(
                fmt::format("out: {} is what the report is about; give another file", config.out));
    if (fs::exists(config.out, error) && !config.overwrite)
        throw ConfigError(
            fmt::format("out: {} exists already; give --overwrite or another file", config.out));
    const AtomicFile can_be_made(config.out);
}

bool is_calibrated(const Context& context, const std::string& run, const Config& config) {
    return config.probabilities != "raw" &&
           read_calibration(context, Checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead));
}

// The file in the run that the server's page reads; "" where scores are not kept in the run.
std::string label_scores_file(const std::string& run, const Config& config) {
    std::error_code error;
    if (config.save_scores != "auto" || fs::exists(fs::path(run) / "manifest.json", error) ||
        ::access(run.c_str(), W_OK) != 0)
        return "";
    const fs::path file = fs::path(run) / kLabelScoresFile;
    refuse_link(file);
    return file.string();
}

// A row per metric, a column per k.
Table score_table(const Evaluation& e) {
    Table table{"scores", "In percent.", {{"score", ""}}, {}, "Scores of the ranking"};
    if (e.bootstrap > 0)
        table.caption = fmt::format("In percent, with {:.0f} % intervals over texts.", 100 * e.confidence);
    std::vector<std::string> ks;
    for (const Score& score : e.scores) {
        const std::size_t at = std::min(score.name.find('@'), score.name.size());
        const std::string metric = score.name.substr(0, at), k = score.name.substr(at);
        auto column = std::find(ks.begin(), ks.end(), k);
        if (column == ks.end()) {
            column = ks.insert(ks.end(), k);
            table.columns.push_back({score.name.substr(at), k});
            if (e.bootstrap > 0) table.columns.push_back({k + "_interval", ""});
        }
        const auto place = static_cast<std::size_t>(column - ks.begin()) * (e.bootstrap > 0 ? 2 : 1) + 1;
        auto row = std::find_if(table.rows.begin(), table.rows.end(),
                                [&](const auto& r) { return std::get<std::string>(r[0]) == metric; });
        if (row == table.rows.end()) row = table.rows.insert(row, {metric});
        row->resize(std::max(row->size(), place + 1));
        (*row)[place] = score.percent;
        if (e.bootstrap == 0) continue;
        row->resize(std::max(row->size(), place + 2));
        (*row)[place + 1] = fmt::format("{:.1f}\u00a0to\u00a0{:.1f}", score.low, score.high);  // on one line
    }
    for (auto& row : table.rows) row.resize(table.columns.size());
    return table;
}

Table answer_table(const ThresholdScores& at) {
    Table table{
        "answers",
        fmt::format("In percent, of answers above a threshold of {:.4g} ({}).", at.threshold, at.source),
        {{"average", "average"}, {"precision", "precision"}, {"recall", "recall"}, {"f1", "F1"}},
        {},
        "Precision, recall and F1"};
    const auto add = [&](const char* name, const AnswerScores& scores) {
        table.rows.push_back({std::string(name), scores.precision, scores.recall, scores.f1});
    };
    add("micro (over all pairs of text and label)", at.micro);
    add("macro (mean over labels)", at.macro);
    add("samples (mean over texts)", at.samples);
    return table;
}

Table group_table(const std::vector<LabelGroup>& groups) {
    Table table{
        "groups",
        "By training texts of a label. P@k: what a group adds to the P@k of all. R@k: the share of its true "
        "labels that are found. In percent.",
        {{"group", "group"},
         {"labels", "labels"},
         {"least", "training texts from"},
         {"most", "to"},
         {"positives", "true labels here"}},
        {},
        "Frequent and rare labels"};
    for (const Score& score : groups.front().scores) table.columns.push_back({score.name, score.name});
    for (const LabelGroup& group : groups) {
        std::vector<Cell> row = {group.name, group.labels, group.least, group.most, group.positives};
        for (const Score& score : group.scores) row.emplace_back(score.percent);
        table.rows.push_back(row);
    }
    return table;
}

Table label_table(const char* name, const char* title, const std::string& caption,
                  const std::vector<LabelScores>& labels) {
    Table table{name,
                caption,
                {{"name", "label"},
                 {"precision", "precision", 1},
                 {"recall", "recall", 1},
                 {"f1", "F1", 1},
                 {"positives", "texts"},
                 {"answered", "answered"},
                 {"taken_for", "taken for"}},
                {},
                title};
    for (const LabelScores& label : labels) {
        std::vector<std::string> others;
        for (const LabelScores::Instead& instead : label.taken_for)
            if (others.size() < kShownInstead)
                others.push_back(fmt::format("{} ({})", instead.name, with_commas(instead.texts)));
        table.rows.push_back({label.name, label.scores.precision, label.scores.recall, label.scores.f1,
                              label.positives, label.answered, fmt::format("{}", fmt::join(others, "; "))});
    }
    return table;
}

Table confusion_table(const std::vector<Confusion>& confusions) {
    Table table{"confusions",
                "A true label was missed, and this one was the best wrong answer.",
                {{"expected", "expected"}, {"found", "found"}, {"texts", "texts"}},
                {},
                "Commonest confusions"};
    for (const Confusion& c : confusions) table.rows.push_back({c.expected, c.found, c.texts});
    return table;
}

std::string list_of(std::vector<std::string> names) {
    if (names.empty()) return "nothing";
    const std::size_t all = names.size();
    if (all > kShownLabels) {
        names.resize(kShownLabels);
        names.push_back(fmt::format("and {} more", all - kShownLabels));
    }
    return fmt::format("{}", fmt::join(names, "; "));
}

Table example_table(const std::vector<WrongText>& texts) {
    Table table{"examples",
                "The texts with the worst answers: fewest right, then the surest wrong ones.",
                {{"row", "row"}, {"text", "text"}, {"expected", "expected"}, {"found", "found"}},
                {},
                "Examples of errors"};
    for (const WrongText& wrong : texts) {
        std::vector<std::string> found;
        for (const WrongText::Found& label : wrong.found)
            found.push_back(fmt::format("{} ({:.2f})", label.name, label.probability));
        table.rows.push_back({fmt::format("{} {}", wrong.split, with_commas(wrong.row)),
                              quoted(wrong.text, kShownText), list_of(wrong.expected), list_of(found)});
    }
    return table;
}

Table protocol_table(const Evaluation& e) {
    Table table{
        "protocol", "What these scores can be compared with.", {{"what", ""}, {"value", ""}}, {}, "Protocol"};
    visit_protocol(e, [&]<typename T>(std::string_view name, const T& value) {
        std::string words(name);
        std::replace(words.begin(), words.end(), '_', ' ');
        if constexpr (std::same_as<T, std::nullptr_t>)
            return;
        else if constexpr (std::convertible_to<const T&, std::string_view>)
            table.rows.push_back({words, std::string(std::string_view(value))});
        else if constexpr (std::integral<T>)
            table.rows.push_back({words, with_commas(value)});
        else
            table.rows.push_back({words, fmt::format("{}", value)});
    });
    return table;
}

LineChart calibration_chart(const std::vector<CalibrationBin>& bins) {
    LineChart chart{"Calibration",
                    "The share of answers that is right, against their probability, by tenths. On the dashed "
                    "line probabilities mean what they say; below it they promise too much.",
                    {"mean probability"},
                    {"share that is right"},
                    {{"this run", {}, false}, {"as promised", {{0, 0, "0"}, {1, 1, "1"}}, true}}};
    chart.x.ticks = chart.y.ticks = {0, 0.2, 0.4, 0.6, 0.8, 1};
    for (const CalibrationBin& bin : bins)
        chart.series[0].points.push_back(
            {bin.mean, bin.right,
             fmt::format("probability {:.1f} to {:.1f}, mean {:.3f}: {:.1f} % of {} answers are right",
                         bin.from, bin.to, bin.mean, 100 * bin.right, with_commas(bin.pairs))});
    return chart;
}

BarChart f1_chart(const std::vector<F1Band>& bands) {
    BarChart chart{"F1 of labels",
                   "How many labels have which F1, of those that some text here has.",
                   "F1, percent",
                   {"labels"},
                   {},
                   {{"labels", {}}},
                   {}};
    for (const F1Band& band : bands) {
        chart.categories.push_back(band.up_to == 0 ? "0" : fmt::format("to {:.0f}", band.up_to));
        chart.series[0].values.push_back(static_cast<double>(band.labels));
    }
    return chart;
}

Study page_of(const std::string& run, const Config& config, const Evaluation& e, bool chose_threshold,
              bool named_split) {
    Study page;
    page.name = "report";
    page.title = fmt::format("Report on {}", run.empty() ? config.predictions : run);
    const std::string rows = named_split ? fmt::format("{}: {}", e.data, e.split)
                                         : fmt::format("{} rows of {}: {}", e.split, e.data, e.split_reason);
    page.paragraphs = {fmt::format("{} texts ({}), {} labels.", with_commas(e.num_samples), rows,
                                   with_commas(e.num_labels))};
    if (!e.labels_matched.empty()) page.paragraphs.push_back(e.labels_matched);
    if (chose_threshold)
        page.paragraphs.push_back(fmt::format(
            "The run is not calibrated: labels are answered above a probability of {}. 'elmo calibrate "
            "RUN' finds the threshold of the best F1, and probabilities that mean what they say.",
            kUsualThreshold));
    page.tables.push_back(score_table(e));
    if (e.at_threshold) page.tables.push_back(answer_table(*e.at_threshold));
    page.tables_first = page.tables.size();
    if (!e.calibration_curve.empty()) page.charts.emplace_back(calibration_chart(e.calibration_curve));
    if (!e.f1_bands.empty()) page.charts.emplace_back(f1_chart(e.f1_bands));
    if (!e.groups.empty()) page.tables.push_back(group_table(e.groups));
    if (!e.worst_labels.empty())
        page.tables.push_back(
            label_table("worst_labels", "Labels of lowest F1",
                        "In percent. Taken for: the best wrong answers where it was missed, and in "
                        "how many texts.",
                        e.worst_labels));
    if (!e.confusions.empty()) page.tables.push_back(confusion_table(e.confusions));
    if (!e.wrong_texts.empty()) page.tables.push_back(example_table(e.wrong_texts));
    if (!e.frequent_labels.empty())
        page.tables.push_back(label_table(
            "labels", "Precision and recall by label",
            fmt::format("The {} most frequent labels here, in percent; '--per-label FILE.csv' writes all.",
                        with_commas(static_cast<std::int64_t>(e.frequent_labels.size()))),
            e.frequent_labels));
    page.tables.push_back(protocol_table(e));
    return page;
}

}  // namespace

Report report(const Context& context, const std::string& run, const Config& given, const std::string& command,
              const RowsName& rows) {
    Config config = run.empty() ? given : resolve_for_run(run, given);
    require_page(config);
    if (config.errors == 0) config.errors = kUsualErrors;
    const bool chooses =
        !has_threshold(config) && (!config.predictions.empty() || !is_calibrated(context, run, config));
    if (chooses)
        choose_option(config, "threshold", &Config::threshold, kUsualThreshold, "the default of a report");
    if (config.per_label.empty() && config.predictions.empty())
        config.per_label = label_scores_file(run, config);
    Report result;
    result.evaluation = evaluate(context, run, config, rows);
    if (!ranks_of(context).is_first()) return result;
    result.page = config.out;
    write_file_atomically(
        config.out, study_page(page_of(run, config, result.evaluation, chooses && config.predictions.empty(),
                                       !rows.split.empty()),
                               provenance_now(command)));
    return result;
}

}  // namespace elmo
