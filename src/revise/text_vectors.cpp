#include "revise/text_vectors.h"

#include <algorithm>

#include "base/progress.h"
#include "engine/session.h"

namespace elmo {

TextVectors::TextVectors(const Context& context, const Config& config, EncoderSpec spec,
                         const BatchPlan& texts, std::int64_t mapped_bytes)
    : context_(context), config_(config), texts_(texts), backend_(make_backend(context, config)) {
    spec.frozen = true;
    encoder_ = make_encoder(spec, *backend_);
    const BatchLimits limits = texts.limits(context, 0, texts.steps_per_epoch());
    workload_.batch = std::min(texts.batch_size(), texts.num_rows());
    workload_.tokens = std::max<std::int64_t>(limits.tokens, 1);
    workload_.longest = std::max<std::int64_t>(limits.longest_row, 1);
    workload_.training = false;
    encoder_->describe_workload(workload_);
    Arena dry;
    lay_out(dry);
    plan_ = plan_of(context_, dry, *backend_, mapped_bytes, 8 * texts.num_rows());
}

void TextVectors::lay_out(Arena& arena) {
    encoder_->allocate(arena, workload_);
    backend_->reserve(arena, workload_);
    encoder_->allocate_activations(arena, workload_);
    const Arena::Scope forward_phase(arena);
    encoder_->allocate_forward(arena, workload_);
}

bool TextVectors::write(RowStore& store, std::int64_t piece_bytes) {
    if (store.complete()) return true;
    require_fits(plan_, config_.max_memory, *backend_);
    arena_ = std::make_unique<Arena>(backend_->allocate(plan_.arena_bytes));
    lay_out(*arena_);
    encoder_->initialise(0);

    // Pieces are whole batches, so that a continued run encodes the batches of an uninterrupted one.
    const std::int64_t batch_bytes = texts_.batch_size() * store.row_bytes();
    const std::int64_t piece_batches = std::max<std::int64_t>(1, piece_bytes / batch_bytes);
    std::vector<std::byte> piece;
    Progress progress(context_, "encoding texts", texts_.num_rows(), "texts");
    std::int64_t in_piece = 0;
    BatchReader reader(texts_, store.rows_done() / texts_.batch_size(), texts_.steps_per_epoch());
    while (const Batch* batch = reader.next()) {
        if (context_.stop_requested()) return false;
        const View x_BD = encoder_->forward({batch->tokens, batch->offsets}, false, 0, 0);
        assert(x_BD.dtype == store.dtype() && x_BD.cols == store.cols());
        const std::size_t old = piece.size();
        piece.resize(old + static_cast<std::size_t>(x_BD.bytes()));
        backend_->download(piece.data() + old, x_BD);
        const std::int64_t done = batch->step * texts_.batch_size() + batch->size();
        if (++in_piece == piece_batches || done == store.rows()) {
            store.append(piece);
            piece.clear();
            in_piece = 0;
        }
        progress.update(done);
    }
    progress.finish();
    return true;
}

}  // namespace elmo
