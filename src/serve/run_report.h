// What the page shows of a run: how it was trained and how it scored, from the files in its folder.
#pragma once

#include <string>

#include "serve/served_run.h"

namespace elmo {

// One line of JSON. Files that are missing or damaged leave their part out; a long log is thinned.
std::string run_report(const ServedRun& served, const LoadedRun& loaded);

// The same of one label: its training texts, labels that are like it, and where it errs, if `elmo report` has
// left scores of the labels of this checkpoint in the run.
std::string label_report(const ServedRun& served, const LoadedRun& loaded, const LabelInfo& label,
                         const std::vector<NearLabel>& nearest);

}  // namespace elmo
