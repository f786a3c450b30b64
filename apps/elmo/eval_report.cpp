// The report of `elmo eval`: tables of scores, of answers at a threshold and of mistakes, and the protocol.
#include "eval_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "elmo/messages.h"
#include "output.h"

namespace elmo::cli {
namespace {

// One row per metric, one column per k; both in the order of the scores.
std::vector<std::vector<std::string>> grid(const std::string& title, const std::vector<Score>& scores) {
    std::vector<std::vector<std::string>> rows = {{title}};
    for (const Score& score : scores) {
        const std::size_t at = std::min(score.name.find('@'), score.name.size());
        const std::string metric = score.name.substr(0, at), k = score.name.substr(at);
        auto column = std::find(rows[0].begin(), rows[0].end(), k);
        if (column == rows[0].end()) column = rows[0].insert(rows[0].end(), k);
        const auto c = static_cast<std::size_t>(column - rows[0].begin());
        auto row = std::find_if(rows.begin() + 1, rows.end(), [&](const auto& r) { return r[0] == metric; });
        if (row == rows.end()) row = rows.insert(rows.end(), {metric});
        row->resize(std::max(row->size(), c + 1));
        (*row)[c] = score.high > 0
                        ? fmt::format("{:.2f} [{:.2f}, {:.2f}]", score.percent, score.low, score.high)
                        : fmt::format("{:.2f}", score.percent);
    }
    return rows;
}

// The groups below each other: one row per group and metric.
std::string group_table(const std::vector<LabelGroup>& groups) {
    std::vector<std::vector<std::string>> rows;
    for (const LabelGroup& group : groups) {
        auto of_group = grid("", group.scores);
        if (rows.empty()) rows.push_back(of_group[0]);
        for (std::size_t i = 1; i < of_group.size(); ++i) {
            of_group[i][0] = fmt::format("{} {}", of_group[i][0], group.name);
            rows.push_back(of_group[i]);
        }
    }
    Facts meaning;
    for (const LabelGroup& group : groups)
        meaning.push_back(
            {group.name,
             fmt::format("{} with {}{}; {} scored", counted(group.labels, "label"),
                         group.least < group.most ? with_commas(group.least) + " to " : std::string(),
                         counted(group.most, "training row"), counted(group.positives, "positive"))});
    return aligned(rows) + "\n" + aligned(meaning);
}

Facts protocol_of(const Evaluation& e) {
    Facts protocol = {{"data", e.data},
                      {"split", fmt::format("{}: {}, {}", e.split, counted(e.num_samples, "text"),
                                            counted(e.num_labels, "label"))}};
    protocol.push_back({"rows chosen", e.split_reason});
    if (e.unlabelled_samples > 0)
        protocol.push_back(
            {"without labels", fmt::format("{} of the {}, which score{} 0 whatever is answered",
                                           with_commas(e.unlabelled_samples), with_commas(e.num_samples),
                                           e.unlabelled_samples == 1 ? "s" : "")});
    if (e.trained_samples > 0)
        protocol.push_back(
            {"trained texts",
             fmt::format("{} of the {} trained the run, or are alike to its tokenizer{}",
                         with_commas(e.trained_samples), with_commas(e.num_samples),
                         e.untold_samples > 0 ? fmt::format(", which knows too little of {} to tell",
                                                            counted(e.untold_samples, "other"))
                                              : "")});
    if (!e.checkpoint.empty()) protocol.push_back({"checkpoint", e.checkpoint});
    if (!e.labels_matched.empty()) protocol.push_back({"labels matched", e.labels_matched});
    protocol.push_back({"conventions", e.like.empty() ? "elmo's own (docs/evaluation.md)" : "as " + e.like});
    protocol.push_back(
        {"propensities",
         e.propensity_source.empty()
             ? "none: the data set has no training labels"
             : fmt::format("A {}, B {} ({}), N {}, counts of the {}", e.propensity_a, e.propensity_b,
                           e.propensity_source, with_commas(e.propensity_rows), e.propensity_counts)});
    protocol.push_back({"filter", e.filter});
    protocol.push_back({"ties", e.ties});
    if (e.bootstrap > 0)
        protocol.push_back({"intervals", fmt::format("{:.0f} %, bootstrap over texts, {} replicates",
                                                     100 * e.confidence, e.bootstrap)});
    if (e.texts_per_second > 0)
        protocol.push_back({"speed", fmt::format("{:.0f} texts/s", e.texts_per_second)});
    return protocol;
}

std::vector<std::string> score_cells(const std::string& name, const AnswerScores& scores) {
    return {name, fmt::format("{:.2f}", scores.precision), fmt::format("{:.2f}", scores.recall),
            fmt::format("{:.2f}", scores.f1)};
}

std::string threshold_table(const ThresholdScores& at) {
    const std::vector<std::vector<std::string>> rows = {
        {fmt::format("at threshold {:.4f}", at.threshold), "precision", "recall", "F1"},
        score_cells("micro (all pairs)", at.micro),
        score_cells("macro (mean of labels)", at.macro),
        score_cells("samples (mean of texts)", at.samples)};
    return aligned(rows) + "\n" +
           aligned(
               Facts{{"threshold", at.source},
                     {"answers", fmt::format("{}, {} right; {}", counted(at.answered, "label"),
                                             with_commas(at.right), counted(at.positives, "true label"))}});
}

// The same of two runs; one that is not calibrated may have none.
std::string threshold_table(const std::optional<ThresholdScores>& first,
                            const std::optional<ThresholdScores>& second) {
    std::vector<std::vector<std::string>> rows = {{"at threshold", "first", "second", "difference"}};
    for (const auto& [average, scores] : {std::pair{"micro", &ThresholdScores::micro},
                                          {"macro", &ThresholdScores::macro},
                                          {"samples", &ThresholdScores::samples}})
        for (const auto& [name, score] : {std::pair{"precision", &AnswerScores::precision},
                                          {"recall", &AnswerScores::recall},
                                          {"F1", &AnswerScores::f1}}) {
            const auto cell = [&, of = scores, what = score](const std::optional<ThresholdScores>& at) {
                return at ? fmt::format("{:.2f}", (*at).*of.*what) : "-";
            };
            rows.push_back({fmt::format("{} {}", average, name), cell(first), cell(second),
                            first && second
                                ? fmt::format("{:+.2f}", (*second).*scores.*score - (*first).*scores.*score)
                                : "-"});
        }
    const auto threshold = [](const std::optional<ThresholdScores>& at) {
        return at ? fmt::format("{:.4f}, {}", at->threshold, at->source)
                  : std::string("none: not calibrated, and no --threshold");
    };
    return aligned(rows) + "\n" +
           aligned(
               Facts{{"threshold of first", threshold(first)}, {"threshold of second", threshold(second)}});
}

std::string worst_table(const std::vector<LabelScores>& labels) {
    std::vector<std::vector<std::string>> rows = {
        {"labels of lowest F1", "precision", "recall", "F1", "texts", "answered", "right"}};
    for (const LabelScores& label : labels) {
        auto& row = rows.emplace_back(score_cells(quoted(label.name), label.scores));
        for (const std::int64_t count : {label.positives, label.answered, label.right})
            row.push_back(with_commas(count));
    }
    return aligned(rows);
}

std::string confusion_table(const std::vector<Confusion>& confusions) {
    std::vector<std::vector<std::string>> rows = {{"commonest confusions: expected", "found", "texts"}};
    for (const Confusion& c : confusions)
        rows.push_back({quoted(c.expected), quoted(c.found), with_commas(c.texts)});
    return aligned(rows);
}

std::string wrong_text_list(const std::vector<WrongText>& texts) {
    std::string out = "worst answers\n";
    for (const WrongText& wrong : texts) {
        std::vector<std::string> found;
        for (const WrongText::Found& label : wrong.found)
            found.push_back(fmt::format("{} {:.2f}", label.name, label.probability));
        const auto list = [](const std::vector<std::string>& names) {
            return names.empty() ? std::string("nothing")
                                 : quoted(fmt::format("{}", fmt::join(names, ", ")), 200);
        };
        out +=
            fmt::format("  {}, row {}: {}\n    expected  {}\n    found     {}\n", wrong.split,
                        with_commas(wrong.row), quoted(wrong.text, 200), list(wrong.expected), list(found));
    }
    return out;
}

}  // namespace

std::string report(const Evaluation& evaluation) {
    std::string out = aligned(grid("percent", evaluation.scores)) + "\n";
    if (!evaluation.groups.empty()) out += group_table(evaluation.groups) + "\n";
    if (evaluation.at_threshold) out += threshold_table(*evaluation.at_threshold) + "\n";
    if (!evaluation.worst_labels.empty()) out += worst_table(evaluation.worst_labels) + "\n";
    if (!evaluation.confusions.empty()) out += confusion_table(evaluation.confusions) + "\n";
    if (!evaluation.wrong_texts.empty()) out += wrong_text_list(evaluation.wrong_texts) + "\n";
    return out + aligned(protocol_of(evaluation));
}

std::string report(const Comparison& comparison) {
    const bool intervals = comparison.first.bootstrap > 0;
    std::vector<std::vector<std::string>> rows = {{"percent", "first", "second", "difference"}};
    if (intervals) rows[0].push_back(fmt::format("{:.0f} % interval", 100 * comparison.first.confidence));
    for (const ScoreDifference& d : comparison.differences) {
        auto& row = rows.emplace_back(std::vector<std::string>{
            d.name, fmt::format("{:.2f}", comparison.first.get(d.name)),
            fmt::format("{:.2f}", comparison.second.get(d.name)), fmt::format("{:+.2f}", d.percent)});
        if (intervals)
            row.push_back(
                fmt::format("[{:+.2f}, {:+.2f}]{}", d.low, d.high, d.low > 0 || d.high < 0 ? " *" : "  "));
    }
    std::string out = aligned(rows) + "\n";
    if (intervals)
        out += "* the interval does not contain 0; intervals are of the difference on the same texts\n\n";
    if (comparison.first.at_threshold || comparison.second.at_threshold)
        out += threshold_table(comparison.first.at_threshold, comparison.second.at_threshold) + "\n";
    Facts facts = {{"first", comparison.first.checkpoint}, {"second", comparison.second.checkpoint}};
    for (const auto& [name, value] : protocol_of(comparison.first))
        if (name == "data" || name == "split" || name == "rows chosen" || name == "filter" ||
            name == "intervals")
            facts.push_back({name, value});
    return out + aligned(facts);
}

}  // namespace elmo::cli
