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

#include <algorithm>
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
    std::span<const float> centre;          // [width]
    std::span<const float> project;         // [dims, width]
    std::span<const std::uint8_t> codes;    // [groups(), first_bytes() / 2, kGroup, 2]: the first numbers
    std::span<const std::uint8_t> rest;     // [labels, rest_bytes()]: the other numbers
    std::span<const float> scales, biases;  // [labels]
    std::shared_ptr<const void> owner;      // of what the views see

    // The scan reads the first numbers of all labels, which carry most of the scores, a group of labels at a
    // time. The other numbers are read of the labels that it lets through.
    static constexpr std::int64_t kGroup = 32, kFirst = 64;
    static constexpr int kCodeZero = 8;  // what a number of zero is stored as
    std::int64_t groups() const { return (labels + kGroup - 1) / kGroup; }
    // The scan samples one of so many groups. Single ones, as neighbours among labels are often alike, and
    // not at equal distances, as labels may repeat at some.
    static constexpr std::int64_t kSampled = 32;
    static std::int64_t sampled_group(std::int64_t number) {
        const auto mixed = static_cast<std::uint64_t>(number + 1) * 0x9e3779b97f4a7c15u;
        return number * kSampled + static_cast<std::int64_t>(mixed >> 59);
    }
    // Two bytes hold four numbers of a label, so that a processor multiplies and adds neighbours at once.
    static std::int64_t byte_of(std::int64_t number) { return number / 4 * 2 + number % 2; }
    static bool is_high(std::int64_t number) { return number % 4 >= 2; }
    std::int64_t bytes() const { return (dims + 3) / 4 * 2; }  // of a label
    std::int64_t first_bytes() const { return std::min(bytes(), kFirst / 2); }
    std::int64_t rest_bytes() const { return bytes() - first_bytes(); }
    // Where one of the first bytes of a label is among the codes.
    std::int64_t place(std::int64_t label, std::int64_t byte) const {
        return ((label / kGroup * first_bytes() / 2 + byte / 2) * kGroup + label % kGroup) * 2 + byte % 2;
    }
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
