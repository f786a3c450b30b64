// What a step costs: products and bytes, counted from shapes. The floors of `elmo bench` are made of these.
#pragma once

#include "model/encoder/encoder.h"
#include "model/head/head.h"

namespace elmo {

struct Cost {
    double flops = 0;
    double bytes = 0;
};

// Products of the encoder's linear layers and attention; bytes of its weights, read once. The backward (with
// the update) is twice the products; it reads the weights, writes the gradients and reads them, and reads and
// writes weights, moments and compensation.
Cost encoder_forward_cost(const Encoder& encoder, std::int64_t batch, std::int64_t tokens,
                          std::int64_t longest);
Cost encoder_backward_cost(const Encoder& encoder, std::int64_t batch, std::int64_t tokens,
                           std::int64_t longest);
// Three products; the weights and their compensation read once and written once, the batch read, its gradient
// written. The baseline has passes over whole matrices of weights and logits between its products.
Cost head_step_cost(const Head& head, std::int64_t batch);

}  // namespace elmo
