// Attention for every storage, head size and text length, where speed does not matter: one warp for each
// token and head, plain FP32 loops, each lane a key (or query) of 32 at a time. Sums have one order, so
// results are the same each time. Only stored results are rounded below FP32.
#pragma once

#include "backend/cuda/attention/long.cuh"
#include "backend/cuda/device/as_fp16.cuh"

namespace elmo::cuda {

inline constexpr int kSimpleWarps = 4;  // of a block
inline constexpr int kSimpleSums = 4;   // columns a lane sums at a time

// The token, head and text of a warp.
struct WarpOfToken {
    std::int64_t token, begin, end;
    int head;
    bool active;

    __device__ __forceinline__ WarpOfToken(const AttentionShape& shape, std::int64_t num_texts,
                                           std::int64_t num_tokens) {
        const std::int64_t item = blockIdx.x * std::int64_t{kSimpleWarps} + threadIdx.x / 32;
        token = item / shape.heads;
        head = static_cast<int>(item % shape.heads);
        active = token < num_tokens;
        begin = end = 0;
        if (!active) return;
        std::int64_t low = 0, high = num_texts;  // offsets[low] <= token < offsets[high]
        while (high - low > 1) {
            const std::int64_t middle = (low + high) / 2;
            (shape.offsets[middle] <= token ? low : high) = middle;
        }
        begin = shape.offsets[low];
        end = shape.offsets[low + 1];
    }
};

// Products are added in order. Rows of heads begin at multiples of their size.
template <class T>
__device__ __forceinline__ float dot_of(const T* a, const T* b, std::int64_t size) {
    float sum = 0;
    if (sizeof(T) == 4 && size % 4 == 0) {
        for (std::int64_t i = 0; i < size; i += 4) {
            const float4 x = *reinterpret_cast<const float4*>(a + i),
                         y = *reinterpret_cast<const float4*>(b + i);
            sum += x.x * y.x;
            sum += x.y * y.y;
            sum += x.z * y.z;
            sum += x.w * y.w;
        }
        return sum;
    }
    for (std::int64_t i = 0; i < size; ++i) sum += load_float(a, i) * load_float(b, i);
    return sum;
}

// A function of a row that is asked for the same rows again: up to 32 rows, of which each lane has one, are
// computed once.
template <class Of>
struct Remembered {
    const Of& of;
    std::int64_t begin, end;
    float mine;
    __device__ __forceinline__ Remembered(const Of& function, std::int64_t first, std::int64_t last, int lane)
        : of(function), begin(first), end(last), mine(0) {
        if (last - first <= 32 && first + lane < last) mine = function(first + lane);
    }
    // Of a row of this lane.
    __device__ __forceinline__ float operator()(std::int64_t row) const {
        return end - begin <= 32 ? mine : of(row);
    }
};

__device__ __forceinline__ float sum_of_warp(float x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kWarp, x, lanes);
    return x;
}

__device__ __forceinline__ float kept_factor(const DropoutArgs& d, std::int64_t row, std::int64_t column) {
    if (d.threshold == 0) return 1.0f;
    return noise16(d.key, row, column) < d.threshold ? 0.0f : d.scale;
}

// to[c] = factor * sum over rows [begin, end) of weight(row) * from[row, c], for c in [0, size). Lanes give
// the weights of 32 rows at a time, which are computed again for every 128 columns.
template <class T, class Weight>
__device__ __forceinline__ void weighted_rows(T* to, const T* from, std::int64_t stride, std::int64_t size,
                                              std::int64_t begin, std::int64_t end, int lane, float factor,
                                              const Weight& weight) {
    for (std::int64_t c0 = 0; c0 < size; c0 += 32 * kSimpleSums) {
        float sums[kSimpleSums] = {};
        for (std::int64_t r0 = begin; r0 < end; r0 += 32) {
            const float mine = r0 + lane < end ? weight(r0 + lane) : 0.0f;
            const int rows = static_cast<int>(end - r0 < 32 ? end - r0 : 32);
            for (int r = 0; r < rows; ++r) {
                const float w = __shfl_sync(kWarp, mine, r);
                for (int i = 0; i < kSimpleSums; ++i) {
                    const std::int64_t c = c0 + 32 * i + lane;
                    if (c < size) sums[i] += w * load_float(from, (r0 + r) * stride + c);
                }
            }
        }
        for (int i = 0; i < kSimpleSums; ++i) {
            const std::int64_t c = c0 + 32 * i + lane;
            if (c < size) store_float(to, c, sums[i] * factor);
        }
    }
}

// The scaled score of a query and a key of one head.
template <class T>
__device__ __forceinline__ float score_of(const AttentionShape& shape, const T* query, const T* key,
                                          std::int64_t size, int head, std::int64_t key_minus_query) {
    const float score = dot_of(query, key, size);
    const float bias = shape.bias == nullptr ? 0.0f : bias_of(shape, head, key_minus_query);
    if constexpr (std::is_same_v<T, FloatAsFp16>)
        return as_operand<T>(score * shape.scale) + bias * shape.scale;
    else
        return (shape.bias == nullptr ? score : score + bias) * shape.scale;
}

// The gradients of scores are scaled after they are multiplied, and with FP16 products before.
template <class T>
__device__ __forceinline__ float late_scale(const AttentionShape& shape) {
    return std::is_same_v<T, FloatAsFp16> ? 1.0f : shape.scale;
}
template <class T>
__device__ __forceinline__ float early_scale(const AttentionShape& shape) {
    return std::is_same_v<T, FloatAsFp16> ? shape.scale : 1.0f;
}

template <class T>
struct SimpleArgs {
    AttentionShape shape;
    std::int64_t num_texts, num_tokens, size;  // size: of a head
    const T *dcontext = nullptr, *qkv = nullptr;
    T* out = nullptr;            // context or dqkv
    const float* lse = nullptr;  // of the backward
    float* delta = nullptr;      // of the backward
    float* lse_out = nullptr;    // of the forward; may be null
};

template <class T>
__global__ void __launch_bounds__(32 * kSimpleWarps) attention_forward_simple(const SimpleArgs<T> args) {
    const AttentionShape& shape = args.shape;
    const WarpOfToken at(shape, args.num_texts, args.num_tokens);
    if (!at.active) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t stride = 3 * shape.width, first = at.head * args.size;
    const std::int64_t noise_row = at.token * shape.heads + at.head;
    const T* query = args.qkv + at.token * stride + first;
    const T* keys = args.qkv + shape.width + first;
    const auto score_again = [&](std::int64_t key) {
        return score_of(shape, query, keys + key * stride, args.size, at.head, key - at.token);
    };
    const Remembered score(score_again, at.begin, at.end, lane);
    float top = -INFINITY;
    for (std::int64_t key = at.begin + lane; key < at.end; key += 32) top = fmaxf(top, score(key));
    for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(kWarp, top, lanes));
    float total = 0;
    for (std::int64_t key = at.begin + lane; key < at.end; key += 32) total += expf(score(key) - top);
    total = sum_of_warp(total);
    if (args.lse_out != nullptr && lane == 0) args.lse_out[noise_row] = top + logf(total);
    weighted_rows(args.out + at.token * shape.width + first, args.qkv + 2 * shape.width + first, stride,
                  args.size, at.begin, at.end, lane, 1.0f, [&](std::int64_t key) {
                      return as_operand<T>(expf(score(key) - top) / total *
                                           kept_factor(shape.dropout, noise_row, key - at.begin));
                  });
}

// delta here is the sum of weight * dP, which needs no context.
template <class T>
__global__ void __launch_bounds__(32 * kSimpleWarps) attention_dq_simple(const SimpleArgs<T> args) {
    const AttentionShape& shape = args.shape;
    const WarpOfToken at(shape, args.num_texts, args.num_tokens);
    if (!at.active) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t stride = 3 * shape.width, first = at.head * args.size;
    const std::int64_t noise_row = at.token * shape.heads + at.head;
    const T* query = args.qkv + at.token * stride + first;
    const T* keys = args.qkv + shape.width + first;
    const T* values = keys + shape.width;
    const T* dcontext = args.dcontext + at.token * shape.width + first;
    const float lse = args.lse[noise_row];
    const auto weight_again = [&](std::int64_t key) {
        return expf(score_of(shape, query, keys + key * stride, args.size, at.head, key - at.token) - lse);
    };
    const auto dweight_again = [&](std::int64_t key) {
        return as_operand<T>(dot_of(dcontext, values + key * stride, args.size)) *
               kept_factor(shape.dropout, noise_row, key - at.begin);
    };
    const Remembered weight(weight_again, at.begin, at.end, lane);
    const Remembered dweight(dweight_again, at.begin, at.end, lane);
    float delta = 0;
    for (std::int64_t key = at.begin + lane; key < at.end; key += 32) delta += weight(key) * dweight(key);
    delta = sum_of_warp(delta);
    if (lane == 0) args.delta[noise_row] = delta;
    weighted_rows(args.out + at.token * stride + first, keys, stride, args.size, at.begin, at.end, lane,
                  late_scale<T>(shape), [&](std::int64_t key) {
                      return as_operand<T>(weight(key) * (dweight(key) - delta) * early_scale<T>(shape));
                  });
}

// The warp's token is a key.
template <class T>
__global__ void __launch_bounds__(32 * kSimpleWarps) attention_dkv_simple(const SimpleArgs<T> args) {
    const AttentionShape& shape = args.shape;
    const WarpOfToken at(shape, args.num_texts, args.num_tokens);
    if (!at.active) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t stride = 3 * shape.width, first = at.head * args.size;
    const T* queries = args.qkv + first;
    const T* key = args.qkv + at.token * stride + shape.width + first;
    const T* value = key + shape.width;
    const T* dcontexts = args.dcontext + first;
    const auto noise_row = [&](std::int64_t query) { return query * shape.heads + at.head; };
    const auto weight_again = [&](std::int64_t query) {
        return expf(score_of(shape, queries + query * stride, key, args.size, at.head, at.token - query) -
                    args.lse[noise_row(query)]);
    };
    const Remembered weight(weight_again, at.begin, at.end, lane);
    const auto kept = [&](std::int64_t query) {
        return kept_factor(shape.dropout, noise_row(query), at.token - at.begin);
    };
    T* to = args.out + at.token * stride + shape.width + first;
    weighted_rows(to, queries, stride, args.size, at.begin, at.end, lane, late_scale<T>(shape),
                  [&](std::int64_t query) {
                      const float dot = dot_of(dcontexts + query * shape.width, value, args.size);
                      const float dweight = as_operand<T>(dot) * kept(query);
                      return as_operand<T>(weight(query) * (dweight - args.delta[noise_row(query)]) *
                                           early_scale<T>(shape));
                  });
    weighted_rows(to + shape.width, dcontexts, shape.width, args.size, at.begin, at.end, lane, 1.0f,
                  [&](std::int64_t query) { return as_operand<T>(weight(query) * kept(query)); });
}

}  // namespace elmo::cuda
