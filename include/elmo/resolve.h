// The complete configuration that a verb uses, and why each value is what it is (explain() of config.h):
// defaults, then the recipe of a run, recipes and what was given, each before what follows it; then encoder
// names, shapes and every `auto` that can be chosen before the data is open. The verbs resolve what they are
// given themselves: a program calls this to know or to show what they will use. Resolving twice changes
// nothing.
#pragma once

#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// For train() and import_data(); with config.resume, of the run in config.out. ConfigError, DataError.
ELMO_API Config resolve_training(const Context& context, const Config& config);
// For plan_memory() and bench(), which know shapes by name.
ELMO_API Config resolve_plan(const Context& context, const Config& config);
// For evaluate(), calibrate(), Predictor and predict_files(): what is not given about reading and scoring
// data comes from the recipe of the run. A run without a recipe that can be read changes nothing: opening it
// says why.
ELMO_API Config resolve_for_run(const std::string& run, const Config& config);

}  // namespace elmo
