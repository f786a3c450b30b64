// Matches labels of a data set by name to those of a run that has other labels or another order: a run with
// changed labels, or new data for an old run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace elmo {

struct LabelMatch {
    // The number in the run of each label of the data set. Labels that the run does not have get numbers
    // after the run's labels: they are true labels that no prediction can hit.
    std::vector<std::int64_t> number;
    std::int64_t unknown = 0;  // labels of the data set that the run does not have
    std::int64_t missing = 0;  // labels of the run that the data set does not have
};

// Of labels with equal names the n-th of the data set is the n-th of the run.
LabelMatch match_labels(const std::vector<std::string_view>& data_names,
                        const std::vector<std::string_view>& run_names);

// The same, and of the labels that are left over those whose names differ only in blanks around them: a run
// may be from before these were removed from the names of data.
LabelMatch match_labels_but_blanks(const std::vector<std::string_view>& data_names,
                                   const std::vector<std::string_view>& run_names);

// The label ids of a matrix in the run's numbers, ascending within a row; rows and lengths stay.
std::vector<std::uint32_t> renumber(const LabelMatrix& matrix, const LabelMatch& match);

}  // namespace elmo
