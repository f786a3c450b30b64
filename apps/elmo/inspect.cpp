// elmo inspect: what a run folder or a data set holds, or who the ranks of a launch are.
#include "elmo/elmo.h"
#include "launch.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void show(const Invocation& call, const std::vector<Fact>& facts) {
    if (call.json) return write_stdout(to_json(facts) + "\n");
    Facts lines;
    for (const Fact& fact : facts) lines.push_back({fact.title, fact.text});
    write_stdout(aligned(lines));
}

void run_inspect(Invocation& call) {
    if (!is_about_ranks(call.words[0])) return show_inspection(call, call.words[0]);
    const std::vector<Fact> facts = inspect_ranks(call.context, call.config);
    if (is_first_rank()) show(call, facts);
}

}  // namespace

void show_inspection(const Invocation& call, const std::string& path) {
    show(call, inspect(call.context, path, call.config));
}

Verb inspect_verb() {
    return {"inspect",
            'i',
            "Show what a run or a data set holds, or who the ranks of a launch are",
            "RUN|DATA|ranks [options]",
            {{"RUN|DATA|ranks", "Folder that elmo train wrote, a data set, or the word 'ranks'"}},
            1,
            1,
            false,
            {},
            {{"elmo inspect runs/first", "Encoder, labels, precision, steps, scores of a run"},
             {"elmo inspect data/wordnet --json", "Counts of an imported data set"},
             {"mpirun -n 8 elmo inspect ranks", "Machines, devices, and how fast they exchange"}},
            "",
            run_inspect};
}

}  // namespace elmo::cli
