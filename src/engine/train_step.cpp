#include "engine/train_step.h"

#include <algorithm>

namespace elmo {
namespace {

// Returns whether the weights were updated.
bool learn(Encoder& encoder, SharedStep* shared, const TextBatch& texts, View dx_BD,
           const EncoderUpdate& how) {
    if (encoder.spec().consume_gradients) {
        encoder.backward_and_update(texts, dx_BD, how.adamw, how.check);
        return true;
    }
    if (shared != nullptr && shared->cuts_batch()) {
        shared->backward(encoder, dx_BD, how.adds, [&](std::size_t group) {
            if (how.check) std::ranges::for_each(encoder.group(group), how.check);
            if (!how.updates) return;
            encoder.update_group(group, how.adamw);
            shared->spread_weights(encoder, group);
        });
        return how.updates;
    }
    encoder.backward(texts, dx_BD, how.adds);
    if (encoder.spec().fp16 && !encoder.finish_fp16_gradients()) return false;
    if (how.check) std::ranges::for_each(encoder.parameters(), how.check);
    if (how.updates) encoder.update(how.adamw);
    return how.updates;
}

}  // namespace

StepResult train_step(Engine& engine, const StepInput& in) {
    Encoder* const encoder = engine.staged_encoder();
    Head* const head = engine.staged_head();
    const bool encoder_learns = encoder != nullptr && !encoder->spec().frozen;
    // FP16 products: the encoder's gradients have the loss scale too, and may overflow.
    ReneeHead* const renee = head != nullptr ? head->renee() : nullptr;
    const bool keeps_scale = encoder_learns && encoder->spec().fp16 && renee != nullptr;
    StepResult result;

    SharedStep* const shared = engine.shared();
    const bool cuts_batch = shared != nullptr && shared->cuts_batch();

    // Exchange 1, gather x: each rank encodes its shards of the batch, and x_BD is the whole batch, in its
    // order.
    const bool encodes = encoder != nullptr && in.x_BD.empty();
    View x_BD = in.x_BD;
    if (encodes)
        x_BD = cuts_batch ? shared->encode(*encoder, in.texts, in.seed, in.step)
                          : encoder->forward(in.texts, true, in.seed, in.step);
    if (in.before_head) in.before_head(x_BD);

    if (head != nullptr) {
        HeadInput input{x_BD,    in.positives, in.head_lr, in.head_weight_decay, in.seed,
                        in.step, in.want_loss, View{},     in.report_to};
        input.keeps_scale = keeps_scale;
        if (shared == nullptr) input.dx_BD = engine.head_grad(x_BD.rows);
        if (in.new_head) head->make_room(input);
        result.head = shared != nullptr ? shared->step_head(*head, input) : head->step(input);
    }
    // Exchange 2, reduce dx: each rank receives, for its own texts, the parts of dx that the labels of all
    // ranks make, and adds them in the order of docs/numerics.md.
    const bool goes_back = encoder_learns && !result.head.skipped;
    const View dx_BD = goes_back ? engine.embed_grad(cuts_batch ? shared->own_texts() : x_BD.rows) : View{};
    if (goes_back && shared != nullptr)
        shared->reduce_dx(dx_BD);
    else if (goes_back && head != nullptr)
        engine.backend().cast(dx_BD, engine.head_grad(x_BD.rows));
    if (in.after_head) in.after_head(result.head);

    EncoderUpdate update = in.encoder;
    if (keeps_scale) update.adamw.grad_scale /= renee->scale();
    if (goes_back) result.updated = learn(*encoder, shared, in.texts, dx_BD, update);
    if (keeps_scale) renee->end_step(!result.updated, in.step);
    return result;
}

}  // namespace elmo
