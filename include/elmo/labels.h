// `elmo labels`: a run with other labels. Encoder, tokenizer and all other rows of the head stay the same,
// bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct LabelChange {
    std::string out;     // the folder of the run with other labels
    bool added = false;  // labels were added, not removed
    std::int64_t labels_before = 0, labels_after = 0;
    // Of added labels: where their rows started.
    std::int64_t from_text = 0, from_data = 0;
    double slope = 0;        // of rows on text vectors, measured on the run's own labels
    std::int64_t steps = 0;  // training of the new rows only
    // Of a text, over the new labels: means over so many first and last steps, a pass over the rows or half
    // of all.
    std::int64_t loss_steps = 0;
    double first_loss = 0, last_loss = 0;
};

template <typename Visit>
void visit_fields(const LabelChange& change, Visit&& visit) {
    visit("out", change.out);
    visit("labels_before", change.labels_before);
    visit("labels", change.labels_after);
    if (!change.added) return;
    visit("from_text", change.from_text);
    visit("from_data", change.from_data);
    visit("slope", change.slope);
    visit("steps", change.steps);
    visit("loss_steps", change.loss_steps);
    visit("first_loss", change.first_loss);
    visit("last_loss", change.last_loss);
}

struct RunLabel {
    std::int64_t number = 0;
    std::string name;       // "" where labels have none
    std::int64_t rows = 0;  // that had it in training
};

template <typename Visit>
void visit_fields(const RunLabel& label, Visit&& visit) {
    visit("label", label.number);
    visit("name", label.name);
    visit("rows", label.rows);
}

struct LabelList {
    std::vector<RunLabel> labels;
};

template <typename Visit>
void visit_fields(const LabelList& list, Visit&& visit) {
    visit("labels", list.labels);
}

// The labels of a run by number. Options used: checkpoint.
ELMO_API LabelList list_labels(const std::string& run, const Config& config);

// Writes the run in `run` with more labels to config.out. The labels are the lines of `file`, a name or
// 'name<TAB>text' each; without a file, the labels of config.data that the run does not have. A new row
// starts from the vectors of the label's texts in config.data if it has any, else from the vector of its own
// text (by default its name). With config.steps only the new rows are trained on config.data.
// Options used: out, overwrite, checkpoint, data and how it is read, batch_size, steps, head_lr,
// head_weight_decay, dropout, schedule, warmup_steps, seed, device, threads, max_memory; all others
// come from the run.
ELMO_API LabelChange add_labels(const Context& context, const std::string& run, const std::string& file,
                                const Config& config);

// The configuration that add_labels() uses, and why each value is what it is (see elmo/resolve.h).
ELMO_API Config resolve_new_labels(const Context& context, const std::string& run, const Config& config);

// Writes the run without the labels that `file` names, by name or number, to config.out. The others keep
// their order and are renumbered.
ELMO_API LabelChange remove_labels(const Context& context, const std::string& run, const std::string& file,
                                   const Config& config);

}  // namespace elmo
