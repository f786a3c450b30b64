// The complete configuration that a verb uses, and the reason for each value (explain() of config.h). Later
// sources override earlier ones: defaults, the recipe of a run, recipes, what was given. Then encoder names,
// shapes and every `auto` are resolved; the data set is opened (and imported, if it has not been yet) for
// those that depend on it. The verbs resolve their configuration themselves; a program calls this to know or
// to show what they will use. Resolving twice changes nothing.
#pragma once

#include <string>
#include <string_view>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// For train() and import_data(); with config.resume, of the run in config.out. ConfigError, DataError.
ELMO_API Config resolve_training(const Context& context, const Config& config);
// For plan_memory() and bench(), which know shapes by name.
ELMO_API Config resolve_plan(const Context& context, const Config& config);
// For evaluate(), calibrate(), Predictor and predict_files(): options about reading and scoring data that are
// not given come from the recipe of the run. A run without a readable recipe changes nothing here; opening it
// reports why.
ELMO_API Config resolve_for_run(const std::string& run, const Config& config);
// The path that such a configuration has for `key`, "data", "validation" or "test", for a caller that reads
// it himself. A run may come from anybody: "" where only its recipe names the path and nobody read it here
// before.
ELMO_API std::string known_path(const Config& resolved, std::string_view key);

// With the device that `auto` stands for on this machine. A device that was named asks for nothing: CUDA's
// libraries are not even opened.
ELMO_API Config with_device(const Context& context, Config config);

}  // namespace elmo
