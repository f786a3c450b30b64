#include "linear/svm.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elmo {
namespace {

// xorshift64*: visits are ordered by it, nothing else.
class Order {
  public:
    explicit Order(std::uint64_t seed) : state_(seed * 2685821657736338717u + 0x9e3779b97f4a7c15u) {
        if (state_ == 0) state_ = 1;
    }
    std::int64_t below(std::int64_t count) {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<std::int64_t>(
            (state_ * 2685821657736338717u >> 32) * static_cast<std::uint64_t>(count) >> 32);
    }

  private:
    std::uint64_t state_;
};

// Four sums, so that additions do not wait for one another; always in the same order.
float product(const std::int32_t* columns, const float* values, std::int64_t count, const float* weights) {
    float a = 0, b = 0, c = 0, d = 0;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        a += weights[columns[i]] * values[i];
        b += weights[columns[i + 1]] * values[i + 1];
        c += weights[columns[i + 2]] * values[i + 2];
        d += weights[columns[i + 3]] * values[i + 3];
    }
    for (; i < count; ++i) a += weights[columns[i]] * values[i];
    return (a + b) + (c + d);
}

}  // namespace

void solve_svm(const SvmRows& rows, std::span<const std::int32_t> positives, const SvmOptions& options,
               std::uint64_t seed, SvmScratch& scratch) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::int64_t n = rows.size();
    scratch.weights.assign(static_cast<std::size_t>(rows.num_columns), 0);
    scratch.alpha.assign(static_cast<std::size_t>(n), 0);
    scratch.sign.assign(static_cast<std::size_t>(n), -1);
    for (const std::int32_t row : positives) scratch.sign[static_cast<std::size_t>(row)] = 1;
    // Positives first: until one was visited there is nothing to push negatives away from.
    scratch.order.assign(positives.begin(), positives.end());
    for (std::int32_t row = 0; row < n; ++row)
        if (scratch.sign[static_cast<std::size_t>(row)] < 0) scratch.order.push_back(row);

    float* const w = scratch.weights.data();
    float* const alpha = scratch.alpha.data();
    std::int32_t* const order = scratch.order.data();
    const signed char* const sign = scratch.sign.data();
    const float diagonal = 0.5f / options.cost;
    float bias = 0, bound = kInfinity;
    std::int64_t active = n;
    Order random(seed);
    for (int pass = 0; pass < options.most_passes; ++pass) {
        float most = -kInfinity, least = kInfinity;
        if (pass > 0)
            for (std::int64_t i = 0; i < active; ++i)
                std::swap(order[i], order[i + random.below(active - i)]);
        for (std::int64_t i = 0; i < active; ++i) {
            const std::int32_t row = order[i];
            const std::int64_t begin = rows.offsets[static_cast<std::size_t>(row)],
                               count = rows.offsets[static_cast<std::size_t>(row) + 1] - begin;
            const std::int32_t* const columns = rows.columns.data() + begin;
            const float* const values = rows.values.data() + begin;
            const float y = sign[row];
            const float gradient =
                y * (product(columns, values, count, w) + bias) - 1 + alpha[row] * diagonal;
            float projected = gradient;
            if (alpha[row] == 0) {
                if (gradient > bound) {  // far on the right side: not visited again
                    std::swap(order[i], order[--active]);
                    --i;
                    continue;
                }
                projected = std::min(gradient, 0.0f);
            }
            most = std::max(most, projected);
            least = std::min(least, projected);
            if (std::abs(projected) < 1e-6f) continue;
            const float before = alpha[row];
            const float square = rows.squares[static_cast<std::size_t>(row)] + 1 + diagonal;
            alpha[row] = std::max(before - gradient / square, 0.0f);
            const float change = (alpha[row] - before) * y;
            if (change == 0) continue;
            for (std::int64_t j = 0; j < count; ++j) w[columns[j]] += change * values[j];
            bias += change;
        }
        if (most - least <= options.tolerance) break;
        bound = most <= 0 ? kInfinity : most;
    }
    scratch.bias = bias;
}

}  // namespace elmo
