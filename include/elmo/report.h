// `elmo report`: how well a run answers, as one page that opens from disk.
#pragma once

#include <string>

#include "elmo/api.h"
#include "elmo/context.h"
#include "elmo/evaluation.h"

namespace elmo {

struct Config;

struct Report {
    std::string page;       // the file that was written
    Evaluation evaluation;  // what it shows
};

template <typename Visit>
void visit_fields(const Report& report, Visit&& visit) {
    visit("page", report.page);
    visit_fields(report.evaluation, visit);
}

// Scores the run, or config.predictions, as evaluate() does, with config.errors mistakes (20 where none are
// asked for), and writes the page to config.out. A run without a calibration is judged at a probability of
// 0.5 where no threshold is given. `command`: as it was typed, for the page. ConfigError for a missing
// config.out, or one that exists if overwrite is not set.
ELMO_API Report report(const Context& context, const std::string& run, const Config& config,
                       const std::string& command, const RowsName& rows = {});

}  // namespace elmo
