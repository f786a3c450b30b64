// The actions of `elmo data` that look at, convert and make data sets.
#pragma once

#include "command_line.h"

namespace elmo::cli {

void run_data_report(const Invocation& call);
void run_conversion(const Invocation& call);
void run_filters(const Invocation& call);
void run_paper2keywords(const Invocation& call, const std::string& dump);

}  // namespace elmo::cli
