// Column sums of a matrix, and the adding up of partial sums.
#include <algorithm>

#include "backend/cuda/device/column_sums.cuh"
#include "backend/cuda/device/column_sums.h"

namespace elmo::cuda {
namespace {

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

constexpr int kOuts = 3;
struct Out {
    void* data = nullptr;
    bool is_bf16 = false;
};
struct Outs {
    Out out[kOuts];
};

// Block (32 columns, output): 32 groups take the partials in turn, then one warp per column adds the groups'
// sums.
__global__ void __launch_bounds__(1024) add_partials_kernel(const float* partials, std::int64_t num_partials,
                                                            std::int64_t cols, Outs outs, bool accumulate) {
    after_previous();
    __shared__ float sums[32][33];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * cols;
    float sum = 0;
    if (first + lane < cols) {
        const float* mine = partials + blockIdx.y * cols + first + lane;
#pragma unroll 4
        for (std::int64_t p = group; p < num_partials; p += 32) sum += mine[p * stride];
    }
    sums[group][lane] = sum;
    __syncthreads();  // all groups' sums are in shared memory
    const std::int64_t column = first + group;
    const float total = warp_sum(sums[lane][group]);
    if (lane != 0 || column >= cols) return;
    const Out out = outs.out[blockIdx.y];
    const auto deliver = [&](auto* to) {
        store_float(to, column, accumulate ? load_float(to, column) + total : total);
    };
    if (out.is_bf16)
        deliver(static_cast<bf16*>(out.data));
    else
        deliver(static_cast<float*>(out.data));
}

}  // namespace

void ColumnSums::reserve(Arena& arena, const Workload& w) {
    if (!w.training) return;
    const std::int64_t columns = std::max({3 * w.width, w.widest, std::int64_t{8}});
    const std::int64_t of_texts = w.heads > 0 ? std::min(w.batch, kTextPartials) * 3 * w.width : 0;
    partials_ = arena.allocate("scratch/column_partials", DType::kF32, 1,
                               std::max(kColumnPartials * ((columns + 7) / 8 * 8), of_texts));
}

std::int64_t ColumnSums::num_partials(std::int64_t rows) {
    constexpr std::int64_t kRows = 64;  // of a block; more where there would be too many
    return std::clamp<std::int64_t>((rows + kRows - 1) / kRows, 1, kColumnPartials);
}

void ColumnSums::add_rows(const View& dy, const View& dbias, bool accumulate) {
    const std::int64_t parts = num_partials(dy.rows);
    with_type(dy, [&](auto* in) {
        using T = std::remove_pointer_t<decltype(in)>;
        with_width(dy.cols, [&](auto width) {
            const dim3 grid(blocks_for(dy.cols, 32 * width()), static_cast<unsigned>(parts));
            launch_early(context_.starts_early(), column_partials_kernel<width(), T>, grid, 256, 0,
                         context_.stream(), "bias gradient", in, dy.rows, dy.cols, partials());
        });
    });
    add_partials(parts, {dbias}, accumulate);
}

void ColumnSums::add_partials(std::int64_t num_partials, std::initializer_list<View> gradients,
                              bool accumulate) {
    Outs outs;
    unsigned count = 0;
    for (const View& view : gradients)
        with_type(view, [&](auto* data) {
            outs.out[count++] = {data, std::is_same_v<decltype(data), bf16*>};
        });
    const std::int64_t cols = gradients.begin()->size();
    const dim3 grid(blocks_for(cols, 32), count);
    launch_early(context_.starts_early(), add_partials_kernel, grid, 1024, 0, context_.stream(),
                 "adding partial sums", partials(), num_partials, cols, outs, accumulate);
}

}  // namespace elmo::cuda
