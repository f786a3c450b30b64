// Attention of the CPU backend: one text and head at a time, its queries, keys and values in FP32 scratch.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/dropout.h"
#include "backend/cpu/loops/math.h"
#include "backend/cpu/scratch.h"
#include "base/clones.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

// Sixteen FP32 numbers that the compiler keeps in registers; loaded and stored at any address.
using Lanes = float __attribute__((vector_size(64)));
constexpr std::int64_t kLanes = 16;

// Into a reference: how a function returns so wide a vector depends on the instruction set; GCC warns.
inline void load(const float* from, Lanes& lanes) {
    __builtin_memcpy(&lanes, from, sizeof(lanes));
}
inline void store(const Lanes& lanes, float* to) {
    __builtin_memcpy(to, &lanes, sizeof(lanes));
}

// c[m,n] = a[m,k] b[k,n], all dense: a strip of 32 columns of one row of c stays in registers. The matrices
// are at most a few hundred wide, too small for a library call each.
ELMO_CLONES void multiply(const float* __restrict a, const float* __restrict b, float* __restrict c,
                          std::int64_t m, std::int64_t n, std::int64_t k) {
    constexpr std::int64_t kStrip = 32;
    for (std::int64_t i = 0; i < m; ++i) {
        std::int64_t j = 0;
        for (; j + kStrip <= n; j += kStrip) {
            Lanes low = {}, high = {}, left, right;
            for (std::int64_t p = 0; p < k; ++p) {
                load(b + p * n + j, left);
                load(b + p * n + j + kLanes, right);
                low += a[i * k + p] * left;
                high += a[i * k + p] * right;
            }
            store(low, c + i * n + j);
            store(high, c + i * n + j + kLanes);
        }
        if (j == n) continue;
        float* row = c + i * n;
        for (std::int64_t r = j; r < n; ++r) row[r] = 0;
        for (std::int64_t p = 0; p < k; ++p) {
            const float factor = a[i * k + p];
            for (std::int64_t r = j; r < n; ++r) row[r] += factor * b[p * n + r];
        }
    }
}

ELMO_CLONES void transpose_head(const float* __restrict from, float* __restrict to, std::int64_t rows,
                                std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
}

ELMO_CLONES void scale_all(float* __restrict x, float factor, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

ELMO_CLONES void exp_row(float* __restrict x, float shift, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] = exp_fast(x[i] - shift);
}

// d_score = p * (d_p - delta) * scale
ELMO_CLONES void softmax_backward_row(const float* __restrict p, float* __restrict dp, float delta,
                                      float scale, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) dp[i] = p[i] * (dp[i] - delta) * scale;
}

ELMO_CLONES void add_all(float* __restrict x, const float* __restrict more, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] += more[i];
}

// Scores [n, n] of one head from its queries and transposed keys. Queries become scaled; with FP16 products
// the scores are, and rounded.
void scores(bool fp16, float* q, const float* kt, float scale, float* p, std::int64_t n, std::int64_t size) {
    if (!fp16) scale_all(q, scale, n * size);
    multiply(q, kt, p, n, n, size);
    if (!fp16) return;
    scale_all(p, scale, n * n);
    round_to_fp16(p, n * n);
}

// Scores [n, n] of one head get their bias. `by_distance` has room for 2 n numbers.
void add_bias(const View& bias_RH, std::int64_t head, std::int64_t n, float* by_distance, float* scores) {
    for (std::int64_t i = 0; i < 2 * n - 1; ++i)
        load_floats(bias_RH, relative_bucket(i - (n - 1)) * bias_RH.cols + head, by_distance + i, 1);
    for (std::int64_t i = 0; i < n; ++i) add_all(scores + i * n, by_distance + n - 1 - i, n);
}

// by_bucket += gradients of scores [n, n], summed by distance first.
void add_bias_gradient(const float* dscores, std::int64_t n, float* by_distance, float* by_bucket) {
    std::fill(by_distance, by_distance + 2 * n - 1, 0.0f);
    for (std::int64_t i = 0; i < n; ++i) add_all(by_distance + n - 1 - i, dscores + i * n, n);
    for (std::int64_t i = 0; i < 2 * n - 1; ++i) by_bucket[relative_bucket(i - (n - 1))] += by_distance[i];
}

// Columns [column, column + size) of rows [begin, begin + n) of a matrix, dense in `to`.
void gather(const View& from, std::int64_t begin, std::int64_t n, std::int64_t column, std::int64_t size,
            float* to) {
    for (std::int64_t i = 0; i < n; ++i)
        load_floats(from, (begin + i) * from.cols + column, to + i * size, size);
}
void scatter(const float* from, std::int64_t begin, std::int64_t n, std::int64_t column, std::int64_t size,
             const View& to) {
    for (std::int64_t i = 0; i < n; ++i)
        store_floats(from + i * size, to, (begin + i) * to.cols + column, size);
}

ELMO_CLONES std::uint8_t exponent_of(const float* __restrict x, std::int64_t count) {
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
    return qkv_exponent(largest);
}
ELMO_CLONES void encode(const float* __restrict x, std::uint8_t exponent, std::uint8_t* __restrict codes,
                        std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) codes[i] = qkv_code(x[i], exponent);
}
ELMO_CLONES void decode(const std::uint8_t* __restrict codes, std::uint8_t exponent, float* __restrict x,
                        std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] = qkv_of(codes[i], exponent);
}

}  // namespace

// body(token, row of exponents, first column, room for its numbers, room for its codes) for q, k and v of
// every token and head.
template <class Body>
void CpuBackend::for_each_vector(const View& qkv_T3D, std::int64_t heads, const Body& body) {
    const std::int64_t size = qkv_T3D.cols / (3 * heads);
    parallel_ranges(qkv_T3D.rows, 64, [&](std::int64_t begin, std::int64_t end) {
        ScratchCutter cut(thread_scratch(5 * size + 256));
        float* x = cut.take<float>(size);
        auto* codes = cut.take<std::uint8_t>(size);
        for (std::int64_t t = begin; t < end; ++t)
            for (std::int64_t n = 0; n < 3 * heads; ++n) body(t, n, n * size, x, codes);
    });
}

void CpuBackend::attention_encode(const AttentionForward& op) {
    const std::int64_t rows = op.qkv_T3D.rows, cols = op.qkv_T3D.cols, size = cols / (3 * op.num_heads);
    for_each_vector(op.qkv_T3D, op.num_heads,
                    [&](std::int64_t t, std::int64_t n, std::int64_t first, float* x, std::uint8_t*) {
                        load_floats(op.qkv_T3D, t * cols + first, x, size);
                        const std::uint8_t exponent = exponent_of(x, size);
                        op.exponents_NT.codes()[n * rows + t] = exponent;
                        encode(x, exponent, op.codes_T3D.codes() + t * cols + first, size);
                    });
}

void CpuBackend::attention_round(const AttentionBackward& op) {
    const std::int64_t rows = op.qkv_T3D.rows, cols = op.qkv_T3D.cols, size = cols / (3 * op.num_heads);
    for_each_vector(op.qkv_T3D, op.num_heads,
                    [&](std::int64_t t, std::int64_t n, std::int64_t first, float* x, std::uint8_t* codes) {
                        const std::int64_t at = t * cols + first;
                        if (op.codes_T3D.empty()) {
                            load_floats(op.qkv_T3D, at, x, size);
                            const std::uint8_t exponent = exponent_of(x, size);
                            encode(x, exponent, codes, size);
                            decode(codes, exponent, x, size);
                        } else {
                            decode(op.codes_T3D.codes() + at, op.exponents_NT.codes()[n * rows + t], x, size);
                        }
                        store_floats(x, op.qkv_T3D, at, size);
                    });
}

void CpuBackend::attention_forward(const AttentionForward& op) {
    if (!op.codes_T3D.empty()) attention_encode(op);
    const std::int64_t width = op.context_TD.cols, heads = op.num_heads, size = width / heads;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    const std::int64_t texts = static_cast<std::int64_t>(op.offsets.size()) - 1;
    parallel_for(texts * heads, [&](std::int64_t item) {
        const std::int64_t text = item / heads, head = item % heads;
        const std::int64_t begin = op.offsets[text], n = op.offsets[text + 1] - begin;
        if (n == 0) return;
        ScratchCutter cut(thread_scratch((5 * n * size + n * n + noise_row_capacity(n) + 256) * 4 +
                                         (op.bias_RH.empty() ? 0 : bias_row_bytes(n))));
        float* q = cut.take<float>(n * size);
        float* k = cut.take<float>(n * size);
        float* v = cut.take<float>(n * size);
        float* kt = cut.take<float>(n * size);
        float* p = cut.take<float>(n * n);
        float* out = cut.take<float>(n * size);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(n));
        gather(op.qkv_T3D, begin, n, head * size, size, q);
        gather(op.qkv_T3D, begin, n, width + head * size, size, k);
        gather(op.qkv_T3D, begin, n, 2 * width + head * size, size, v);
        transpose_head(k, kt, n, size);
        scores(op.fp16, q, kt, scale, p, n, size);
        if (!op.bias_RH.empty()) add_bias(op.bias_RH, head, n, cut.take<float>(2 * n), p);
        for (std::int64_t i = 0; i < n; ++i) {
            float* row = p + i * n;
            const float largest = *std::max_element(row, row + n);
            exp_row(row, largest, n);
            float sum = 0;
            for (std::int64_t j = 0; j < n; ++j) sum += row[j];
            scale_all(row, 1.0f / sum, n);
            if (!op.lse_TH.empty())
                op.lse_TH.as<float>()[(begin + i) * heads + head] = largest + std::log(sum);
            apply_dropout(op.dropout, (begin + i) * heads + head, row, noise, n);
        }
        if (op.fp16) round_to_fp16(p, n * n);
        multiply(p, v, out, n, size, n);
        if (op.fp16) round_to_fp16(out, n * size);
        scatter(out, begin, n, head * size, size, op.context_TD);
    });
}

void CpuBackend::attention_backward(const AttentionBackward& op) {
    if (!op.codes_T3D.empty() || op.rounds) attention_round(op);
    if (op.again) attention_forward(op.forward());
    attention_gradients(op);
    if (!op.qkv_dbias_1N.empty()) column_sums(op.dqkv_T3D, op.qkv_dbias_1N, op.accumulate);
}

void CpuBackend::attention_gradients(const AttentionBackward& op) {
    const std::int64_t width = op.context_TD.cols, heads = op.num_heads, size = width / heads;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    const std::int64_t texts = static_cast<std::int64_t>(op.offsets.size()) - 1;
    const bool biased = !op.bias_RH.empty();
    // dbias, where it is wanted, gets a number per bucket added.
    const auto backward_of = [&](std::int64_t text, std::int64_t head, float* dbias) {
        const std::int64_t begin = op.offsets[text], n = op.offsets[text + 1] - begin;
        if (n == 0) return;
        ScratchCutter cut(thread_scratch((8 * n * size + 4 * n * n + noise_row_capacity(n) + 512) * 4 +
                                         (biased ? bias_row_bytes(n) : 0)));
        float* q = cut.take<float>(n * size);
        float* k = cut.take<float>(n * size);
        float* v = cut.take<float>(n * size);
        float* t = cut.take<float>(n * size);  // a transposed operand, or a result on its way out
        float* dout = cut.take<float>(n * size);
        float* p = cut.take<float>(n * n);
        float* pt = cut.take<float>(n * n);
        float* dp = cut.take<float>(n * n);
        float* dropped = cut.take<float>(n * n);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(n));
        float* by_distance = biased ? cut.take<float>(2 * n) : nullptr;
        gather(op.qkv_T3D, begin, n, head * size, size, q);
        gather(op.qkv_T3D, begin, n, width + head * size, size, k);
        gather(op.qkv_T3D, begin, n, 2 * width + head * size, size, v);
        gather(op.dcontext_TD, begin, n, head * size, size, dout);
        // The attention weights again, from the scores and their log sums.
        transpose_head(k, t, n, size);
        scores(op.fp16, q, t, scale, p, n, size);
        if (biased) add_bias(op.bias_RH, head, n, by_distance, p);
        for (std::int64_t i = 0; i < n; ++i)
            exp_row(p + i * n, op.lse_TH.as<float>()[(begin + i) * heads + head], n);
        std::memcpy(dropped, p, static_cast<std::size_t>(n * n) * sizeof(float));
        for (std::int64_t i = 0; i < n; ++i)
            apply_dropout(op.dropout, (begin + i) * heads + head, dropped + i * n, noise, n);
        // dv = dropped^T dout
        if (op.fp16) round_to_fp16(dropped, n * n);
        transpose_head(dropped, pt, n, n);
        multiply(pt, dout, t, n, size, n);
        if (op.fp16) round_to_fp16(t, n * size);
        scatter(t, begin, n, 2 * width + head * size, size, op.dqkv_T3D);
        // dp = dropout(dout v^T); dscore = p (dp - sum(p dp))
        transpose_head(v, t, n, size);
        multiply(dout, t, dp, n, n, size);
        if (op.fp16) round_to_fp16(dp, n * n);
        for (std::int64_t i = 0; i < n; ++i) {
            apply_dropout(op.dropout, (begin + i) * heads + head, dp + i * n, noise, n);
            float delta = 0;
            for (std::int64_t j = 0; j < n; ++j) delta += p[i * n + j] * dp[i * n + j];
            softmax_backward_row(p + i * n, dp + i * n, delta, 1.0f, n);
        }
        if (dbias != nullptr) add_bias_gradient(dp, n, by_distance, dbias);
        // q was scaled: dq = (dscore k) * scale, dk = dscore^T (q * scale). With FP16 products dscore is.
        if (op.fp16) {
            scale_all(dp, scale, n * n);
            round_to_fp16(dp, n * n);
        }
        multiply(dp, k, t, n, size, n);
        if (op.fp16)
            round_to_fp16(t, n * size);
        else
            scale_all(t, scale, n * size);
        scatter(t, begin, n, head * size, size, op.dqkv_T3D);
        transpose_head(dp, pt, n, n);
        multiply(pt, q, t, n, size, n);
        if (op.fp16) round_to_fp16(t, n * size);
        scatter(t, begin, n, width + head * size, size, op.dqkv_T3D);
    };
    if (op.dbias_RH.empty()) {
        parallel_for(texts * heads,
                     [&](std::int64_t item) { backward_of(item / heads, item % heads, nullptr); });
        return;
    }
    // Text t adds to slice t mod kSlices of its head; slices are added in order.
    assert(shared_scratch_.bytes() >= bias_slice_bytes(heads));
    float* slices = static_cast<float*>(shared_scratch_.data);
    parallel_for(kSlices * heads, [&](std::int64_t item) {
        float* sums = slices + item * kRelativeBuckets;
        std::fill(sums, sums + kRelativeBuckets, 0.0f);
        for (std::int64_t text = item / heads; text < texts; text += kSlices)
            backward_of(text, item % heads, sums);
    });
    for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t r = 0; r < kRelativeBuckets; ++r) {
            float sum = 0;
            for (std::int64_t slice = 0; slice < kSlices; ++slice)
                sum += slices[(slice * heads + head) * kRelativeBuckets + r];
            op.dbias_RH.as<float>()[r * heads + head] += sum;
        }
}

}  // namespace elmo::cpu
