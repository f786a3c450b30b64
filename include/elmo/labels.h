// `elmo labels`: a run with other labels. Encoder and tokenizer stay, and so does every row of the head that
// stays, bit for bit.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct LabelChange {
    std::int64_t labels_before = 0, labels_after = 0;
    // Of added labels: where their rows started.
    std::int64_t from_text = 0, from_data = 0;
    double slope = 0;        // of rows on text vectors, measured on the run's own labels
    std::int64_t steps = 0;  // training of the new rows alone
    double first_loss = 0, last_loss = 0;
};

// Writes the run in `run` with more labels to config.out. The labels are the lines of `file`, a name or
// 'name<TAB>text' each; without a file, the labels of config.data that the run does not have. A new row
// starts from the vectors of the label's texts in config.data where it has any, else from the vector of its
// own text (its name where none is given). With config.steps the new rows alone are trained on config.data.
// Options used: out, overwrite, checkpoint, data and how it is read, batch_size, steps, head_lr,
// head_weight_decay, dropout, schedule, warmup_steps, seed, device, threads, max_memory; what is not given
// is the run's.
ELMO_API LabelChange add_labels(const Context& context, const std::string& run, const std::string& file,
                                const Config& config);

// Writes the run without the labels that `file` names, by name or number, to config.out. The others keep
// their order and are numbered anew.
ELMO_API LabelChange remove_labels(const Context& context, const std::string& run, const std::string& file,
                                   const Config& config);

}  // namespace elmo
