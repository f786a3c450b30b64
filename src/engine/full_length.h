// The shape of a run that has no data set: what plan and bench assume.
#pragma once

#include "elmo/context.h"
#include "engine/engine.h"
#include "model/encoder/encoder_spec.h"

namespace elmo {

inline constexpr std::int64_t kRankedInTraining = 5;  // largest k of a validation
inline constexpr std::int64_t kPositivesPerText = 5;  // where no data says how many

// The encoder with a vocabulary of vocab_size, or its own; `auto` is that of the shape.
EncoderSpec spec_without_data(const SizeOptions& options);
// Every text of full length. ConfigError when labels is not set.
RunShape full_length_shape(const Context& context, const SizeOptions& options, const EncoderSpec& spec);
// The same shape as a rank has it.
RunShape shared_shape(RunShape shape, const RankShare& share, std::int64_t labels);

}  // namespace elmo
