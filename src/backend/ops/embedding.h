// Token embeddings, pooling and the bag of tokens.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

// out[t] = word[token] + position[position_base + place in its text] + type[0]. position and type may be
// empty. Tokens and positions are in range: the model checks before.
struct EmbedForward {
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View word_VD, position_PD, type_1D;
    std::int64_t position_base = 0;
    View out_TD;
};
template <OpIs<EmbedForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.word_VD, op.position_PD, op.type_1D, op.out_TD);
}

// Dense gradients of the tables: zero (or, with `accumulate`, unchanged) in rows that no token names.
// Each row is summed in the order of the tokens: deterministic.
struct EmbedBackward {
    View dout_TD;
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View dword_VD, dposition_PD, dtype_1D;  // the latter two may be empty
    std::int64_t position_base = 0;
    bool accumulate = false;
};
template <OpIs<EmbedBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dout_TD, op.dword_VD, op.dposition_PD, op.dtype_1D);
}

enum class Pooling { kMean, kCls };

// out[b] = dropout(mean of its tokens, or its first token). A text without tokens gives zeros.
struct PoolForward {
    View x_TD;
    Offsets offsets;
    Pooling pooling = Pooling::kMean;
    Dropout dropout;
    View out_BD;
};
template <OpIs<PoolForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_TD, op.out_BD);
}

struct PoolBackward {
    View dout_BD;
    Offsets offsets;
    Pooling pooling = Pooling::kMean;
    Dropout dropout;
    View dx_TD;
};
template <OpIs<PoolBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dout_BD, op.dx_TD);
}

// out[b] = mean of word[token] over its tokens; zeros without tokens.
struct BagForward {
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View word_VD;
    View out_BD;
};
template <OpIs<BagForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.word_VD, op.out_BD);
}

// As EmbedBackward's dword.
struct BagBackward {
    View dout_BD;
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View dword_VD;
    bool accumulate = false;
};
template <OpIs<BagBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dout_BD, op.dword_VD);
}

}  // namespace elmo
