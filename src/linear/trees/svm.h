// Linear classifiers: L2-regularised squared hinge loss by dual coordinate descent (Hsieh et al., ICML 2008,
// as in LIBLINEAR), with shrinking. The bias is the weight of a feature that every row has with value 1.
// Sixteen classifiers of the same rows are solved at once, each in its lane: an entry of a row is read once
// for all, and their weights of a column lie side by side. Lanes do not touch each other, and each adds in
// the order of its row: the bits are the same with every instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace elmo {

inline constexpr std::size_t kSvmLanes = 16;

// Rows over the columns that occur in them, numbered from 0; shared by the classifiers of a node. What only
// one row has is not among them: it changes that row's score in proportion to its alpha.
struct SvmRows {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> columns;
    std::vector<float> values;
    std::vector<float> squares;  // squared length of each row, with what only it has
    std::vector<float> own;      // squared length of what no other row has; not among the columns
    std::int64_t num_columns = 0;

    std::int64_t size() const { return static_cast<std::int64_t>(squares.size()); }
};

struct SvmOptions {
    float cost = 1;          // C
    float tolerance = 0.3f;  // of the projected gradients' spread
    int most_passes = 20;
};

struct alignas(4 * kSvmLanes) SvmLanes {
    std::array<float, kSvmLanes> of;
};

// What one thread needs while it solves; reused from problem to problem.
struct SvmScratch {
    std::vector<SvmLanes> weights;        // the result, of each column
    SvmLanes bias;                        // and
    std::vector<SvmLanes> alpha;          // of each row
    std::vector<std::uint16_t> positive;  // of each row: a bit per lane
    std::vector<std::int32_t> order;

    float sign(std::size_t row, std::size_t lane) const { return positive[row] >> lane & 1 ? 1.0f : -1.0f; }
};

struct SvmLane {
    std::span<const std::int32_t> positives;  // ascending, some rows but not all
    float weight = 1;                         // how many times a positive counts
};

// Each lane tells its positives from all other rows. There are kSvmLanes lanes at most; those beyond have no
// meaning. `seed` orders the visits.
void solve_svms(const SvmRows& rows, std::span<const SvmLane> lanes, const SvmOptions& options,
                std::uint64_t seed, SvmScratch& scratch);

}  // namespace elmo
