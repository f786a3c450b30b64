// Ranking on the device, streaming: a logit above its text's threshold (the k-th best so far) is appended to
// the text's candidates; between chunks a block per text sorts them, keeps k, and raises the threshold.
// Chunks grow as thresholds settle. No [texts, labels] matrix exists.
#include <algorithm>
#include <limits>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/head.h"
#include "backend/cuda/head/packed.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kLargestK = 4096, kSmallestCapacity = 4096;
constexpr int kSortThreads = 512;

std::int64_t power_of_two(std::int64_t n) {
    std::int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

// Candidates a text may have: room for k and several times as many new ones.
std::int64_t capacity_for(std::int64_t k) {
    return std::max(kSmallestCapacity, power_of_two(4 * k));
}

// Sorts a text's candidates, best first, and keeps k. `overflow` is set where some had found no room.
__global__ void keep_best_kernel(std::uint64_t* candidates, std::int32_t* counts, std::uint64_t* thresholds,
                                 std::int64_t capacity, std::int64_t k, std::int32_t* overflow) {
    extern __shared__ std::uint64_t keys[];
    std::uint64_t* mine = candidates + blockIdx.x * capacity;
    const std::int32_t found = counts[blockIdx.x];
    const int n = static_cast<int>(found < capacity ? found : capacity);
    int size = 1;
    while (size < n) size *= 2;
    for (int i = threadIdx.x; i < size; i += blockDim.x) keys[i] = i < n ? mine[i] : 0;
    __syncthreads();  // all keys are in shared memory, and all have read the count
    // Bitonic: sequences of `run` keys, alternately descending and ascending, are merged.
    for (int run = 2; run <= size; run *= 2)
        for (int distance = run / 2; distance > 0; distance /= 2) {
            for (int i = threadIdx.x; i < size; i += blockDim.x) {
                const int other = i ^ distance;
                if (other <= i) continue;
                const bool descending = (i & run) == 0;
                if ((keys[i] < keys[other]) == descending) {
                    const std::uint64_t swapped = keys[i];
                    keys[i] = keys[other];
                    keys[other] = swapped;
                }
            }
            __syncthreads();  // the pass is done
        }
    const int kept = n < k ? n : static_cast<int>(k);
    for (int i = threadIdx.x; i < kept; i += blockDim.x) mine[i] = keys[i];
    if (threadIdx.x != 0) return;
    if (found > capacity) *overflow = 1;
    counts[blockIdx.x] = kept;
    thresholds[blockIdx.x] = n >= k ? keys[k - 1] : 0;
}

// What is used of them: while chunks may grow by this factor, fewer candidates are sorted faster.
std::int64_t used_capacity(std::int64_t k, std::int64_t planned) {
    constexpr std::int64_t kGrowth = 25, kLeast = 1024;
    return std::clamp(power_of_two((8 * kGrowth + 1) * k), std::min(kLeast, planned), planned);
}

// The label that has the threshold passes again.
__global__ void lower_thresholds_kernel(std::uint64_t* thresholds, std::int64_t batch) {
    const std::int64_t b = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
    if (b < batch && thresholds[b] > 0) --thresholds[b];
}

// The best of all texts side by side, 0 where a text has fewer, and then whether some had found no room: one
// piece for the host.
__global__ void collect_kernel(const std::uint64_t* candidates, const std::int32_t* counts,
                               std::int64_t capacity, std::int64_t k, const std::int32_t* overflow,
                               std::uint64_t* best) {
    for (std::int64_t i = threadIdx.x; i < k; i += blockDim.x)
        best[blockIdx.x * k + i] = i < counts[blockIdx.x] ? candidates[blockIdx.x * capacity + i] : 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) best[gridDim.x * k] = static_cast<std::uint64_t>(*overflow);
}

ScoredLabel scored(std::uint64_t key) {
    const auto ordered = static_cast<std::uint32_t>(key >> 32);
    const std::uint32_t bits = ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered;
    return {std::bit_cast<float>(bits), std::int64_t{0xffffffffu - static_cast<std::uint32_t>(key)}};
}

}  // namespace

void HeadOps::reserve_ranking(Arena& arena, const Workload& w) {
    const std::int64_t batch = std::max<std::int64_t>(w.batch, 1);
    const std::int64_t capacity = capacity_for(std::min(w.top_k, kLargestK));
    candidates_ = arena.allocate("scratch/topk_candidates", DType::kI64, batch, capacity);
    counts_ = arena.allocate("scratch/topk_counts", DType::kI32, 1, batch);
    // And behind them what collect_kernel writes.
    thresholds_ = arena.allocate("scratch/topk_thresholds", DType::kI64, 1,
                                 batch * (1 + std::min(w.top_k, kLargestK)) + 1);
}

std::vector<TopK> HeadOps::topk(const HeadTopK& op) {
    const std::int64_t batch = op.x_BD.rows, labels = op.w_LD.rows, k = std::min(op.k, labels);
    std::vector<TopK> best(static_cast<std::size_t>(batch), TopK(op.k));
    if (batch == 0 || k <= 0) return best;
    const std::int64_t capacity = used_capacity(k, candidates_.cols);
    if (k > kLargestK || 4 * k > candidates_.cols || batch * (1 + k) + 1 > thresholds_.cols)
        throw ConfigError(
            "the best labels of a text: a GPU ranks at most 4096 at once (and what was planned); ask for "
            "fewer, or use --device cpu");
    if (labels > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
        throw ConfigError("a GPU ranks at most 2^32 labels");
    HeadArgs a = stage(op.x_BD, weights_of(op), casts_to_e4m3(op), false, false, false);
    a.candidates = static_cast<std::uint64_t*>(candidates_.data);
    a.counts = counts_.as<std::int32_t>();
    a.thresholds = static_cast<const std::uint64_t*>(thresholds_.data);
    a.capacity = capacity;
    const std::int64_t tiles = tiles_of(labels);
    // What always fits: all of it may pass beside the k kept.
    const std::int64_t safe = (capacity - k) / kLabelTile;
    // While labels come in no particular order, a chunk of `growth` times what was seen adds about growth *
    // k.
    const std::int64_t growth = std::clamp<std::int64_t>((capacity - k) / (8 * k), 1, 32);
    std::int32_t* overflow = context_.flags();
    std::uint64_t* collected = static_cast<std::uint64_t*>(thresholds_.data) + batch;
    std::vector<std::uint64_t> keys(static_cast<std::size_t>(batch * k + 1));
    const auto shared = static_cast<std::size_t>(capacity) * sizeof(std::uint64_t);
    check(cudaFuncSetAttribute(keep_best_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "top-k");
    // Where labels come in an order, some find no room. Those that did leave a threshold that few labels pass
    // the next time; if they are still too many, chunks are so small that all fit.
    for (int attempt = 0;; ++attempt) {
        context_.clear(overflow, 4, "top-k");
        context_.fill_zero(counts_);
        if (attempt == 0) {
            context_.fill_zero({thresholds_.data, DType::kI64, 1, batch});
        } else {
            lower_thresholds_kernel<<<static_cast<unsigned>((batch + 255) / 256), 256, 0,
                                      context_.stream()>>>(static_cast<std::uint64_t*>(thresholds_.data),
                                                           batch);
            check_launch("top-k");
        }
        for (std::int64_t first = 0; first < tiles;) {
            const std::int64_t step = attempt == 1                 ? tiles
                                      : attempt >= 2 || first == 0 ? safe
                                                                   : std::max(safe, first * growth);
            a.first_tile = first;
            a.last_tile = std::min({tiles, first + step, first + (std::int64_t{1} << 15)});
            rank_tiles(a, op);
            keep_best_kernel<<<static_cast<unsigned>(batch), kSortThreads, shared, context_.stream()>>>(
                a.candidates, a.counts, static_cast<std::uint64_t*>(thresholds_.data), capacity, k, overflow);
            check_launch("top-k");
            first = a.last_tile;
        }
        collect_kernel<<<static_cast<unsigned>(batch), 128, 0, context_.stream()>>>(
            a.candidates, a.counts, capacity, k, overflow, collected);
        check_launch("top-k");
        context_.download(keys.data(), {collected, DType::kI64, 1, batch * k + 1});
        if (keys.back() == 0) break;
    }
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t i = 0; i < k && keys[static_cast<std::size_t>(b * k + i)] != 0; ++i) {
            const ScoredLabel label = scored(keys[static_cast<std::size_t>(b * k + i)]);
            best[static_cast<std::size_t>(b)].offer(label.score, label.label);
        }
    return best;
}

}  // namespace elmo::cuda
