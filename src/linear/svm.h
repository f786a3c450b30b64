// One linear classifier: L2-regularised squared hinge loss by dual coordinate descent (Hsieh et al., ICML
// 2008, as in LIBLINEAR), with shrinking. The bias is the weight of a feature that every row has with
// value 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

// Rows over the columns that occur in them, numbered from 0; shared by the classifiers of a node.
struct SvmRows {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> columns;
    std::vector<float> values;
    std::vector<float> squares;  // squared length of each row
    std::int64_t num_columns = 0;

    std::int64_t size() const { return static_cast<std::int64_t>(squares.size()); }
};

struct SvmOptions {
    float cost = 1;          // C
    float tolerance = 0.3f;  // of the projected gradients' spread
    int most_passes = 20;
};

// What one thread needs while it solves; reused from problem to problem.
struct SvmScratch {
    std::vector<float> weights;  // the result
    float bias = 0;
    std::vector<float> alpha;
    std::vector<std::int32_t> order;
    std::vector<signed char> sign;
};

// Rows in `positives` (ascending) against all others. `seed` orders the visits.
void solve_svm(const SvmRows& rows, std::span<const std::int32_t> positives, const SvmOptions& options,
               std::uint64_t seed, SvmScratch& scratch);

}  // namespace elmo
