// Ranking on the device, streaming: a logit above its text's threshold is appended to the text's candidates;
// between chunks a block per text keeps the k best of them and raises the threshold to what the k-th has.
// Chunks grow as thresholds settle. No [texts, labels] matrix exists.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/head.h"
#include "backend/cuda/head/packed.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kLargestK = 4096, kSmallestCapacity = 4096;
constexpr int kKeepThreads = 512, kKeepWarps = kKeepThreads / 32;

std::int64_t power_of_two(std::int64_t n) {
    std::int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

// Candidates a text may have: room for k and several times as many new ones.
std::int64_t capacity_for(std::int64_t k) {
    return std::max(kSmallestCapacity, power_of_two(4 * k));
}

// By how much a chunk may exceed what was seen before it. While labels come in no particular order, `growth`
// times as many add growth times a sum of k exponential numbers, rarely beyond k + 4 sqrt(k) + 12. Each
// candidate makes its warp wait: with more texts than a few that costs more than more chunks do.
std::int64_t growth_for(std::int64_t batch, std::int64_t k, std::int64_t capacity) {
    constexpr std::int64_t kFew = 16, kOfFew = 32, kOfMany = 5;
    const double each = static_cast<double>(k) + 4 * std::sqrt(static_cast<double>(k)) + 12;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(capacity - k) / each), 1,
                                    batch <= kFew ? kOfFew : kOfMany);
}

// Of the block's keys, how many are at least `least`. `sums` of two calls in a row differ.
template <int Keys>
__device__ __forceinline__ int count_from(const std::uint64_t (&keys)[Keys], std::uint64_t least, int* sums) {
    int count = 0;
    const auto score = static_cast<std::uint32_t>(least >> 32);
    if (static_cast<std::uint32_t>(least) == 0) {  // one word decides
#pragma unroll
        for (const std::uint64_t key : keys) count += static_cast<std::uint32_t>(key >> 32) >= score;
    } else {
#pragma unroll
        for (const std::uint64_t key : keys) count += key >= least;
    }
    count = __reduce_add_sync(0xffffffffu, count);
    const int lane = threadIdx.x % 32;
    if (lane == 0) sums[threadIdx.x / 32] = count;
    __syncthreads();  // all warps' counts are in shared memory
    return __reduce_add_sync(0xffffffffu, lane < kKeepWarps ? sums[lane] : 0);
}

struct Candidates {
    std::uint64_t* keys;   // [B, capacity]; 0: none
    std::int32_t* counts;  // found, also where some had no room
    std::uint64_t* thresholds;
    std::uint64_t* overflow;  // set where some had none
    std::uint64_t* best;      // [B, k], best first, 0 where a text has fewer; null while chunks follow
    std::int64_t capacity;
    std::int32_t k, given;  // given: what every text has, instead of counts; 0: counts say it
};

// Keeps the k best of a text's candidates. Its threshold becomes a key that only they are above.
template <int Keys>
__global__ void __launch_bounds__(kKeepThreads) keep_best_kernel(Candidates c) {
    after_previous();
    __shared__ int sums[2][kKeepWarps], kept;
    extern __shared__ std::uint64_t sorted[];
    std::uint64_t* mine = c.keys + blockIdx.x * c.capacity;
    const std::int32_t found = c.given > 0 ? c.given : c.counts[blockIdx.x];
    const int filled = found < c.capacity ? found : static_cast<int>(c.capacity);
    std::uint64_t keys[Keys];
#pragma unroll
    for (int i = 0; i < Keys; ++i) {
        const int place = i * kKeepThreads + static_cast<int>(threadIdx.x);
        keys[i] = place < filled ? mine[place] : 0;
    }
    if (threadIdx.x == 0) kept = 0;
    const int n = count_from(keys, 1, sums[0]);
    // What the k best are at least, from its highest bit on, until no other is. None is there twice.
    std::uint64_t least = n < c.k ? 1 : 0;
    for (int bit = 63; n >= c.k && bit >= 0; --bit) {
        const std::uint64_t higher = least | std::uint64_t{1} << bit;
        const int count = count_from(keys, higher, sums[bit % 2]);
        if (count < c.k) continue;
        least = higher;
        if (count == c.k) break;
    }
    const int size = n < c.k ? n : c.k;
    int padded = 1;
    while (padded < size) padded *= 2;
    if (c.best != nullptr)
        for (int i = threadIdx.x; i < padded; i += kKeepThreads) sorted[i] = 0;
    __syncthreads();  // all have read their keys and the count
#pragma unroll
    for (const std::uint64_t key : keys)
        if (key >= least) (c.best == nullptr ? mine : sorted)[atomicAdd(&kept, 1)] = key;
    if (threadIdx.x == 0) {
        c.counts[blockIdx.x] = size;
        c.thresholds[blockIdx.x] = least - 1;
        if (found > c.capacity) *c.overflow = 1;
    }
    if (c.best == nullptr) return;
    __syncthreads();  // those kept are in shared memory
    // Bitonic: sequences of `run` keys, alternately descending and ascending, are merged.
    for (int run = 2; run <= padded; run *= 2)
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int i = threadIdx.x; i < padded / 2; i += kKeepThreads) {
                const int one = 2 * i - (i & (distance - 1)), other = one + distance;
                const bool descending = (one & run) == 0;
                if ((sorted[one] < sorted[other]) == descending) {
                    const std::uint64_t swapped = sorted[one];
                    sorted[one] = sorted[other];
                    sorted[other] = swapped;
                }
            }
            __syncthreads();  // the pass is done
        }
    for (int i = threadIdx.x; i < c.k; i += kKeepThreads)
        c.best[static_cast<std::int64_t>(blockIdx.x) * c.k + i] = i < size ? sorted[i] : 0;
}

ScoredLabel scored(std::uint64_t key) {
    const auto ordered = static_cast<std::uint32_t>(key >> 32);
    const std::uint32_t bits = ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered;
    return {std::bit_cast<float>(bits), std::int64_t{0xffffffffu - static_cast<std::uint32_t>(key)}};
}

// What a ranking keeps, in numbers of 8 bytes: thresholds, counts, whether some had no room, the best.
struct RankingLayout {
    std::int64_t counts, overflow, best, size;
    RankingLayout(std::int64_t batch, std::int64_t k)
        : counts(batch), overflow(counts + (batch + 1) / 2), best(overflow + 1), size(best + batch * k) {}
};

}  // namespace

void HeadOps::reserve_ranking(Arena& arena, const Workload& w) {
    const std::int64_t batch = std::max<std::int64_t>(w.batch, 1), k = std::min(w.top_k, kLargestK);
    candidates_ = arena.allocate("scratch/topk_candidates", DType::kI64, batch, capacity_for(k));
    ranking_ = arena.allocate("scratch/topk_best", DType::kI64, 1, RankingLayout(batch, k).size);
}

std::vector<TopK> HeadOps::topk(const HeadTopK& op) {
    const std::int64_t batch = op.x_BD.rows, labels = op.w_LD.rows, k = std::min(op.k, labels);
    std::vector<TopK> best(static_cast<std::size_t>(batch), TopK(op.k));
    if (batch == 0 || k <= 0) return best;
    const RankingLayout layout(batch, k);
    const std::int64_t capacity = candidates_.cols;
    if (k > kLargestK || 4 * k > capacity || batch > candidates_.rows || layout.size > ranking_.cols)
        throw ConfigError(
            "the best labels of a text: a GPU ranks at most 4096 at once (and what was planned); ask for "
            "fewer, or use --device cpu");
    if (labels > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
        throw ConfigError("a GPU ranks at most 2^32 labels");
    const bool on_hopper = this->on_hopper(op);
    const View w = on_hopper ? View{op.w_LD.data, op.w_LD.dtype, labels, op.x_BD.cols} : weights_of(op);
    HeadArgs a = stage(op.x_BD, w, casts_to_e4m3(op), false, on_hopper, false);
    auto* const state = static_cast<std::uint64_t*>(ranking_.data);
    a.candidates = static_cast<std::uint64_t*>(candidates_.data);
    a.counts = reinterpret_cast<std::int32_t*>(state + layout.counts);
    a.thresholds = state;
    a.capacity = capacity;
    Candidates c{a.candidates,
                 a.counts,
                 state,
                 state + layout.overflow,
                 nullptr,
                 capacity,
                 static_cast<std::int32_t>(k),
                 0};
    const std::int64_t tiles = tiles_of(labels), growth = growth_for(batch, k, capacity);
    // What always fits: all of it may pass beside the k kept.
    const std::int64_t safe = (capacity - k) / kLabelTile;
    const View answer{state + layout.overflow, DType::kI64, 1, 1 + batch * k};
    if (answer_ == nullptr || answer_->bytes() < answer.bytes())
        answer_ = context_.allocate_in_host(answer.bytes());
    const auto* const keys = static_cast<const std::uint64_t*>(answer_->data());
    // Where labels come in an order, some find no room. Those that did leave a threshold that few labels pass
    // the next time; if they are still too many, chunks are so small that all fit.
    for (int attempt = 0;; ++attempt) {
        const std::int64_t cleared = attempt == 0 ? 0 : layout.counts;
        context_.clear(state + cleared, (layout.best - cleared) * 8, "top-k");
        for (a.first_tile = 0; a.first_tile < tiles; a.first_tile = a.last_tile) {
            const std::int64_t step = attempt == 1 ? tiles
                                      : attempt >= 2 || a.first_tile == 0
                                          ? safe
                                          : std::max(safe, a.first_tile * growth);
            a.last_tile = std::min({tiles, a.first_tile + step, a.first_tile + (std::int64_t{1} << 15)});
            const bool from_nothing = attempt == 0 && a.first_tile == 0;
            a.counts = from_nothing ? nullptr : c.counts;
            c.given =
                from_nothing ? static_cast<std::int32_t>(std::min(labels, a.last_tile * kLabelTile)) : 0;
            rank_tiles(a, op, on_hopper);
            c.best = a.last_tile == tiles ? state + layout.best : nullptr;
            launch_early(context_.starts_early(),
                         capacity <= 8 * kKeepThreads ? keep_best_kernel<8> : keep_best_kernel<32>,
                         static_cast<unsigned>(batch), kKeepThreads,
                         static_cast<std::size_t>(power_of_two(k)) * sizeof(std::uint64_t), context_.stream(),
                         "top-k", c);
        }
        context_.download(answer_->data(), answer);
        if (keys[0] == 0) break;
    }
    for (std::int64_t b = 0; b < batch; ++b) {
        const std::uint64_t* const mine = keys + 1 + b * k;
        std::int64_t size = k;
        while (size > 0 && mine[size - 1] == 0) --size;
        std::vector<ScoredLabel> worst_first;
        worst_first.reserve(static_cast<std::size_t>(size));
        while (size > 0) worst_first.push_back(scored(mine[--size]));
        best[static_cast<std::size_t>(b)] = TopK(op.k, std::move(worst_first));
    }
    return best;
}

}  // namespace elmo::cuda
