// Test files whose rows are to be answered, not scored.
#pragma once

#include "config/views.h"
#include "sources/layout.h"

namespace elmo {

// A test file beside the training file that has no labels, in its columns or in any of its rows, is left out,
// as if it were not there; layout.warnings says so. Not one that may have them in another column. For files
// of one format that name labels, once columns and label cells are settled.
void leave_out_unlabelled_test(const ReadOptions& reading, Layout& layout);

}  // namespace elmo
