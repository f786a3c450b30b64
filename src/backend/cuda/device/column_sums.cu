// Column sums of a matrix, and the adding up of partial sums.
#include <algorithm>

#include "backend/cuda/device/column_sums.cuh"
#include "backend/cuda/device/column_sums.h"
#include "backend/cuda/device/early.cuh"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kAlignment = 8;            // floats
constexpr std::int64_t kMostWaiting = 1'250'000;  // floats that have room beside one another

// Block (columns, partial): eight warps, rows partial * 8 + warp + i * partials * 8.
template <int V, class T>
__global__ void __launch_bounds__(256)
    column_partials_kernel(const T* dy, std::int64_t rows, std::int64_t cols, float* partials) {
    after_previous();
    constexpr int kInFlight = 4;
    __shared__ float shared[256 * V];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32 * V, column = first + lane * V;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * 8;
    float sum[V] = {};
    if (column < cols)
        for (std::int64_t row = blockIdx.y * 8 + warp; row < rows; row += kInFlight * step) {
            Packed<V, T> some[kInFlight];
#pragma unroll
            for (int i = 0; i < kInFlight; ++i)
                if (row + i * step < rows) some[i] = load_packed<V>(dy + (row + i * step) * cols + column);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (row + i * step >= rows) break;
                float v[V];
                unpack(some[i], v);
#pragma unroll
                for (int j = 0; j < V; ++j) sum[j] += v[j];
            }
        }
    write_partial<V, 8, 32>(sum, shared, first, cols, partials + blockIdx.y * cols);
}

// Blocks of a sum for each of its outputs: of 32 columns.
constexpr int kSumColumns = 32;
struct Sums {
    ColumnSums::Sum sum[ColumnSums::kMostSums];
    int count = 0;
};

// Block (sum, output, 32 columns): 32 groups take the partials in turn, then one warp per column adds the
// groups' sums. The next kernel (AdamW) may begin, and read what no kernel before this one still writes.
__global__ void __launch_bounds__(32 * kSumColumns) add_partials_kernel(const __grid_constant__ Sums all) {
    wait_for_previous();
    let_next_begin();
    int index = all.count - 1;
    while (static_cast<int>(blockIdx.x) < all.sum[index].first_block) --index;
    const ColumnSums::Sum& job = all.sum[index];
    const std::int64_t cols = job.cols, blocks = (cols + kSumColumns - 1) / kSumColumns;
    const std::int64_t block = static_cast<int>(blockIdx.x) - job.first_block, output = block / blocks;
    __shared__ float sums[32][kSumColumns + 1];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t first = block % blocks * kSumColumns;
    const std::int64_t stride = job.num_outs * cols;
    float sum = 0;
    if (first + lane < cols) {
        const float* mine = job.partials + output * cols + first + lane;
#pragma unroll 4
        for (std::int64_t p = group; p < job.num_partials; p += 32) sum += mine[p * stride];
    }
    sums[group][lane] = sum;
    __syncthreads();  // all groups' sums are in shared memory
    const std::int64_t column = first + group;
    const float total = warp_sum(sums[lane][group]);
    if (lane != 0 || column >= cols) return;
    const ColumnSums::Out out = job.outs[output];
    const auto deliver = [&](auto* to) {
        store_float(to, column, job.accumulate ? load_float(to, column) + total : total);
    };
    if (out.is_bf16)
        deliver(static_cast<bf16*>(out.data));
    else
        deliver(static_cast<float*>(out.data));
}

}  // namespace

void ColumnSums::reserve(Arena& arena, const Workload& w) {
    waiting_.clear();
    used_ = 0;
    if (!w.training) return;
    const std::int64_t columns = std::max({3 * w.width, w.widest, std::int64_t{8}});
    const std::int64_t of_texts = w.heads > 0 ? std::min(w.batch, kTextPartials) * 3 * w.width : 0;
    largest_ = std::max(kColumnPartials * ((columns + 7) / 8 * 8), of_texts);
    // Those of a layer wait together where that takes little memory, as it does in small steps: two norms,
    // the up-projection's bias, that of queries, keys and values.
    const std::int64_t rows = num_partials(w.tokens);
    const std::int64_t of_layer = w.heads > 0 ? 2 * kColumnPartials * 3 * w.width + rows * w.widest +
                                                    std::max(rows * 3 * w.width, of_texts) + 4 * kAlignment
                                              : 0;
    partials_ = arena.allocate("scratch/column_partials", DType::kF32, 1,
                               std::max(largest_, std::min(of_layer, kMostWaiting)));
}

float* ColumnSums::partials(std::int64_t floats) {
    if (floats > partials_.size()) throw DeviceError("GPU: more partial sums than were planned for");
    if (used_ + floats > partials_.size() || waiting_.size() == kMostSums) finish();
    float* const place = partials_.as<float>() + used_;
    used_ += (floats + kAlignment - 1) / kAlignment * kAlignment;
    return place;
}

std::int64_t ColumnSums::num_partials(std::int64_t rows) {
    constexpr std::int64_t kRows = 64;  // of a block; more where there would be too many
    return std::clamp<std::int64_t>((rows + kRows - 1) / kRows, 1, kColumnPartials);
}

void ColumnSums::add_rows(const View& dy, const View& dbias, bool accumulate) {
    const std::int64_t parts = num_partials(dy.rows);
    float* const places = partials(parts * dy.cols);
    with_type(dy, [&](auto* in) {
        using T = std::remove_pointer_t<decltype(in)>;
        with_width(dy.cols, [&](auto width) {
            const dim3 grid(blocks_for(dy.cols, 32 * width()), static_cast<unsigned>(parts));
            launch_early(context_.starts_early(), column_partials_kernel<width(), T>, grid, 256, 0,
                         context_.stream(), "bias gradient", in, dy.rows, dy.cols, places);
        });
    });
    add_partials(places, parts, {dbias}, accumulate);
}

void ColumnSums::add_partials(const float* partials, std::int64_t num_partials,
                              std::initializer_list<View> gradients, bool accumulate) {
    Sum sum{partials, num_partials, gradients.begin()->size(), {}, 0, accumulate, 0};
    for (const View& view : gradients)
        with_type(view, [&](auto* data) {
            sum.outs[sum.num_outs++] = {data, std::is_same_v<decltype(data), bf16*>};
        });
    // Those that add to one gradient have an order.
    const bool again = std::ranges::any_of(
        waiting_, [&](const Sum& other) { return other.outs[0].data == sum.outs[0].data; });
    if (again) finish();
    waiting_.push_back(sum);
    if (again) finish();
}

bool ColumnSums::finish() {
    used_ = 0;
    if (waiting_.empty()) return false;
    Sums sums;
    std::int64_t blocks = 0;
    for (const Sum& waiting : waiting_) {
        Sum& sum = sums.sum[sums.count++] = waiting;
        sum.first_block = static_cast<std::int32_t>(blocks);
        blocks += sum.num_outs * ((sum.cols + kSumColumns - 1) / kSumColumns);
    }
    waiting_.clear();
    launch_early(context_.starts_early(), add_partials_kernel, blocks_for(blocks, 1), 32 * kSumColumns, 0,
                 context_.stream(), "adding partial sums", sums);
    return true;
}

}  // namespace elmo::cuda
