// elmo report: how well a run answers, as a page.
#include "elmo/report.h"

#include <fmt/format.h>

#include "elmo/elmo.h"
#include "launch.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::size_t data_word_of_report(const Invocation& call) {
    return call.config.predictions.empty() ? 1 : 0;
}

void run_report(Invocation& call) {
    const bool stored = !call.config.predictions.empty();
    if (call.words.size() > data_word_of_report(call) + 1)
        usage_error(report_verb(),
                    "--predictions takes DATA alone; usage: elmo report --predictions FILE DATA --out PAGE");
    if (!stored && call.words.empty())
        usage_error(report_verb(), "RUN is missing; usage: elmo report RUN DATA --out PAGE");
    if (call.config.out.empty()) usage_error(report_verb(), "--out is missing: the page to write");
    const std::string run = stored ? "" : call.words[0];
    if (stored && call.config.data.empty())
        usage_error(report_verb(), "DATA is missing; usage: elmo report --predictions FILE DATA --out PAGE");
    if (!stored && call.words.size() == 1) require_data(report_verb(), run, call.config);
    const Report done = report(call.context, run, call.config, call.command);
    if (!is_first_rank()) return;
    if (call.json)
        write_json(done);
    else
        write_stdout(done.page + "\n");
}

}  // namespace

Verb report_verb() {
    Verb verb = {
        "report",
        'y',
        "Write a page about how well a run answers: labels, confusions, calibration, errors",
        "RUN DATA --out PAGE.html [options] | elmo report --predictions FILE DATA --out PAGE.html [options]",
        {{"RUN", "Folder that elmo train wrote"},
         {"DATA", "Folder or file of the data set (also --data; the run's own when left out)"}},
        0,
        2,
        true,
        {},
        {{"elmo report runs/first data/wordnet --out report.html", "The test set, as a page"},
         {"elmo report runs/first new.csv --threshold 0.3 --errors 50 --out report.html",
          "Every row of another file, labels above a probability of 0.3 answered, 50 errors of each kind"}},
        "Scores as elmo eval does, and writes one page that loads nothing from elsewhere: scores, precision, "
        "recall and F1 (micro, macro, by label), calibration curve, worst labels, commonest confusions, "
        "examples of errors (--errors, 20 of each), protocol. Prints the page's name; --json: all that it "
        "shows. A run that is not calibrated is judged at a probability of 0.5, unless --threshold is given.",
        run_report,
        "e",
        nullptr,
        nullptr,
        data_word_of_report};
    verb.own_defaults = {{"errors", "20"}};
    return verb;
}

}  // namespace elmo::cli
