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

enum class Pooling { kMean, kCls };

// out[b] = dropout(mean of its tokens, or its first token). A text without tokens gives zeros.
struct PoolForward {
    View x_TD;
    Offsets offsets;
    Pooling pooling = Pooling::kMean;
    Dropout dropout;
    View out_BD;
};

struct PoolBackward {
    View dout_BD;
    Offsets offsets;
    Pooling pooling = Pooling::kMean;
    Dropout dropout;
    View dx_TD;
};

// out[b] = mean of word[token] over its tokens; zeros without tokens.
struct BagForward {
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View word_VD;
    View out_BD;
};

// As EmbedBackward's dword.
struct BagBackward {
    View dout_BD;
    std::span<const std::int32_t> tokens;
    Offsets offsets;
    View dword_VD;
    bool accumulate = false;
};

}  // namespace elmo
