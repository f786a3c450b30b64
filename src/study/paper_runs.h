// The runs of `elmo study paper`: one per data set, mode and seed of the paper's tables of scores.
#pragma once

#include <string>
#include <vector>

#include "elmo/context.h"
#include "elmo/study.h"
#include "page/study.h"

namespace elmo {

// What `only` and `sets` leave; empty: everything.
struct PaperSelection {
    std::vector<std::string> items, sets;
    bool has(const std::string& item) const;
    bool has_set(const std::string& shape) const;
};

// The words of a setting, separated by commas. ConfigError names a word that is not known.
std::vector<std::string> listed_words(const StudyRequest& request, const std::string& key,
                                      const std::vector<std::string>& known);

// Trains and scores what the setting "data-root" has data for, and shows it beside the paper's figures: one
// line per score of a mode on a data set, one per run, and one per data set that is missing.
std::vector<Table> paper_runs(const Context& context, const StudyRequest& request,
                              const PaperSelection& selection);

}  // namespace elmo
