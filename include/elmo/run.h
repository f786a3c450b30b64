// What a run folder holds besides its weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// Probabilities that hold: P(right) = sigmoid(a score + b), Platt's method.
struct Calibration {
    double a = 1, b = 0;
    std::int64_t rows = 0, top = 0;         // validation texts, and how many labels of each
    std::int64_t pairs = 0, right = 0;      // predictions, and those that are right
    std::int64_t positives = 0;             // true labels of the texts
    double f1_threshold = 0;                // probability from which on the micro-F1 is largest
    double log_loss_raw = 0, log_loss = 0;  // before and after, each half scored by a fit on the other
    double brier_raw = 0, brier = 0;        // mean squared error of probabilities
    double error_raw = 0, error = 0;        // expected calibration error
};

// What a run folder or a data set holds, as ordered pairs for printing or JSON (values are JSON literals).
ELMO_API std::vector<std::pair<std::string, std::string>> inspect(const Context& context,
                                                                  const std::string& path,
                                                                  const Config& config);

}  // namespace elmo
