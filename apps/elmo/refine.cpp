// elmo refine: the head of a run in higher precision, within a memory budget.
#include "elmo/refine.h"

#include <fmt/format.h>

#include "elmo/messages.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void start_from_run(Invocation& call) {
    call.config = refinement_defaults(call.words[0]);
}

std::string table(const RefineResult& result, const Config& config) {
    if (result.subset_labels == 0)  // it was complete already
        return aligned(Facts{{"run", config.out},
                             {"head", fmt::format("{}, was {}", result.precision, result.from_precision)},
                             {"labels", with_commas(result.labels)}});
    const bool encoding = result.encoding_plan.total_bytes() > result.head_plan.total_bytes();
    const MemoryReport& planned = encoding ? result.encoding_plan : result.head_plan;
    Facts facts = {
        {"run", config.out},
        {"head", fmt::format("{}, was {}", result.precision, result.from_precision)},
        {"labels", fmt::format("{} of {}{}", with_commas(result.labels_done), with_commas(result.labels),
                               result.labels_resumed > 0
                                   ? fmt::format(", {} from before", with_commas(result.labels_resumed))
                                   : "")},
        {"subsets", fmt::format("{} of up to {} labels, {} steps each", with_commas(result.subsets),
                                with_commas(result.subset_labels), with_commas(result.steps))},
    };
    if (result.subsets > 0)
        facts.push_back({config.dropout > 0 ? "loss of a text, with dropout" : "loss of a text",
                         fmt::format("{:.4f} to {:.4f}", result.first_loss, result.last_loss)});
    facts.push_back({"time", duration_text(result.seconds)});
    facts.push_back({"peak memory, planned", human_bytes(planned.total_bytes())});
    facts.push_back({"peak memory, measured", measured_memory(result.measured_peak_bytes, planned)});
    if (result.interrupted) facts.push_back({"stopped early", "continue with --resume"});
    return aligned(facts);
}

void run_refine(Invocation& call) {
    if (call.words.size() == 1) require_data(refine_verb(), call.words[0], call.config);
    if (call.config.out.empty())
        usage_error(refine_verb(), "--out is missing: the folder to write the refined run to");
    const RefineResult result = refine(call.context.with_stop(stop_on_signal()), call.words[0], call.config);
    if (call.json)
        write_json(result);
    else
        write_stdout(table(result, call.config));
    if (result.interrupted && result.labels_done == 0)
        throw Interrupted("refine: stopped before a label was refined; --resume continues");
}

}  // namespace

Verb refine_verb() {
    Verb verb{
        "refine",
        'r',
        "Refine the classifier of a run in higher precision",
        "RUN [DATA] --out RUN2 [options]",
        {{"RUN", "Folder that elmo train wrote"},
         {"DATA", "Data set to refine on; left out: the run's own (also --data)"}},
        1,
        2,
        false,
        {},
        {{"elmo refine runs/fp8 --out runs/refined", "From 8 bits to bf16 on the run's own data"},
         {"elmo refine runs/fp8 data/wordnet --precision fp32 --max-memory 4GiB --out runs/refined",
          "As many labels at a time as fit in the budget"},
         {"elmo refine runs/fp8 --out runs/refined --resume", "Continue after a crash or Ctrl-C"}},
        "The encoder does not change. The vectors of all training texts are computed once into RUN2/refine. "
        "Then the head is trained on them, one subset of labels at a time. Finished subsets survive a crash, "
        "and the result does not depend on their number. Options start from the run's recipe.",
        run_refine};
    verb.defaults = start_from_run;
    verb.data_word = second_word;
    return verb;
}

}  // namespace elmo::cli
