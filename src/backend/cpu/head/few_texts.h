// Logits of few texts on the calling thread. There the time to read W counts, not the products: weights are
// decoded in registers, straight from where they are stored, and never written.
#pragma once

#include <cstdint>

#include "tensor/view.h"

namespace elmo::cpu {

inline constexpr std::int64_t kFewTexts = 4;  // beyond that a product of matrices takes less time

// Floats of one text as staged.
constexpr std::int64_t staged_width(std::int64_t width) {
    return (width + 63) / 64 * 64;
}

// x [texts, width] in the order in which the weights of a storage come out of their words.
void stage_few(const float* x_BD, std::int64_t texts, std::int64_t width, DType storage, float* staged);

// logits [texts, rows] of the texts' staged x and rows of W, whose dtype is the storage that was staged for:
// F32, BF16, E4M3, E3M4, or U8 for codes of E2M5, whose rows have no exponents here. Every logit has its sums
// in the same order, whatever the number of texts, rows and threads.
void logits_of_few(const View& w_LD, const float* staged, std::int64_t texts, float* logits);

}  // namespace elmo::cpu
