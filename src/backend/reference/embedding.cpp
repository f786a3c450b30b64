// Token embeddings, pooling, the bag of tokens.
#include <algorithm>

#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

void ReferenceBackend::embed_forward(const EmbedForward& op) {
    for (std::size_t b = 0; b + 1 < op.offsets.size(); ++b)
        for (std::int64_t t = op.offsets[b]; t < op.offsets[b + 1]; ++t)
            for (std::int64_t d = 0; d < op.out_TD.cols; ++d) {
                double sum = load(op.word_VD, op.tokens[t], d);
                if (!op.position_PD.empty())
                    sum += load(op.position_PD, op.position_base + t - op.offsets[b], d);
                if (!op.type_1D.empty()) sum += load(op.type_1D, 0, d);
                store(op.out_TD, t, d, sum);
            }
}

void ReferenceBackend::embed_backward(const EmbedBackward& op) {
    Matrix dword = gradient_start(op.dword_VD, op.accumulate);
    Matrix dposition = gradient_start(op.dposition_PD, op.accumulate);
    Matrix dtype = gradient_start(op.dtype_1D, op.accumulate);
    for (std::size_t b = 0; b + 1 < op.offsets.size(); ++b)
        for (std::int64_t t = op.offsets[b]; t < op.offsets[b + 1]; ++t)
            for (std::int64_t d = 0; d < op.dout_TD.cols; ++d) {
                const double dout = load(op.dout_TD, t, d);
                dword(op.tokens[t], d) += dout;
                if (!op.dposition_PD.empty()) dposition(op.position_base + t - op.offsets[b], d) += dout;
                if (!op.dtype_1D.empty()) dtype(0, d) += dout;
            }
    dword.store_to(op.dword_VD);
    if (!op.dposition_PD.empty()) dposition.store_to(op.dposition_PD);
    if (!op.dtype_1D.empty()) dtype.store_to(op.dtype_1D);
}

void ReferenceBackend::pool_forward(const PoolForward& op) {
    for (std::int64_t b = 0; b < op.out_BD.rows; ++b) {
        const std::int64_t begin = op.offsets[b], count = op.offsets[b + 1] - begin;
        const std::int64_t used = op.pooling == Pooling::kCls ? std::min<std::int64_t>(count, 1) : count;
        for (std::int64_t d = 0; d < op.out_BD.cols; ++d) {
            double sum = 0;
            for (std::int64_t t = 0; t < used; ++t) sum += load(op.x_TD, begin + t, d);
            const double pooled = used == 0 ? 0.0 : sum / static_cast<double>(used);
            store(op.out_BD, b, d, pooled * dropout_factor(op.dropout, b, d));
        }
    }
}

void ReferenceBackend::pool_backward(const PoolBackward& op) {
    for (std::int64_t b = 0; b < op.dout_BD.rows; ++b) {
        const std::int64_t begin = op.offsets[b], count = op.offsets[b + 1] - begin;
        for (std::int64_t t = 0; t < count; ++t)
            for (std::int64_t d = 0; d < op.dout_BD.cols; ++d) {
                const double dpooled = load(op.dout_BD, b, d) * dropout_factor(op.dropout, b, d);
                const double share =
                    op.pooling == Pooling::kMean ? 1.0 / static_cast<double>(count) : (t == 0 ? 1.0 : 0.0);
                store(op.dx_TD, begin + t, d, dpooled * share);
            }
    }
}

void ReferenceBackend::bag_forward(const BagForward& op) {
    for (std::int64_t b = 0; b < op.out_BD.rows; ++b) {
        const std::int64_t begin = op.offsets[b], count = op.offsets[b + 1] - begin;
        for (std::int64_t d = 0; d < op.out_BD.cols; ++d) {
            double sum = 0;
            for (std::int64_t t = 0; t < count; ++t) sum += load(op.word_VD, op.tokens[begin + t], d);
            store(op.out_BD, b, d, count == 0 ? 0.0 : sum / static_cast<double>(count));
        }
    }
}

void ReferenceBackend::bag_backward(const BagBackward& op) {
    Matrix dword = gradient_start(op.dword_VD, op.accumulate);
    for (std::int64_t b = 0; b < op.dout_BD.rows; ++b) {
        const std::int64_t begin = op.offsets[b], count = op.offsets[b + 1] - begin;
        for (std::int64_t t = 0; t < count; ++t)
            for (std::int64_t d = 0; d < op.dout_BD.cols; ++d)
                dword(op.tokens[begin + t], d) += load(op.dout_BD, b, d) / static_cast<double>(count);
    }
    dword.store_to(op.dword_VD);
}

}  // namespace elmo
