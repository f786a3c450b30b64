// What `elmo eval` prints for people.
#pragma once

#include <string>

#include "elmo/evaluation.h"

namespace elmo::cli {

// Scores, groups, answers at a threshold, mistakes, protocol.
std::string report(const Evaluation& evaluation);
// Both runs beside each other with the differences.
std::string report(const Comparison& comparison);

}  // namespace elmo::cli
