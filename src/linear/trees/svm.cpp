#include "linear/trees/svm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/clones.h"

namespace elmo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoChange = 1e-6f;

using Lanes __attribute__((vector_size(4 * kSvmLanes), may_alias)) = float;
using Marks __attribute__((vector_size(4 * kSvmLanes))) = std::int32_t;  // -1 or 0 in each lane
static_assert(sizeof(Lanes) == sizeof(SvmLanes) && alignof(Lanes) <= alignof(SvmLanes));

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

// All lanes on their way; vectors are never passed by value, so their width does not matter to a caller.
struct Solving {
    const SvmRows& rows;
    const std::uint16_t* positive;
    Lanes* weights;
    Lanes* alpha;
    std::int32_t* order;
    std::int64_t active;
    Lanes of_positives, of_negatives;  // 1 / (2 C): what a row's loss adds to the diagonal
    Lanes bias, bound, most, least;
    Marks live;  // lanes that have not converged
};

// Visits the active rows once. A row that is far on the right side in every lane is not visited again.
ELMO_CLONES void visit_rows(Solving& s) {
    const Lanes zero = {}, one = zero + 1.0f;
    const Marks bits = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    Lanes bias = s.bias, most = zero - kInfinity, least = zero + kInfinity;
    for (std::int64_t i = 0; i < s.active; ++i) {
        const auto row = static_cast<std::size_t>(s.order[i]);
        const std::int64_t begin = s.rows.offsets[row], count = s.rows.offsets[row + 1] - begin;
        const std::int32_t* const columns = s.rows.columns.data() + begin;
        const float* const values = s.rows.values.data() + begin;
        Lanes score = bias, second = zero;
        std::int64_t j = 0;
        for (; j + 2 <= count; j += 2) {
            score += s.weights[columns[j]] * values[j];
            second += s.weights[columns[j + 1]] * values[j + 1];
        }
        if (j < count) score += s.weights[columns[j]] * values[j];
        score += second;
        const Marks is_positive = (bits & static_cast<std::int32_t>(s.positive[row])) != 0;
        const Lanes sign = is_positive ? one : -one;
        const Lanes diagonal = is_positive ? s.of_positives : s.of_negatives;
        const Lanes before = s.alpha[row];
        const Lanes gradient = sign * score - one + before * (s.rows.own[row] + diagonal);
        const Marks at_zero = before == zero;
        const Marks counts = s.live & ~(at_zero & (gradient > s.bound));
        const Lanes projected = (at_zero & (gradient > zero)) ? zero : gradient;
        most = (counts & (projected > most)) ? projected : most;
        least = (counts & (projected < least)) ? projected : least;
        const Marks moves = counts & ((projected > kNoChange) | (projected < -kNoChange));
        std::int32_t any_counts = 0, any_moves = 0;
        for (std::size_t l = 0; l < kSvmLanes; ++l) {
            any_counts |= counts[l];
            any_moves |= moves[l];
        }
        if (any_counts == 0) {
            std::swap(s.order[i], s.order[--s.active]);
            --i;
            continue;
        }
        if (any_moves == 0) continue;
        Lanes after = before - gradient / (s.rows.squares[row] + 1 + diagonal);
        after = after > zero ? after : zero;
        after = moves ? after : before;
        const Lanes change = (after - before) * sign;
        s.alpha[row] = after;
        for (j = 0; j < count; ++j) s.weights[columns[j]] += change * values[j];
        bias += change;
    }
    s.bias = bias;
    s.most = most;
    s.least = least;
}

// The sum of the rows in each lane's positives, and of all rows.
ELMO_CLONES void add_positives(const SvmRows& rows, const std::uint16_t* positive, Lanes* sums, float* all) {
    const Lanes zero = {}, one = zero + 1.0f;
    const Marks bits = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    for (std::size_t row = 0; row < rows.squares.size(); ++row) {
        const Lanes counted = (bits & static_cast<std::int32_t>(positive[row])) != 0 ? one : zero;
        for (auto j = static_cast<std::size_t>(rows.offsets[row]);
             j < static_cast<std::size_t>(rows.offsets[row + 1]); ++j) {
            all[rows.columns[j]] += rows.values[j];
            if (positive[row] != 0) sums[rows.columns[j]] += counted * rows.values[j];
        }
    }
}

// Where descent starts: one alpha for all positives of a lane and one for all its negatives, the best two.
// With S+ and S- the sums of the rows of both kinds they minimise
//   |p S+ - q S-|^2 / 2 + (n+ p^2 / C+ + n- q^2 / C-) / 4 - n+ p - n- q.
void start(Solving& s, std::span<const SvmLane> lanes, SvmScratch& scratch) {
    const std::int64_t n = s.rows.size();
    std::vector<float> all(scratch.weights.size());
    add_positives(s.rows, s.positive, s.weights, all.data());
    double all_all = static_cast<double>(n) * static_cast<double>(n);
    for (const float value : all) all_all += static_cast<double>(value) * value;
    for (const float own : s.rows.own) all_all += own;
    std::array<double, kSvmLanes> plus_plus{}, plus_all{};
    for (std::size_t c = 0; c < all.size(); ++c)
        for (std::size_t l = 0; l < kSvmLanes; ++l) {
            const double sum = scratch.weights[c].of[l];
            plus_plus[l] += sum * sum;
            plus_all[l] += sum * all[c];
        }
    SvmLanes p{}, q{};
    for (std::size_t l = 0; l < lanes.size(); ++l) {
        const auto count = static_cast<double>(lanes[l].positives.size()),
                   rest = static_cast<double>(n) - count;
        double own = 0;
        for (const std::int32_t row : lanes[l].positives) own += s.rows.own[static_cast<std::size_t>(row)];
        const double pp = plus_plus[l] + own + count * count,
                     pa = plus_all[l] + own + count * static_cast<double>(n);
        const double a = pp + count * s.of_positives[l], b = pa - pp,
                     d = all_all - 2 * pa + pp + rest * s.of_negatives[l];
        const double determinant = a * d - b * b;
        p.of[l] = static_cast<float>((count * d + rest * b) / determinant);
        q.of[l] = static_cast<float>((rest * a + count * b) / determinant);
        s.bias[l] = static_cast<float>(count) * p.of[l] - static_cast<float>(rest) * q.of[l];
    }
    for (std::size_t c = 0; c < all.size(); ++c)
        for (std::size_t l = 0; l < kSvmLanes; ++l)
            scratch.weights[c].of[l] = (p.of[l] + q.of[l]) * scratch.weights[c].of[l] - q.of[l] * all[c];
    for (std::size_t row = 0; row < static_cast<std::size_t>(n); ++row)
        for (std::size_t l = 0; l < lanes.size(); ++l)
            scratch.alpha[row].of[l] = s.positive[row] >> l & 1 ? p.of[l] : q.of[l];
}

}  // namespace

void solve_svms(const SvmRows& rows, std::span<const SvmLane> lanes, const SvmOptions& options,
                std::uint64_t seed, SvmScratch& scratch) {
    const std::int64_t n = rows.size();
    scratch.weights.assign(static_cast<std::size_t>(rows.num_columns), {});
    scratch.alpha.assign(static_cast<std::size_t>(n), {});
    scratch.positive.assign(static_cast<std::size_t>(n), 0);
    scratch.order.resize(static_cast<std::size_t>(n));
    std::iota(scratch.order.begin(), scratch.order.end(), 0);
    Solving s{.rows = rows,
              .positive = scratch.positive.data(),
              .weights = reinterpret_cast<Lanes*>(scratch.weights.data()),
              .alpha = reinterpret_cast<Lanes*>(scratch.alpha.data()),
              .order = scratch.order.data(),
              .active = n,
              .of_positives = {},
              .of_negatives = {},
              .bias = {},
              .bound = {},
              .most = {},
              .least = {},
              .live = {}};
    for (std::size_t l = 0; l < kSvmLanes; ++l) {
        const bool used = l < lanes.size();
        s.of_negatives[l] = 0.5f / options.cost;
        s.of_positives[l] = 0.5f / (options.cost * (used ? lanes[l].weight : 1));
        s.bound[l] = kInfinity;
        s.live[l] = used ? -1 : 0;
        if (!used) continue;
        for (const std::int32_t row : lanes[l].positives)
            scratch.positive[static_cast<std::size_t>(row)] |= static_cast<std::uint16_t>(1u << l);
    }
    start(s, lanes, scratch);
    Order random(seed);
    for (int pass = 0; pass < options.most_passes; ++pass) {
        for (std::int64_t i = 0; i < s.active; ++i)
            std::swap(s.order[i], s.order[i + random.below(s.active - i)]);
        visit_rows(s);
        bool any = false;
        for (std::size_t l = 0; l < kSvmLanes; ++l) {
            if (s.most[l] - s.least[l] <= options.tolerance) s.live[l] = 0;
            s.bound[l] = s.most[l] <= 0 ? kInfinity : s.most[l];
            any = any || s.live[l] != 0;
        }
        if (!any) break;
    }
    for (std::size_t l = 0; l < kSvmLanes; ++l) scratch.bias.of[l] = s.bias[l];
}

}  // namespace elmo
