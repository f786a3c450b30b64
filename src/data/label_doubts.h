// Labels that look like a mistake in reading: lists taken apart at their commas, a separator that was not
// cut at, words for null, a column that is no label.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "sources/layout.h"

namespace elmo {

// One sentence for each likely mistake, with its cause and the flag that mends it; the gravest first. Empty
// where labels do not come out of fields: other formats leave nothing to mistake.
std::vector<std::string> label_doubts(const Dataset& data, const Layout& layout);

// How unlike a label a name is: 0 for usual ones.
int strangeness(std::string_view name);

}  // namespace elmo
