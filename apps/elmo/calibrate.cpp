// elmo calibrate: fits the probabilities of a run on its validation rows.
#include <fmt/format.h>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "launch.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string before_after(double before, double after) {
    return fmt::format("{:.4f} before, {:.4f} after", before, after);
}

std::string one_own(double common, double own) {
    return fmt::format("{:.2f} with one threshold, {:.2f} with those of labels", common, own);
}

void run_calibrate(Invocation& call) {
    // A file of rows needs no others; a share of them does.
    const std::string& validation = call.config.validation;
    const bool has_file = given(call.config, "validation") &&
                          validation.find_first_not_of("0123456789.eE+-") != std::string::npos;
    if (call.words.size() == 1 && !has_file) require_data(calibrate_verb(), call.words[0], call.config);
    const Calibration c = calibrate(call.context, call.words[0], call.config);
    if (!is_first_rank()) return;
    if (call.json) return write_json(c);
    Facts facts = {{"probability", fmt::format("sigmoid({:.5g} score {:+.5g})  (Platt)", c.a, c.b)},
                   {"fitted on",
                    fmt::format("{}, {} best labels each, {} right of {}", counted(c.rows, "validation text"),
                                c.top, with_commas(c.right), with_commas(c.pairs))},
                   {"calibration error", before_after(c.error_raw, c.error)},
                   {"log loss", before_after(c.log_loss_raw, c.log_loss)},
                   {"Brier score", before_after(c.brier_raw, c.brier)},
                   {"threshold of best F1", fmt::format("{:.4f}", c.f1_threshold)}};
    if (const auto& own = c.label_thresholds) {
        facts.push_back({"thresholds of labels",
                         counted(std::ssize(own->labels), "label") + " with enough validation rows"});
        facts.push_back({"micro F1", one_own(own->micro_f1_common, own->micro_f1)});
        facts.push_back({"macro F1", one_own(own->macro_f1_common, own->macro_f1)});
    }
    write_stdout(aligned(facts));
}

}  // namespace

Verb calibrate_verb() {
    return {"calibrate",
            'c',
            "Fit the probabilities of a run on its validation rows",
            "RUN [DATA] [options]",
            {{"RUN", "Folder that elmo train wrote"},
             {"DATA", "Folder or file of the data set (also --data; the run's own when left out)"}},
            1,
            2,
            true,
            {},
            {{"elmo calibrate runs/first", "Stored beside the checkpoint; elmo predict then uses it"},
             {"elmo predict runs/first texts.txt --threshold -1",
              "Answers above the threshold with the largest F1, instead of a fixed number"},
             {"elmo calibrate runs/first --validation held_out.csv",
              "On all rows of a file that had no part in the training"},
             {"elmo calibrate runs/first --label-thresholds", "Also a threshold for each label"},
             {"elmo predict runs/first texts.txt --label-thresholds", "Answers with those"}},
            "Takes the 20 best labels of every validation text and fits sigmoid(a score + b) to the correct "
            "ones (Platt's method). The order of answers does not change. The figures before and after come "
            "from fits on one half of the texts, judged on the other. Thresholds are sought among the 100 "
            "best labels, as many as are answered.",
            run_calibrate,
            {},
            nullptr,
            nullptr,
            second_word};
}

}  // namespace elmo::cli
