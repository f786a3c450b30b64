// This process as one of several that a launcher (mpirun, srun) has started. The verbs that ranks share open
// MPI; the first rank does every other verb alone.
#pragma once

#include <string>
#include <string_view>

#include "elmo/context.h"

namespace elmo::cli {

// `elmo inspect ranks`, where no folder of that name is here.
bool is_about_ranks(const std::string& word);
// Whether this process has anything to do for the verb: with some first word, or with this one.
bool may_take_part(const std::string& verb);
bool takes_part(const std::string& verb, const std::string& word);
// A context with these sinks; under a launcher with its ranks, and then silent on all but the first, with a
// part of the machine's threads and one of its GPUs.
Context launched_context(const std::string& verb, const std::string& word, Sinks sinks);
void limit_silence(double seconds);
bool is_first_rank();
void finish_launch();
// Ends all ranks; returns where there are none.
void fail_launch(int status, std::string_view message) noexcept;

}  // namespace elmo::cli
