// elmo eval: scores a run, or a stored prediction file, and the protocol that gave the scores.
#include <fmt/format.h>

#include <algorithm>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

Json to_json(const Evaluation& evaluation) {
    Json json;
    for (const Score& score : evaluation.scores) json[score.name] = score.percent;
    json["protocol"] = {{"split", evaluation.split},
                        {"samples", evaluation.num_samples},
                        {"labels", evaluation.num_labels},
                        {"checkpoint", evaluation.checkpoint},
                        {"propensity_a", evaluation.propensity_a},
                        {"propensity_b", evaluation.propensity_b},
                        {"propensity_counts", evaluation.propensity_counts},
                        {"filter", evaluation.filter},
                        {"ties", evaluation.ties}};
    json["texts_per_second"] = evaluation.texts_per_second;
    return json;
}

// A row a metric, a column a k; both in the order of the scores.
std::string table(const Evaluation& evaluation) {
    std::vector<std::vector<std::string>> rows = {{"percent"}};
    for (const Score& score : evaluation.scores) {
        const std::size_t at = std::min(score.name.find('@'), score.name.size());
        const std::string metric = score.name.substr(0, at), k = score.name.substr(at);
        auto column = std::find(rows[0].begin(), rows[0].end(), k);
        if (column == rows[0].end()) column = rows[0].insert(rows[0].end(), k);
        const auto c = static_cast<std::size_t>(column - rows[0].begin());
        auto row = std::find_if(rows.begin() + 1, rows.end(), [&](const auto& r) { return r[0] == metric; });
        if (row == rows.end()) row = rows.insert(rows.end(), {metric});
        row->resize(std::max(row->size(), c + 1));
        (*row)[c] = fmt::format("{:.2f}", score.percent);
    }
    Facts protocol = {
        {"split", fmt::format("{}: {} texts, {} labels", evaluation.split,
                              with_commas(evaluation.num_samples), with_commas(evaluation.num_labels))}};
    if (!evaluation.checkpoint.empty()) protocol.push_back({"checkpoint", evaluation.checkpoint});
    protocol.push_back({"propensities", fmt::format("A {}, B {}, counts of the {}", evaluation.propensity_a,
                                                    evaluation.propensity_b, evaluation.propensity_counts)});
    protocol.push_back({"filter", evaluation.filter});
    protocol.push_back({"ties", evaluation.ties});
    if (evaluation.texts_per_second > 0)
        protocol.push_back({"speed", fmt::format("{:.0f} texts/s", evaluation.texts_per_second)});
    return aligned(rows) + "\n" + aligned(protocol);
}

void run_eval(Invocation& call) {
    const bool stored = !call.config.predictions.empty();
    if (stored && call.words.size() > 1)
        usage_error(eval_verb(), "--predictions takes DATA alone; usage: elmo eval --predictions FILE DATA");
    if (!stored && call.words.empty()) usage_error(eval_verb(), "RUN is missing; usage: elmo eval RUN DATA");
    const std::string run = stored ? "" : call.words[0];
    if (stored == (call.words.size() == 1)) call.config.data = call.words.back();
    if (call.config.data.empty()) usage_error(eval_verb(), "DATA is missing; usage: elmo eval RUN DATA");
    const Evaluation evaluation = evaluate(run, call.config);
    if (call.json)
        write_json(to_json(evaluation));
    else
        write_stdout(table(evaluation));
}

}  // namespace

Verb eval_verb() {
    return {
        "eval",
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
         {"elmo eval runs/first data/wordnet --json --k 1,2,3,4,5", "The same by machine, for other k"},
         {"elmo eval --predictions top10.txt data/wordnet", "Scores of any system's stored predictions"}},
        "Prints the scores in percent and the protocol that gave them: propensity model, filter file, tie "
        "rule, "
        "number of texts. How the data are read comes from the run's recipe unless a flag says otherwise.",
        run_eval};
}

}  // namespace elmo::cli
