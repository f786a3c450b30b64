#include "backend/cpu/loops/dropout.h"

#include "base/clones.h"

namespace elmo::cpu {
namespace {

ELMO_CLONES void mask_row(const std::uint16_t* noise, std::uint32_t threshold, float scale, float* x,
                          std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] = noise[i] < threshold ? 0.0f : x[i] * scale;
}

}  // namespace

void apply_dropout(const Dropout& dropout, std::int64_t row, float* x, std::uint16_t* noise,
                   std::int64_t count) {
    const std::uint32_t threshold = dropout.threshold();
    if (threshold == 0) return;
    noise_row(dropout.key, row, count, noise);
    mask_row(noise, threshold, dropout.scale(), x, count);
}

}  // namespace elmo::cpu
