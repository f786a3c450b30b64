// Which labels are ranked, and which of the ranked are left out of the answers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "elmo/predictor.h"

namespace elmo {

struct AnswerScope {
    bool gathered = false;
    std::vector<std::int64_t> rows;     // gathered: the labels that are ranked, ascending
    std::vector<std::int64_t> dropped;  // labels that are ranked and left out, ascending
    std::int64_t labels = 0;            // that are ranked

    std::int64_t answers() const { return labels - static_cast<std::int64_t>(dropped.size()); }
};

// Of the labels that a file or a list names. DataError if none is left.
AnswerScope resolve_scope(const LabelScope& given, const std::vector<std::string_view>& names,
                          std::int64_t labels);

// The part of a scope that a question allows; both its lists ascend. Up to `room` labels are left out by
// ranking that many more. DataError if no label is left.
AnswerScope narrow_scope(const AnswerScope& scope, const Question& question, std::int64_t room);

}  // namespace elmo
