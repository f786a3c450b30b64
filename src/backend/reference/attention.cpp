// Self-attention within each text. The backward computes the softmax again from q and k rather than from the
// stored lse, which may be FP32.
#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

namespace {

// softmax(scale q_t k^T + bias) of one token and head over the keys [begin, end) of its text.
struct Softmax {
    std::vector<double> weights;
    double lse = 0;
};

// One head's columns of the packed matrix.
struct Head {
    const Matrix& qkv;
    std::int64_t width, size, first;  // D, D / H, first column within q
    View bias_RH;
    bool fp16;

    double q(std::int64_t t, std::int64_t i) const { return qkv(t, first + i); }
    double k(std::int64_t t, std::int64_t i) const { return qkv(t, width + first + i); }
    double v(std::int64_t t, std::int64_t i) const { return qkv(t, 2 * width + first + i); }
    double scale() const { return 1.0 / std::sqrt(static_cast<double>(size)); }

    Softmax softmax(std::int64_t t, std::int64_t begin, std::int64_t end) const {
        Softmax result;
        for (std::int64_t key = begin; key < end; ++key) {
            double score = 0;
            for (std::int64_t i = 0; i < size; ++i) score += q(t, i) * k(key, i);
            const double bias = bias_RH.empty() ? 0 : load(bias_RH, relative_bucket(key - t), first / size);
            result.weights.push_back(fp16_or(fp16, score * scale()) + bias);
        }
        const double top = *std::max_element(result.weights.begin(), result.weights.end());
        double sum = 0;
        for (const double score : result.weights) sum += std::exp(score - top);
        result.lse = top + std::log(sum);
        for (double& weight : result.weights) weight = std::exp(weight - result.lse);
        return result;
    }
};

// body(head index, head, token, begin, end of its text) for every head and token.
template <class Body>
void for_each_query(const Matrix& qkv, const AttentionForward& op, const Body& body) {
    const Offsets offsets = op.offsets;
    const std::int64_t num_heads = op.num_heads;
    const std::int64_t width = qkv.cols / 3, size = width / num_heads;
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
        for (std::int64_t h = 0; h < num_heads; ++h)
            for (std::int64_t t = offsets[b]; t < offsets[b + 1]; ++t)
                body(h, Head{qkv, width, size, h * size, op.bias_RH, op.fp16}, t, std::int64_t{offsets[b]},
                     std::int64_t{offsets[b + 1]});
}

// body(token, row of exponents, first column, one past the last) for q, k and v of every token and head.
template <class Body>
void for_each_vector(const View& qkv_T3D, std::int64_t num_heads, const Body& body) {
    const std::int64_t size = qkv_T3D.cols / (3 * num_heads);
    for (std::int64_t t = 0; t < qkv_T3D.rows; ++t)
        for (std::int64_t n = 0; n < 3 * num_heads; ++n) body(t, n, n * size, (n + 1) * size);
}

std::uint8_t exponent_of(const View& qkv_T3D, std::int64_t t, std::int64_t first, std::int64_t last) {
    std::uint32_t largest = 0;
    for (std::int64_t c = first; c < last; ++c)
        largest = std::max(largest, magnitude_bits(static_cast<float>(load(qkv_T3D, t, c))));
    return qkv_exponent(largest);
}

void encode(const AttentionForward& op) {
    for_each_vector(op.qkv_T3D, op.num_heads,
                    [&](std::int64_t t, std::int64_t n, std::int64_t first, std::int64_t last) {
                        const std::uint8_t exponent = exponent_of(op.qkv_T3D, t, first, last);
                        op.exponents_NT.codes()[n * op.qkv_T3D.rows + t] = exponent;
                        for (std::int64_t c = first; c < last; ++c)
                            op.codes_T3D.codes()[t * op.qkv_T3D.cols + c] =
                                qkv_code(static_cast<float>(load(op.qkv_T3D, t, c)), exponent);
                    });
}

// qkv as its codes have it.
void round(const AttentionBackward& op) {
    for_each_vector(
        op.qkv_T3D, op.num_heads, [&](std::int64_t t, std::int64_t n, std::int64_t first, std::int64_t last) {
            const std::uint8_t exponent = op.codes_T3D.empty()
                                              ? exponent_of(op.qkv_T3D, t, first, last)
                                              : op.exponents_NT.codes()[n * op.qkv_T3D.rows + t];
            for (std::int64_t c = first; c < last; ++c) {
                const std::uint8_t code = op.codes_T3D.empty()
                                              ? qkv_code(static_cast<float>(load(op.qkv_T3D, t, c)), exponent)
                                              : op.codes_T3D.codes()[t * op.qkv_T3D.cols + c];
                store(op.qkv_T3D, t, c, qkv_of(code, exponent));
            }
        });
}

}  // namespace

void ReferenceBackend::attention_forward(const AttentionForward& op) {
    if (!op.codes_T3D.empty()) encode(op);
    const Matrix qkv(op.qkv_T3D);
    for_each_query(
        qkv, op, [&](std::int64_t h, const Head& head, std::int64_t t, std::int64_t begin, std::int64_t end) {
            const Softmax p = head.softmax(t, begin, end);
            if (!op.lse_TH.empty()) store(op.lse_TH, t, h, p.lse);
            for (std::int64_t i = 0; i < head.size; ++i) {
                double sum = 0;
                for (std::int64_t key = begin; key < end; ++key)
                    sum +=
                        fp16_or(op.fp16, p.weights[key - begin] *
                                             dropout_factor(op.dropout, t * op.num_heads + h, key - begin)) *
                        head.v(key, i);
                store(op.context_TD, t, head.first + i, fp16_or(op.fp16, sum));
            }
        });
}

void ReferenceBackend::attention_backward(const AttentionBackward& op) {
    if (!op.codes_T3D.empty() || op.rounds) round(op);
    if (op.again) attention_forward(op.forward());
    const Matrix qkv(op.qkv_T3D), dcontext(op.dcontext_TD);
    Matrix dqkv(qkv.rows, qkv.cols);
    Matrix dbias = op.dbias_RH.empty() ? Matrix(0, 0) : Matrix(op.dbias_RH);
    for_each_query(
        qkv, op.forward(),
        [&](std::int64_t h, const Head& head, std::int64_t t, std::int64_t begin, std::int64_t end) {
            const Softmax p = head.softmax(t, begin, end);
            std::vector<double> dweights;
            double mean = 0;  // of the gradient under the softmax weights
            for (std::int64_t key = begin; key < end; ++key) {
                const double factor = dropout_factor(op.dropout, t * op.num_heads + h, key - begin);
                const double dropped = fp16_or(op.fp16, p.weights[key - begin] * factor);
                double dweight = 0;
                for (std::int64_t i = 0; i < head.size; ++i) {
                    const double dout = dcontext(t, head.first + i);
                    dweight += dout * head.v(key, i);
                    dqkv(key, 2 * head.width + head.first + i) += dropped * dout;
                }
                dweights.push_back(fp16_or(op.fp16, dweight) * factor);
                mean += p.weights[key - begin] * dweights.back();
            }
            for (std::int64_t key = begin; key < end; ++key) {
                const double dbiased = p.weights[key - begin] * (dweights[key - begin] - mean);
                const double dscore = fp16_or(op.fp16, dbiased * head.scale());
                if (!op.dbias_RH.empty()) dbias(relative_bucket(key - t), h) += dbiased;
                for (std::int64_t i = 0; i < head.size; ++i) {
                    dqkv(t, head.first + i) += dscore * head.k(key, i);
                    dqkv(key, head.width + head.first + i) += dscore * head.q(t, i);
                }
            }
        });
    if (op.fp16) round_to_fp16(dqkv);
    dqkv.store_to(op.dqkv_T3D);
    if (!op.dbias_RH.empty()) dbias.store_to(op.dbias_RH);
    if (!op.qkv_dbias_1N.empty()) column_sums(op.dqkv_T3D, op.qkv_dbias_1N, op.accumulate);
}

}  // namespace elmo
