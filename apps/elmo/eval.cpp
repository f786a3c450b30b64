// elmo eval: scores a run, or a stored prediction file, and prints the scores with their protocol.
#include <filesystem>

#include "elmo/elmo.h"
#include "eval_report.h"
#include "launch.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

// The second word is a run, not a data set.
bool compares(const Invocation& call) {
    if (call.words.size() < 2) return false;
    const std::filesystem::path folder = call.words[1];
    std::error_code error;
    for (const char* file : {"manifest.json", "best/manifest.json", "last/manifest.json"})
        if (std::filesystem::exists(folder / file, error)) return true;
    return call.words.size() > 2;
}

template <typename Result>
void show(const Invocation& call, const Result& result) {
    if (call.json)
        write_json(result);
    else
        write_stdout(report(result));
}

void run_eval(Invocation& call) {
    const bool stored = !call.config.predictions.empty();
    if (stored && call.words.size() > 1)
        usage_error(eval_verb(), "--predictions takes DATA alone; usage: elmo eval --predictions FILE DATA");
    if (!stored && call.words.empty()) usage_error(eval_verb(), "RUN is missing; usage: elmo eval RUN DATA");
    const std::string run = stored ? "" : call.words[0];
    if (stored && call.config.data.empty())
        usage_error(eval_verb(), "DATA is missing; usage: elmo eval --predictions FILE DATA");
    const bool two = !stored && compares(call);
    if (!stored && call.words.size() == (two ? 2 : 1)) require_data(eval_verb(), run, call.config);
    if (!is_first_rank()) {  // works for the first one
        for (const std::string& each : two ? std::vector{run, call.words[1]} : std::vector{run})
            evaluate(call.context, each, call.config);
        return;
    }
    if (two) return show(call, compare(call.context, run, call.words[1], call.config));
    show(call, evaluate(call.context, run, call.config));
}

std::size_t data_word_of_eval(const Invocation& call) {
    return !call.config.predictions.empty() ? 0 : compares(call) ? 2 : 1;
}

}  // namespace

Verb eval_verb() {
    return {"eval",
            'e',
            "Score a run, or stored predictions, on a data set; compare two runs",
            "RUN DATA [options] | elmo eval RUN1 RUN2 DATA [options] | elmo eval --predictions FILE DATA "
            "[options]",
            {{"RUN", "Folder that elmo train wrote"},
             {"DATA", "Folder or file of the data set (also --data; the run's own when left out)"}},
            0,
            3,
            true,
            {},
            {{"elmo eval runs/first data/wordnet",
              "P, nDCG, PSP, PSnDCG and R of the best checkpoint on the test set"},
             {"elmo eval runs/first data/wordnet --json --k 1,2,3,4,5", "The same as JSON, for other k"},
             {"elmo eval runs/first data/LF-AmazonTitles-131K --like renee",
              "Scores comparable with those that Renee reports"},
             {"elmo eval runs/first new.csv --threshold 0.3 --errors 10 --per-label labels.csv",
              "Every row of a file that the run was not trained on, with F1, the worst labels and answers"},
             {"elmo eval runs/first runs/second data/wordnet",
              "Two runs on the same texts, with the interval of each difference"},
             {"elmo eval --predictions top10.txt data/wordnet", "Scores of any system's stored predictions"}},
            "Prints the scores in percent with 95 % intervals, the parts of head, torso and tail labels, and "
            "their protocol: propensity model, filter file, tie rule, number of texts. The same is appended "
            "to scores.jsonl in the run, as a line of JSON. The data are read as the run's recipe says, "
            "unless a flag overrides it. Other data without a test file is scored whole. F1, precision and "
            "recall are those of the answers above the calibrated or given threshold.",
            run_eval,
            {},
            nullptr,
            nullptr,
            data_word_of_eval};
}

}  // namespace elmo::cli
