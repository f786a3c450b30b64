// `elmo tune`: looks for better numbers than the defaults, on validation rows only, by successive halving:
// many candidates train for a quarter of their epochs, the better ones for half, the best for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct TuneRequest {
    Config config;  // of the data; what is given in it stays, the rest may be varied
    // Candidates of the first round, the defaults among them; nothing: 16.
    std::optional<std::int64_t> trials = {};
    double seconds = 0;   // after which no more is trained; 0: no limit
    std::string command;  // as it was typed, for the page
};

struct TuneResult {
    std::string recipe, html;  // what was written
    std::string select;        // what is compared: the best validation of a trial
    double best_score = 0, default_score = 0;
    bool whole = false;        // the two are of trainings with all of their epochs, so a gain is known
    std::string verdict;       // for people: the two, and the gain or why none is known
    std::int64_t trials = 0;   // trainings, all rounds together
    bool interrupted = false;  // asked to stop, or out of time: with `resume` it goes on
    std::string best;          // "head_lr 0.1, dropout 0.3"; "the defaults" where nothing was better
    std::string tables;        // for people
};

template <typename Visit>
void visit_fields(const TuneResult& result, Visit&& visit) {
    visit("recipe", result.recipe);
    visit("html", result.html);
    visit("select", result.select);
    visit("best_score", result.best_score);
    visit("default_score", result.default_score);
    visit("whole", result.whole);
    if (result.whole) visit("gain", result.best_score - result.default_score);
    visit("trials", result.trials);
    visit("interrupted", result.interrupted);
    visit("best", result.best);
}

// Writes recipe.toml, study.html, study.csv and study.json to config.out. Test rows have no part in it. With
// `resume`, data, options and trials that are not given are those that the search was begun with.
// ConfigError where the folder holds a search already while neither overwrite nor resume is set.
ELMO_API TuneResult tune(const Context& context, const TuneRequest& request);

}  // namespace elmo
