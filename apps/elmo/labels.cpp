// elmo labels: adds labels to a run or removes them, without touching the others.
#include "elmo/labels.h"

#include <fmt/format.h>

#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void show(const Invocation& call, const LabelChange& change) {
    if (call.json) return write_json(change);
    Facts facts = {{"run", call.config.out},
                   {"labels", fmt::format("{}, were {}", with_commas(change.labels_after),
                                          with_commas(change.labels_before))}};
    if (change.added)
        facts.push_back(
            {"new rows", fmt::format("{} from texts that carry them, {} from their own text",
                                     with_commas(change.from_data), with_commas(change.from_text))});
    if (change.steps > 0)
        facts.push_back(
            {"trained",
             fmt::format(
                 "{}; loss of the new labels, mean of the first and of the last {}: {:.4g} and {:.4g}",
                 counted(change.steps, "step"), counted(change.loss_steps, "step"), change.first_loss,
                 change.last_loss)});
    write_stdout(aligned(facts));
}

// Number, training rows and name of each, between tabs: for grep and sort.
void show(const Invocation& call, const LabelList& list) {
    if (call.json) return write_json(list);
    for (const RunLabel& label : list.labels)
        write_stdout(fmt::format("{}\t{}\t{}\n", label.number, label.rows, for_terminal(label.name)));
}

void run_labels(Invocation& call) {
    const std::string& action = call.words[0];
    const std::string file = call.words.size() > 2 ? call.words[2] : "";
    if (action == "list") return show(call, list_labels(call.words[1], call.config));
    if (action != "add" && action != "remove")
        usage_error(labels_verb(), fmt::format("expected list, add or remove, found '{}'{}", quoted(action),
                                               did_you_mean(action, {"list", "add", "remove"})));
    if (call.config.out.empty())
        usage_error(labels_verb(), "--out is missing: the folder of the run with the other labels");
    if (action == "add") return show(call, add_labels(call.context, call.words[1], file, call.config));
    if (file.empty()) usage_error(labels_verb(), "FILE is missing: the labels to remove");
    show(call, remove_labels(call.context, call.words[1], file, call.config));
}

Config resolve_labels(const Invocation& call) {
    return call.words[0] == "add" ? resolve_new_labels(call.context, call.words[1], call.config)
                                  : call.config;
}

}  // namespace

Verb labels_verb() {
    return {"labels",
            'l',
            "List the labels of a run, add some or remove some",
            "list RUN | elmo labels add|remove RUN [FILE] --out NEW [options]",
            {{"list|add|remove", "What to do; list prints number, training rows and name of each label"},
             {"RUN", "Folder that elmo train wrote"},
             {"FILE",
              "One label per line. add: its name, or name, tab and text (without FILE: the new labels of "
              "--data). remove: its name or number"}},
            2,
            3,
            false,
            {},
            {{"elmo labels list runs/first", "Every label with its number and training rows"},
             {"elmo labels add runs/first new.txt --out runs/more", "Rows start from the labels' texts"},
             {"elmo labels add runs/first --data new.tsv --steps 500 --out runs/more",
              "Rows start from texts that carry the labels; only these rows are trained"},
             {"elmo labels remove runs/first gone.txt --out runs/less", "The others stay as they are"}},
            "Writes a new run. Encoder, tokenizer and the rows of all other labels keep every bit; added "
            "labels come last, and after a removal the rest is renumbered. A new row, trained or not, needs "
            "no pass over the old ones.",
            run_labels,
            {},
            nullptr,
            resolve_labels};
}

}  // namespace elmo::cli
