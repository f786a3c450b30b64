// The studies: one function each, in its own file. A new one is declared here and listed in studies.cpp. It
// may keep files (runs of its cells) in request.config.out, and returns what to show.
#pragma once

#include "elmo/context.h"
#include "elmo/study.h"
#include "page/study.h"

namespace elmo {

Study memory_study(const Context& context, const StudyRequest& request);
Study chunks_study(const Context& context, const StudyRequest& request);
Study histogram_study(const Context& context, const StudyRequest& request);
Study bits_study(const Context& context, const StudyRequest& request);
Study paper_study(const Context& context, const StudyRequest& request);

// The setting of this name, or "".
std::string setting(const StudyRequest& request, const std::string& name);
// The setting of this name, "2,3,4" as whole numbers of at least `least`, each once; `defaults` where it is
// not given. ConfigError names the word that is not such a number.
std::vector<std::int64_t> numbers_or(const StudyRequest& request, const std::string& name, std::int64_t least,
                                     std::vector<std::int64_t> defaults);
// The setting "values" in this way, at least 1, ascending and without repetition.
std::vector<std::int64_t> values_or(const StudyRequest& request, std::vector<std::int64_t> defaults);
// Resets the process's peak of resident memory, so that runs in one process are measured one by one. Does
// nothing if the system refuses.
void reset_peak_resident();

}  // namespace elmo
