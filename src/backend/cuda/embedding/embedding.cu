// Token embeddings, pooling and the bag of tokens. Gradients of a table are made without atomics: tokens are
// sorted (stably), and each table row that occurs is summed by one warp or block in a fixed order.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <string>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/embedding/embedding.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// The text that token t lies in: the last b with offsets[b] <= t.
__device__ __forceinline__ std::int64_t text_of(const std::int32_t* offsets, std::int64_t num_texts,
                                                std::int64_t t) {
    std::int64_t low = 0, high = num_texts;  // offsets[low] <= t < offsets[high]
    while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        (offsets[middle] <= t ? low : high) = middle;
    }
    return low;
}

// A warp per token.
template <int V, class T>
__global__ void embed_kernel(DeviceTexts texts, const T* word, const T* position, const T* type,
                             std::int64_t position_base, T* out, std::int64_t cols) {
    const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (t >= texts.num_tokens) return;
    const std::int64_t token = texts.tokens[t];
    const std::int64_t place =
        position == nullptr ? 0
                            : position_base + t - texts.offsets[text_of(texts.offsets, texts.num_texts, t)];
    for (std::int64_t c = threadIdx.x % 32 * V; c < cols; c += 32 * V) {
        float v[V], other[V];
        load_some<V>(word + token * cols + c, v);
        if (position != nullptr) {
            load_some<V>(position + place * cols + c, other);
#pragma unroll
            for (int j = 0; j < V; ++j) v[j] += other[j];
        }
        if (type != nullptr) {
            load_some<V>(type + c, other);
#pragma unroll
            for (int j = 0; j < V; ++j) v[j] += other[j];
        }
        store_some<V>(out + t * cols + c, v);
    }
}

// What is summed into which row of the table: keys[t] = its row, values[t] = t.
__global__ void keys_kernel(DeviceTexts texts, std::int32_t* keys, std::int32_t* values) {
    const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (t >= texts.num_tokens) return;
    values[t] = static_cast<std::int32_t>(t);
    keys[t] = texts.tokens[t];
}

constexpr int kRowGroups = 8;  // warps of a block that share out what a table row is the sum of

// What adds to a row of a table: row `row` (none where it is negative) times `scale`.
struct Entry {
    std::int64_t row = -1;
    float scale = 1;
};

// dtable[key] = the sum over entries i of [begin, end) of their rows. Entries go to the warps in turn, and
// the warps' sums are added in order. A lane looks at two of the next 64 entries, so that the rows of each
// warp's eight load together, and at two of those after them meanwhile. A list that ends early has no entry
// after its first gap. Block y: 32 V columns.
template <int V, class T, class G, class Entries>
__device__ __forceinline__ void sum_entries(const Entries& entries, std::int64_t begin, std::int64_t end,
                                            bool ends_early, const T* rows, G* dtable, std::int64_t key,
                                            std::int64_t cols, bool accumulate) {
    constexpr unsigned kAll = 0xffffffffu;
    constexpr int kMine = 32 / kRowGroups, kLooks = 2;
    __shared__ float sums[kRowGroups][32 * V];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t c = (static_cast<std::int64_t>(blockIdx.y) * 32 + lane) * V;
    const auto look = [&](std::int64_t base, Entry(&seen)[kLooks]) {
#pragma unroll
        for (int i = 0; i < kLooks; ++i) {
            const std::int64_t at = base + 32 * i + lane;
            seen[i] = at < end ? entries(at) : Entry{};
        }
    };
    float sum[V] = {};
    Entry now[kLooks], next[kLooks];
    look(begin, now);
    for (std::int64_t base = begin; base < end; base += 32 * kLooks) {
        // Where there is no entry some row is loaded all the same: conditional loads would not run together.
        Packed<V, T> v[kLooks][kMine];
        float scale[kLooks][kMine];
        unsigned present = 0;
#pragma unroll
        for (int i = 0; i < kLooks; ++i)
#pragma unroll
            for (int k = 0; k < kMine; ++k) {
                const std::int64_t row = __shfl_sync(kAll, now[i].row, k * kRowGroups + group);
                scale[i][k] = __shfl_sync(kAll, now[i].scale, k * kRowGroups + group);
                v[i][k] = load_packed<V>(rows + max(row, std::int64_t{0}) * cols + (c < cols ? c : 0));
                present |= static_cast<unsigned>(row >= 0) << (i * kMine + k);
            }
        look(base + 32 * kLooks, next);
#pragma unroll
        for (int i = 0; i < kLooks; ++i)
#pragma unroll
            for (int k = 0; k < kMine; ++k) {
                if ((present >> (i * kMine + k) & 1u) == 0) continue;
                float one[V];
                unpack(v[i][k], one);
#pragma unroll
                for (int j = 0; j < V; ++j) sum[j] += one[j] * scale[i][k];
            }
        if (ends_early && __any_sync(kAll, now[kLooks - 1].row < 0)) break;
#pragma unroll
        for (int i = 0; i < kLooks; ++i) now[i] = next[i];
    }
#pragma unroll
    for (int j = 0; j < V; ++j) sums[group][lane * V + j] = sum[j];
    __syncthreads();  // all groups' sums are in shared memory
    if (group != 0 || c >= cols) return;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const std::int64_t place = key * cols + c + j;
        float total = accumulate ? load_float(dtable, place) : 0.0f;
        for (int g = 0; g < kRowGroups; ++g) total += sums[g][lane * V + j];
        store_float(dtable, place, total);
    }
}

// Each warp has an entry of the sorted list and works where a run of equal keys begins. A run of up to
// kRowGroups entries is summed by that warp, in blocks of y = 0. Of a longer one, of which no two can begin
// in a block, each warp takes every kRowGroups-th entry, and each block 32 V columns. Both have the same
// order. With `per_text` the gradient of a token is that of its text divided by the text's length.
template <int V, class T, class G>
__global__ void __launch_bounds__(32 * kRowGroups)
    token_gradient_kernel(DeviceTexts texts, const std::int32_t* keys, const std::int32_t* values,
                          const T* rows, bool per_text, G* dtable, std::int64_t cols, bool accumulate) {
    constexpr unsigned kAll = 0xffffffffu;
    constexpr int kParts = 4;  // of 32 V columns, whose loads run together
    __shared__ std::int64_t long_run;
    const int lane = threadIdx.x % 32;
    const auto entry_of = [&](std::int64_t token) {
        Entry entry;
        entry.row = token;
        if (per_text) {
            entry.row = text_of(texts.offsets, texts.num_texts, token);
            entry.scale = 1.0f / static_cast<float>(texts.offsets[entry.row + 1] - texts.offsets[entry.row]);
        }
        return entry;
    };
    if (threadIdx.x == 0) long_run = -1;
    __syncthreads();
    // The key before, and those of a short run and of what follows it.
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kRowGroups + threadIdx.x / 32;
    const std::int64_t mine = begin - 1 + lane;
    const bool looks = lane < kRowGroups + 2 && mine >= 0 && mine < texts.num_tokens;
    const std::int32_t seen = looks ? keys[mine] : -1, token = looks ? values[mine] : -1;
    const std::int32_t key = __shfl_sync(kAll, seen, 1);
    const unsigned equal = __ballot_sync(kAll, seen == key);
    const int count = __ffs(~(equal >> 1)) - 1;
    if (key >= 0 && (equal & 1u) == 0) {
        if (count > kRowGroups) {
            if (lane == 0) long_run = begin;
        } else if (blockIdx.y == 0) {
            Entry entry;
            if (lane >= 1 && lane <= count) entry = entry_of(token);
            for (std::int64_t first = 0; first < cols; first += kParts * 32 * V) {
                const std::int64_t column = first + lane * V;
                G* const to = dtable + key * cols + column;
                const auto inside = [&](int part) { return column + part * 32 * V < cols; };
                float total[kParts][V] = {};
                if (accumulate)
#pragma unroll
                    for (int p = 0; p < kParts; ++p)
                        if (inside(p)) load_some<V>(to + p * 32 * V, total[p]);
                for (int k = 1; k <= count; ++k) {
                    const std::int64_t row = __shfl_sync(kAll, entry.row, k);
                    const float scale = __shfl_sync(kAll, entry.scale, k);
                    Packed<V, T> v[kParts] = {};
#pragma unroll
                    for (int p = 0; p < kParts; ++p)
                        if (inside(p)) v[p] = load_packed<V>(rows + row * cols + column + p * 32 * V);
#pragma unroll
                    for (int p = 0; p < kParts; ++p) {
                        float one[V];
                        unpack(v[p], one);
#pragma unroll
                        for (int j = 0; j < V; ++j) total[p][j] += one[j] * scale;
                    }
                }
#pragma unroll
                for (int p = 0; p < kParts; ++p)
                    if (inside(p)) store_some<V>(to + p * 32 * V, total[p]);
            }
        }
    }
    __syncthreads();  // the long run is known
    if (long_run < 0) return;
    const std::int32_t long_key = keys[long_run];
    const auto entries = [&](std::int64_t i) { return keys[i] == long_key ? entry_of(values[i]) : Entry{}; };
    sum_entries<V>(entries, long_run, texts.num_tokens, true, rows, dtable, long_key, cols, accumulate);
}

// Block x: a place in the texts.
template <int V, class T, class G>
__global__ void __launch_bounds__(32 * kRowGroups)
    position_gradient_kernel(DeviceTexts texts, const T* rows, std::int64_t position_base, G* dtable,
                             std::int64_t cols, bool accumulate) {
    const std::int64_t place = blockIdx.x;
    const auto entries = [&](std::int64_t b) {
        Entry entry;
        const std::int64_t row = texts.offsets[b] + place;
        if (row < texts.offsets[b + 1]) entry.row = row;
        return entry;
    };
    sum_entries<V>(entries, 0, texts.num_texts, false, rows, dtable, position_base + place, cols, accumulate);
}

// Block (text, 32 V columns): the mean, or the first token, with dropout. Rows come from x or, for a bag,
// from the table at the tokens' ids. They go to the warps in turn, several loading at a time, and the warps'
// sums are added in order.
template <int V, bool Bag, class T, class Out>
__global__ void __launch_bounds__(32 * kRowGroups)
    pool_kernel(DeviceTexts texts, const T* x, bool first_only, DropoutArgs dropout, Out* out,
                std::int64_t cols) {
    constexpr int kInFlight = 8;
    __shared__ float sums[kRowGroups][32 * V];
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t b = blockIdx.x, c = (static_cast<std::int64_t>(blockIdx.y) * 32 + lane) * V;
    const std::int64_t begin = texts.offsets[b], end = texts.offsets[b + 1];
    const std::int64_t stop = first_only && end > begin ? begin + 1 : end;
    float sum[V] = {};
    if (c < cols)
        for (std::int64_t t = begin + group; t < stop; t += kInFlight * kRowGroups) {
            Packed<V, T> some[kInFlight];
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                const std::int64_t row = t + i * kRowGroups;
                if (row < stop) some[i] = load_packed<V>(x + (Bag ? texts.tokens[row] : row) * cols + c);
            }
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) {
                if (t + i * kRowGroups >= stop) break;
                float v[V];
                unpack(some[i], v);
#pragma unroll
                for (int j = 0; j < V; ++j) sum[j] += v[j];
            }
        }
#pragma unroll
    for (int j = 0; j < V; ++j) sums[group][lane * V + j] = sum[j];
    __syncthreads();  // all groups' sums are in shared memory
    if (group != 0 || c >= cols) return;
#pragma unroll
    for (int j = 0; j < V; ++j) {
        for (int g = 1; g < kRowGroups; ++g) sum[j] += sums[g][lane * V + j];
        if (stop > begin) sum[j] /= static_cast<float>(stop - begin);
    }
    drop<V>(dropout, b, c, sum);
    store_some<V>(out + b * cols + c, sum);
}

// Block (text, 32 V columns, kPoolRows tokens of the text): all tokens receive the same, or only the first
// receives something.
constexpr int kPoolRows = 64;
template <int V, class T, class In>
__global__ void __launch_bounds__(32 * kRowGroups)
    pool_backward_kernel(DeviceTexts texts, const In* dout, bool first_only, DropoutArgs dropout, T* dx,
                         std::int64_t cols) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const std::int64_t b = blockIdx.x, c = (static_cast<std::int64_t>(blockIdx.y) * 32 + lane) * V;
    const std::int64_t begin = texts.offsets[b], end = texts.offsets[b + 1];
    const std::int64_t first = begin + blockIdx.z * kPoolRows;
    if (c >= cols || first >= end) return;
    float v[V];
    load_some<V>(dout + b * cols + c, v);
    drop<V>(dropout, b, c, v);
    if (!first_only)
#pragma unroll
        for (float& x : v) x /= static_cast<float>(end - begin);
    const Packed<V, T> each = round_packed<T>(v), nothing{};
    const std::int64_t stop = min(first + kPoolRows, end);
    for (std::int64_t t = first + group; t < stop; t += kRowGroups)
        store_packed(dx + t * cols + c, first_only && t != begin ? nothing : each);
}

// A bound, so that planning needs no GPU: cub needs a few histograms and, on some cards, a second copy of
// keys and values.
std::int64_t sort_temp_bytes(std::int64_t entries) {
    return (std::int64_t{1} << 20) + 16 * entries;
}

// Checks the bound if there is a GPU. DeviceError if it does not hold.
void check_sort_temp(std::int64_t entries) {
    std::size_t needed = 0;
    std::int32_t* none = nullptr;
    check(cub::DeviceRadixSort::SortPairs(nullptr, needed, none, none, none, none, entries, 0, 32),
          "asking for the memory of sorting");
    if (static_cast<std::int64_t>(needed) > sort_temp_bytes(entries))
        throw DeviceError("GPU: sorting " + std::to_string(entries) + " tokens takes " +
                          std::to_string(needed) + " bytes, planned were " +
                          std::to_string(sort_temp_bytes(entries)));
}

}  // namespace

void EmbeddingOps::reserve(Arena& arena, const Workload& w) {
    if (!w.training) return;
    const std::int64_t entries = BatchTexts::entries(w);
    if (!arena.dry()) check_sort_temp(entries);
    sort_in_2T_ = arena.allocate("scratch/sort_in", DType::kI32, 2, entries);
    sort_out_2T_ = arena.allocate("scratch/sort_out", DType::kI32, 2, entries);
    sort_temp_ = arena.allocate("scratch/sort_temp", DType::kU8, 1, sort_temp_bytes(entries));
}

void EmbeddingOps::token_gradient(const DeviceTexts& texts, View rows, bool per_text, View dtable,
                                  bool accumulate) {
    if (!accumulate) context_.fill_zero(dtable);
    const std::int64_t count = texts.num_tokens, cols = dtable.cols;
    if (count == 0) return;
    std::int32_t* keys = sort_in_2T_.as<std::int32_t>();
    std::int32_t* values = keys + sort_in_2T_.cols;
    std::int32_t* sorted_keys = sort_out_2T_.as<std::int32_t>();
    std::int32_t* sorted_values = sorted_keys + sort_out_2T_.cols;
    keys_kernel<<<blocks_for(count, 256), 256, 0, context_.stream()>>>(texts, keys, values);
    check_launch("table gradient");
    std::size_t temp =
        static_cast<std::size_t>(sort_temp_.bytes());  // cub reports an error where it is too small
    const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(dtable.rows - 1, 1)));
    check(cub::DeviceRadixSort::SortPairs(sort_temp_.data, temp, keys, sorted_keys, values, sorted_values,
                                          count, 0, bits, context_.stream()),
          "sorting tokens");
    with_type(rows, [&](auto* in) {
        using T = std::remove_pointer_t<decltype(in)>;
        with_type(dtable, [&](auto* out) {
            with_width(cols, [&](auto width) {
                const dim3 grid(blocks_for(count, kRowGroups), blocks_for(cols, 32 * width()));
                token_gradient_kernel<width()><<<grid, 32 * kRowGroups, 0, context_.stream()>>>(
                    texts, sorted_keys, sorted_values, static_cast<const T*>(in), per_text, out, cols,
                    accumulate);
            });
        });
    });
    check_launch("table gradient");
}

void EmbeddingOps::position_gradient(const DeviceTexts& texts, View rows, std::int64_t position_base,
                                     View dtable, bool accumulate) {
    if (!accumulate) context_.fill_zero(dtable);
    if (texts.num_tokens == 0) return;
    const std::int64_t cols = dtable.cols;
    with_type(rows, [&](auto* in) {
        using T = std::remove_pointer_t<decltype(in)>;
        with_type(dtable, [&](auto* out) {
            with_width(cols, [&](auto width) {
                const dim3 grid(static_cast<unsigned>(texts.longest), blocks_for(cols, 32 * width()));
                position_gradient_kernel<width()><<<grid, 32 * kRowGroups, 0, context_.stream()>>>(
                    texts, static_cast<const T*>(in), position_base, out, cols, accumulate);
            });
        });
    });
    check_launch("position gradient");
}

void EmbeddingOps::embed_forward(const EmbedForward& op) {
    const DeviceTexts batch = texts_.get(op.tokens, op.offsets);
    if (batch.num_tokens == 0) return;
    with_type(op.out_TD, [&](auto* out) {
        using T = std::remove_pointer_t<decltype(out)>;
        with_width(op.out_TD.cols, [&](auto width) {
            embed_kernel<width()><<<blocks_for(batch.num_tokens, 8), 256, 0, context_.stream()>>>(
                batch, static_cast<const T*>(op.word_VD.data), static_cast<const T*>(op.position_PD.data),
                static_cast<const T*>(op.type_1D.data), op.position_base, out, op.out_TD.cols);
        });
    });
    check_launch("embedding forward");
}

void EmbeddingOps::embed_backward(const EmbedBackward& op) {
    const DeviceTexts batch = texts_.get(op.tokens, op.offsets);
    token_gradient(batch, op.dout_TD, false, op.dword_VD, op.accumulate);
    if (!op.dposition_PD.empty())
        position_gradient(batch, op.dout_TD, op.position_base, op.dposition_PD, op.accumulate);
    if (op.dtype_1D.empty()) return;
    if (batch.num_tokens > 0)
        column_sums_.add_rows(op.dout_TD.first(batch.num_tokens), op.dtype_1D, op.accumulate);
    else if (!op.accumulate)
        context_.fill_zero(op.dtype_1D);
}

void EmbeddingOps::pool_forward(const PoolForward& op) {
    const DeviceTexts batch = texts_.get(op.offsets);
    if (batch.num_texts == 0) return;
    with_type(op.x_TD, [&](auto* x) {
        using T = std::remove_pointer_t<decltype(x)>;
        with_type(op.out_BD, [&](auto* out) {
            with_width(op.out_BD.cols, [&](auto width) {
                const dim3 grid(static_cast<unsigned>(batch.num_texts),
                                blocks_for(op.out_BD.cols, 32 * width()));
                pool_kernel<width(), false><<<grid, 32 * kRowGroups, 0, context_.stream()>>>(
                    batch, static_cast<const T*>(x), op.pooling == Pooling::kCls, dropout_args(op.dropout),
                    out, op.out_BD.cols);
            });
        });
    });
    check_launch("pooling forward");
}

void EmbeddingOps::pool_backward(const PoolBackward& op) {
    const DeviceTexts batch = texts_.get(op.offsets);
    if (batch.num_tokens == 0) return;
    with_type(op.dx_TD, [&](auto* dx) {
        with_type(op.dout_BD, [&](auto* dout) {
            using In = std::remove_pointer_t<decltype(dout)>;
            with_width(op.dx_TD.cols, [&](auto width) {
                const dim3 grid(static_cast<unsigned>(batch.num_texts),
                                blocks_for(op.dx_TD.cols, 32 * width()),
                                blocks_for(batch.longest, kPoolRows));
                pool_backward_kernel<width()><<<grid, 32 * kRowGroups, 0, context_.stream()>>>(
                    batch, static_cast<const In*>(dout), op.pooling == Pooling::kCls,
                    dropout_args(op.dropout), dx, op.dx_TD.cols);
            });
        });
    });
    check_launch("pooling backward");
}

void EmbeddingOps::bag_forward(const BagForward& op) {
    const DeviceTexts batch = texts_.get(op.tokens, op.offsets);
    if (batch.num_texts == 0) return;
    with_type(op.out_BD, [&](auto* out) {
        using T = std::remove_pointer_t<decltype(out)>;
        with_width(op.out_BD.cols, [&](auto width) {
            const dim3 grid(static_cast<unsigned>(batch.num_texts), blocks_for(op.out_BD.cols, 32 * width()));
            pool_kernel<width(), true><<<grid, 32 * kRowGroups, 0, context_.stream()>>>(
                batch, static_cast<const T*>(op.word_VD.data), false, DropoutArgs{}, out, op.out_BD.cols);
        });
    });
    check_launch("bag forward");
}

void EmbeddingOps::bag_backward(const BagBackward& op) {
    token_gradient(texts_.get(op.tokens, op.offsets), op.dout_BD, true, op.dword_VD, op.accumulate);
}

}  // namespace elmo::cuda
