// Calibrated probabilities by Platt's method: P(right | score z) = sigmoid(a z + b), with a and b fitted to
// scored predictions that are known to be right or wrong. Two numbers need little data and keep the order of
// scores. Isotonic regression does not: it makes plateaus, and fits the noise of the few positives in a
// validation share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace elmo {

struct JudgedScore {
    float score = 0;
    bool right = false;
};

struct Platt {
    double a = 1, b = 0;  // the identity: sigmoid(z)
    double probability(double score) const;
};

// Maximum likelihood with Platt's smoothed targets (N+ + 1)/(N+ + 2) and 1/(N- + 2), by Newton steps; the
// same on every run. DataError without right and wrong ones, or when right ones do not score higher: `advice`
// says what to do about that.
Platt fit_platt(std::span<const JudgedScore> judged, std::string_view advice = "train longer");

// How well probabilities fit: lower is better.
struct CalibrationQuality {
    double log_loss = 0;  // mean, natural logarithm
    double brier = 0;     // mean squared error
    double error = 0;     // expected calibration error: 15 bins of equal size by score
};
CalibrationQuality calibration_quality(const Platt& platt, std::span<const JudgedScore> judged);

// The score threshold with the largest micro-averaged F1; `positives` counts all true labels, also those that
// are in no prediction. Lies between two scores. 0 without predictions.
double best_f1_score(std::span<const JudgedScore> judged, std::int64_t positives);

}  // namespace elmo
