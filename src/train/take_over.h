// What a new run takes over from the run that it starts from (option init), besides the encoder: the head's
// rows of the labels that both have.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/config.h"
#include "model/head/head.h"
#include "run/checkpoint.h"

namespace elmo {

struct TakenOver {
    std::int64_t labels = 0;       // of the new run
    std::int64_t taken = 0;        // of these, with the row of the other run
    std::int64_t left_behind = 0;  // labels of the other run that the new data does not have
    // "starting from RUN: 12,345 of 13,000 labels taken over, 655 new"
    std::string describe(const std::string& run) const;
};

// Sets the rows of `head` whose labels the run config.init has too: by name, or by number where neither has
// names. Rows are rounded to nearest where formats differ. The other rows stay. DataError if no label
// matches, or if the widths differ.
TakenOver take_over_labels(const Config& config, const LabelTable& labels, Head& head);

}  // namespace elmo
