#include "engine/train_step.h"

#include <algorithm>

namespace elmo {
namespace {

// Returns whether the weights were updated.
bool learn(Encoder& encoder, const TextBatch& texts, View dx_BD, const EncoderUpdate& how) {
    if (encoder.spec().consume_gradients) {
        encoder.backward_and_update(texts, dx_BD, how.adamw, how.check);
        return true;
    }
    encoder.backward(texts, dx_BD, how.adds);
    if (how.check) std::ranges::for_each(encoder.parameters(), how.check);
    if (how.updates) encoder.update(how.adamw);
    return how.updates;
}

}  // namespace

StepResult train_step(Engine& engine, const StepInput& in) {
    Encoder* const encoder = engine.staged_encoder();
    Head* const head = engine.staged_head();
    const bool encoder_learns = encoder != nullptr && !encoder->spec().frozen;
    StepResult result;

    const bool encodes = encoder != nullptr && in.x_BD.empty();
    const View x_BD = encodes ? encoder->forward(in.texts, true, in.seed, in.step) : in.x_BD;
    // Exchange 1, gather x: here the ranks of a run will exchange the vectors of their texts, and
    // x_BD becomes the whole batch, in its order. One rank has it.
    if (in.before_head) in.before_head(x_BD);

    if (head != nullptr)
        result.head = head->step({x_BD, in.positives, in.head_lr, in.head_weight_decay, in.seed, in.step,
                                  in.want_loss, engine.head_grad(x_BD.rows)});
    // Exchange 2, reduce dx: here each rank will receive, for its own texts, the parts of dx that the labels
    // of all ranks make, and add them in the order of docs/numerics.md. One rank has the sum.
    const bool goes_back = encoder_learns && !result.head.skipped;
    if (goes_back && head != nullptr)
        engine.backend().cast(engine.embed_grad(x_BD.rows), engine.head_grad(x_BD.rows));
    if (in.after_head) in.after_head(result.head);

    if (goes_back) result.updated = learn(*encoder, in.texts, engine.embed_grad(x_BD.rows), in.encoder);
    return result;
}

}  // namespace elmo
