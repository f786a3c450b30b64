// What the op structs share. Legend of the shape suffixes used in every op:
//   B texts of a batch, T tokens of a batch (no padding), D width, K and N widths of a linear layer,
//   H attention heads, V vocabulary, P positions, L labels.
// All views are row-major and dense. An empty view means "not wanted" where a contract allows it.
// Numbers: storage as the view's dtype says, arithmetic in FP32 or wider, rounding to nearest even on
// the way out unless the contract says stochastic.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "numerics/philox.h"
#include "tensor/view.h"

namespace elmo {

// Inverted dropout by addressed noise: element (row, column) of the view it is applied to is dropped
// when noise16(key, row, column) < round(p * 65536), and scaled by 65536 / (65536 - that) otherwise.
struct Dropout {
    float p = 0;
    NoiseKey key;
    std::uint32_t threshold() const { return static_cast<std::uint32_t>(p * 65536.0f + 0.5f); }
    float scale() const { return 65536.0f / (65536.0f - static_cast<float>(threshold())); }
};

// Every op struct lists its views once: visit_views(op, visit) calls visit(view, view, ...) with all of them,
// inputs and outputs. Code that moves, guards or checks the tensors of any op needs no other list.
template <class T, class Op>
concept OpIs = std::same_as<std::remove_const_t<T>, Op>;

// Where each text begins in the packed tokens: B + 1 entries, the last is T.
using Offsets = std::span<const std::int32_t>;

}  // namespace elmo
