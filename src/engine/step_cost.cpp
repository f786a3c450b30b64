#include "engine/step_cost.h"

namespace elmo {
namespace {

double weight_bytes(const Encoder& encoder) {
    double bytes = 0;
    for (const Parameter& p : encoder.parameters()) bytes += static_cast<double>(p.w.bytes());
    return bytes;
}

// Rows that each linear layer multiplies: tokens, or texts in a bag.
double forward_flops(const EncoderSpec& s, std::int64_t batch, std::int64_t tokens, std::int64_t longest) {
    const auto d = static_cast<double>(s.width), i = static_cast<double>(s.intermediate);
    if (s.is_bag()) return 2.0 * static_cast<double>(batch) * 2 * d * i;
    const double linear = 2.0 * static_cast<double>(tokens) * (4 * d * d + 2 * d * i);
    const double attention = 4.0 * static_cast<double>(tokens) * static_cast<double>(longest) * d;
    return static_cast<double>(s.layers) * (linear + attention);
}

}  // namespace

Cost encoder_forward_cost(const Encoder& encoder, std::int64_t batch, std::int64_t tokens,
                          std::int64_t longest) {
    // Of the word table only the rows of the batch are read.
    const EncoderSpec& s = encoder.spec();
    const double element = static_cast<double>(size_of(s.dtype)), width = static_cast<double>(s.width);
    const double table = static_cast<double>(s.vocab) * width * element;
    return {forward_flops(s, batch, tokens, longest),
            weight_bytes(encoder) - table + static_cast<double>(tokens) * width * element};
}

Cost encoder_backward_cost(const Encoder& encoder, std::int64_t batch, std::int64_t tokens,
                           std::int64_t longest) {
    const Cost forward = encoder_forward_cost(encoder, batch, tokens, longest);
    double update = 0;
    for (const Parameter& p : encoder.parameters())
        update += 2.0 * static_cast<double>(p.grad.bytes() + p.w.bytes() + p.m.bytes() + p.v.bytes() +
                                            p.c.bytes() + p.exponents.bytes());
    return {2 * forward.flops, forward.bytes + update};
}

Cost head_step_cost(const Head& head, std::int64_t batch) {
    const auto labels = static_cast<double>(head.labels()), width = static_cast<double>(head.width());
    const auto texts = static_cast<double>(batch),
               compensated = static_cast<double>(head.compensation().rows());
    const double flops = 6 * labels * width * texts;
    // A weight: FP32 read twice and written, momentum read and written, the FP16 copy and the FP16 gradient
    // each written and read twice, the FP32 gradient written. A logit: written, read and written as g, and
    // read by two products.
    if (head.renee() != nullptr) return {flops, 36 * labels * width + 10 * labels * texts};
    return {flops, 2 * labels * static_cast<double>(head.format().row_bytes(head.width())) +
                       6 * texts * width + 4 * compensated * width};
}

}  // namespace elmo
