// A sketch of the head: labels in a few numbers of 4 bits, by which the labels that may be the best of a text
// are found fast; they are then scored exactly.
//
// score(l) = w_l x = mean x + (w_l - mean) x. The first term is the same for all labels. The second is
// approximated by
//   bias_l + scale_l sum_j code_lj a_j,   a = project (x - centre)
// where bias_l = (w_l - mean) centre is exact, `centre` is the mean text vector, and codes are the label's
// coordinates in the subspace that carries most of the scores' variance over texts and labels. Vectors of
// trained heads lie close to a common vector and differ in all directions, so nearest-neighbour graphs and
// cells find few of the best labels (docs/prediction.md); but texts fill few directions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "elmo/context.h"
#include "numerics/bf16.h"
#include "tensor/topk.h"

namespace elmo {

// Views of a file or of memory; nothing in them is trusted beyond their sizes: other numbers find other
// labels.
struct LabelSketch {
    std::int64_t labels = 0, width = 0, dims = 0;
    std::span<const float> centre;   // [width]
    std::span<const float> project;  // [dims, width]
    std::span<const std::uint8_t>
        codes;  // [labels, code_bytes()]: j in the low and half + j in the high bits
    std::span<const float> scales, biases;  // [labels]
    std::shared_ptr<const void> owner;      // of what the views see

    static constexpr std::int64_t kGroup = 64;
    std::int64_t groups() const { return (labels + kGroup - 1) / kGroup; }
    std::int64_t half() const { return (dims + 1) / 2; }
};

inline constexpr std::int64_t kSketchDims = 128;

// rows(labels) gives the vectors of these labels (ascending) as floats. `texts`: vectors, row after row.
using ReadRows = std::function<std::vector<float>(std::span<const std::int64_t> labels)>;
LabelSketch make_sketch(const Context& context, std::int64_t labels, std::int64_t width, const ReadRows& rows,
                        std::span<const Bf16> texts);

// The `count` labels of each text that are best by the sketch, best first. Results do not depend on threads.
std::vector<std::vector<std::int64_t>> sketch_candidates(const Context& context, const LabelSketch& sketch,
                                                         std::span<const Bf16> texts, std::int64_t count);

}  // namespace elmo
