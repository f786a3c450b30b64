// elmo eval: scores a run, or a stored prediction file, and prints the scores with their protocol.
#include <fmt/format.h>

#include <algorithm>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

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
            {group.name, fmt::format("{} labels with {} to {} training rows; {} positives scored",
                                     with_commas(group.labels), with_commas(group.least),
                                     with_commas(group.most), with_commas(group.positives))});
    return aligned(rows) + "\n" + aligned(meaning);
}

Facts protocol_of(const Evaluation& e) {
    Facts protocol = {{"data", e.data},
                      {"split", fmt::format("{}: {} texts, {} labels", e.split, with_commas(e.num_samples),
                                            with_commas(e.num_labels))}};
    if (!e.checkpoint.empty()) protocol.push_back({"checkpoint", e.checkpoint});
    if (!e.labels_matched.empty()) protocol.push_back({"labels matched", e.labels_matched});
    protocol.push_back({"conventions", e.like.empty() ? "elmo's own (docs/evaluation.md)" : "as " + e.like});
    protocol.push_back(
        {"propensities",
         e.propensity_source.empty()
             ? "none: the data set has no training labels"
             : fmt::format("A {}, B {} ({}), counts of the {} ({} rows)", e.propensity_a, e.propensity_b,
                           e.propensity_source, e.propensity_counts, with_commas(e.propensity_rows))});
    protocol.push_back({"filter", e.filter});
    protocol.push_back({"ties", e.ties});
    if (e.bootstrap > 0)
        protocol.push_back({"intervals", fmt::format("{:.0f} %, bootstrap over texts, {} replicates",
                                                     100 * e.confidence, e.bootstrap)});
    if (e.texts_per_second > 0)
        protocol.push_back({"speed", fmt::format("{:.0f} texts/s", e.texts_per_second)});
    return protocol;
}

std::string report(const Evaluation& evaluation) {
    std::string out = aligned(grid("percent", evaluation.scores)) + "\n";
    if (!evaluation.groups.empty()) out += group_table(evaluation.groups) + "\n";
    return out + aligned(protocol_of(evaluation));
}

void run_eval(Invocation& call) {
    const bool stored = !call.config.predictions.empty();
    if (stored && call.words.size() > 1)
        usage_error(eval_verb(), "--predictions takes DATA alone; usage: elmo eval --predictions FILE DATA");
    if (!stored && call.words.empty()) usage_error(eval_verb(), "RUN is missing; usage: elmo eval RUN DATA");
    const std::string run = stored ? "" : call.words[0];
    if (stored && call.config.data.empty())
        usage_error(eval_verb(), "DATA is missing; usage: elmo eval --predictions FILE DATA");
    if (!stored && call.words.size() == 1) require_data(eval_verb(), run, call.config);
    const Evaluation evaluation = evaluate(call.context, run, call.config);
    if (call.json)
        write_json(evaluation);
    else
        write_stdout(report(evaluation));
}

std::size_t data_word(const Invocation& call) {
    return call.config.predictions.empty() ? 1 : 0;
}

}  // namespace

Verb eval_verb() {
    return {"eval",
            'e',
            "Score a run, or stored predictions, on a data set",
            "RUN DATA [options] | elmo eval --predictions FILE DATA [options]",
            {{"RUN", "Folder that elmo train wrote"},
             {"DATA", "Folder or file of the data set (also --data; the run's own when left out)"}},
            0,
            2,
            true,
            {},
            {{"elmo eval runs/first data/wordnet",
              "P, nDCG, PSP, PSnDCG and R of the best checkpoint on the test set"},
             {"elmo eval runs/first data/wordnet --json --k 1,2,3,4,5", "The same as JSON, for other k"},
             {"elmo eval runs/first data/LF-AmazonTitles-131K --like renee",
              "Scores comparable with those that Renee reports"},
             {"elmo eval --predictions top10.txt data/wordnet", "Scores of any system's stored predictions"}},
            "Prints the scores in percent with 95 % intervals, the parts of head, torso and tail labels, and "
            "their protocol: propensity model, filter file, tie rule, number of texts. The same is appended "
            "to scores.jsonl in the run, as a line of JSON. The data are read as the run's recipe says, "
            "unless a flag overrides it.",
            run_eval,
            {},
            nullptr,
            nullptr,
            data_word};
}

}  // namespace elmo::cli
