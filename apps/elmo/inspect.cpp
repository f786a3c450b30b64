// elmo inspect: what a run folder or a data set holds.
#include "elmo/elmo.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void run_inspect(Invocation& call) {
    show_inspection(call, call.words[0]);
}

}  // namespace

void show_inspection(const Invocation& call, const std::string& path) {
    const auto facts = inspect(call.context, path, call.config);
    if (call.json) return write_stdout(to_json(facts) + "\n");
    Facts lines;
    for (const Fact& fact : facts) lines.push_back({fact.title, fact.text});
    write_stdout(aligned(lines));
}

Verb inspect_verb() {
    return {"inspect",
            'i',
            "Show what a run or a data set holds",
            "RUN|DATA [options]",
            {{"RUN|DATA", "Folder that elmo train wrote, or a data set"}},
            1,
            1,
            false,
            {},
            {{"elmo inspect runs/first", "Encoder, labels, precision, steps, scores of a run"},
             {"elmo inspect data/wordnet --json", "Counts of an imported data set"}},
            "",
            run_inspect};
}

}  // namespace elmo::cli
