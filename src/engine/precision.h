// What follows from the precision of the head: its compensation, and messages about precisions for which a
// machine has no instructions.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/views.h"

namespace elmo {

// The 8-bit storage that auto picks: of the 8-bit formats the one nearest to BF16 (docs/precision.md).
inline constexpr const char* kAuto8Bit = "e2m5";

// What head_kahan's `auto` stands for with the precision chosen; any other value is itself. For e2m5, with
// the noise whose kernels compensate, as many labels as 8.1 bits per weight have room for at a width of 384:
// a weight takes 8, its row's exponent and marks 10 / 384, compensation 16 of a compensated one.
inline constexpr const char* kAutoHeadKahan = "0.45%";
std::string choose_head_kahan(const HeadOptions& options);

// ConfigError where an encoder learns with FP16 products and there is no loss scale, which the baseline's
// head manages.
void require_loss_scale(const HeadOptions& head, bool fp16_encoder);

// What the device does instead of instructions that it lacks, one line each.
std::vector<std::string> explain_precision(const HeadOptions& head, const EncoderOptions& encoder,
                                           const Backend& backend);

}  // namespace elmo
