// The verbs: each is described and run by the file of its name.
#pragma once

#include "command_line.h"

namespace elmo::cli {

Verb train_verb();
Verb eval_verb();
Verb calibrate_verb();
Verb predict_verb();
Verb explain_verb();
Verb index_verb();
Verb export_verb();
Verb report_verb();
Verb serve_verb();
Verb labels_verb();
Verb refine_verb();
Verb plan_verb();
Verb bench_verb();
Verb study_verb();
Verb tune_verb();
Verb data_verb();
Verb cache_verb();
Verb tokenize_verb();
Verb inspect_verb();

// What `path` holds, for `elmo inspect` and `elmo data inspect`.
void show_inspection(const Invocation& call, const std::string& path);

}  // namespace elmo::cli
