// Looks into training steps: the numbers that the head's step works with, for a sample of labels, counted by
// their exponents. On host copies, from the definition of the step: g = bf16(v (sigmoid(x w) - y)), v the
// weight of a positive, and the gradient of a weight is the sum of g x over the batch.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "numerics/weight_grid.h"
#include "study/exponents.h"
#include "train/trainer.h"

namespace elmo {

class HeadProbe : public StepProbe {
  public:
    static constexpr std::int64_t kSampledLabels = 1024;

    // The four kinds of numbers, in this order.
    static constexpr const char* kNames[] = {"weights", "classifier inputs", "logit gradients",
                                             "weight gradients"};
    using Histograms = std::array<ExponentHistogram, 4>;

    // `grid`: of the weights, where they are on one.
    explicit HeadProbe(std::set<std::int64_t> steps, const WeightGrid& grid = {})
        : steps_(std::move(steps)), grid_(grid) {}

    bool wants(std::int64_t step) const override { return steps_.contains(step); }
    void look(std::int64_t step, Backend& backend, View x_BD, View w_LD, const Positives& positives) override;

    // By step.
    const std::map<std::int64_t, Histograms>& seen() const { return seen_; }
    std::int64_t sampled_labels() const { return sampled_; }

  private:
    std::set<std::int64_t> steps_;
    WeightGrid grid_;
    std::map<std::int64_t, Histograms> seen_;
    std::int64_t sampled_ = 0;
};

}  // namespace elmo
