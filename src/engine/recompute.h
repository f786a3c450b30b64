// What the backward of each encoder layer computes again: the choices that a configuration leaves to the
// planner, and their names.
#pragma once

#include <string>
#include <vector>

#include "config/views.h"
#include "model/encoder/encoder.h"

namespace elmo {

// If the user does not limit memory: nothing is computed again while everything that the layers' backward
// reads is within kKeptActivations.
inline constexpr std::int64_t kKeptActivations = std::int64_t{1} << 30;
// Otherwise pre-activations are kept up to this many bytes: they take the most memory for the least time to
// compute again. Of long texts the contexts come first. Where codes of all of them, and of queries, keys and
// values if texts are short and attention has no bias, take no more than these and those, they are kept
// instead, and no product is computed again.
inline constexpr std::int64_t kKeptPreActivations = std::int64_t{400} << 20;
// FP8 products take less time, and who chooses them wants memory: there the sums that norms see are kept up
// to so many bytes, and queries, keys and values of as many layers as have room beside all sums: more where
// the encoder's products outweigh the head's, because elsewhere they save less of the step. There codes of
// all that the backward reads come first, if they take no more than kKeptFp8Codes, texts are short, and
// attention has no bias.
inline constexpr std::int64_t kKeptFp8 = std::int64_t{640} << 20,
                              kKeptFp8BesideHead = std::int64_t{432} << 20;
inline constexpr std::int64_t kKeptFp8Codes = std::int64_t{768} << 20;

// The choices to try, one entry per layer each, from the least to compute again to the most. Only one if the
// options name it (compressed and compact have choices of their own), if there is no memory limit, or if
// nothing is kept for a backward.
std::vector<std::vector<Recompute>> recompute_choices(const EngineOptions& options, const EncoderSpec& spec,
                                                      const Workload& workload, bool host_memory);

// "none", "cheap", "compressed", "compressed wider", "compact", "wide", "wider", "layers", "wide for the
// first 8 of 12, cheap for the others", or "layers for the first 3 of 12, wider for the next 8, cheap for the
// others". The last layer counts for none but none and cheap.
std::string describe_recompute(const std::vector<Recompute>& layers);

}  // namespace elmo
