#include "revise/text_vectors.h"

#include <algorithm>

#include "base/progress.h"

namespace elmo {

namespace {

EngineParts frozen(EncoderSpec spec) {
    spec.frozen = true;
    return {spec, std::nullopt};
}

RunShape shape_of(const Context& context, const BatchPlan& texts, std::int64_t mapped_bytes) {
    const BatchLimits limits = texts.limits(context, 0, texts.steps_per_epoch());
    RunShape shape;
    shape.batch = std::min(texts.batch_size(), texts.num_rows());
    shape.tokens = std::max<std::int64_t>(limits.tokens, 1);
    shape.longest = std::max<std::int64_t>(limits.longest_row, 1);
    shape.training = false;
    shape.mapped_bytes = mapped_bytes;
    shape.table_bytes = 8 * texts.num_rows();
    return shape;
}

}  // namespace

TextVectors::TextVectors(const Context& context, const Config& config, const EncoderSpec& spec,
                         const BatchPlan& texts, std::int64_t mapped_bytes)
    : context_(context),
      weights_(spec.weights_folder),
      texts_(texts),
      engine_(context, config, frozen(spec), shape_of(context, texts, mapped_bytes)) {}

bool TextVectors::write(RowStore& store, std::int64_t piece_bytes) {
    if (store.complete()) return true;
    engine_.allocate();
    engine_.load(weights_);

    // Pieces are whole batches, so a continued run encodes the same batches as an uninterrupted one.
    const std::int64_t batch_bytes = texts_.batch_size() * store.row_bytes();
    const std::int64_t piece_batches = std::max<std::int64_t>(1, piece_bytes / batch_bytes);
    std::vector<std::byte> piece;
    Progress progress(context_, "encoding texts", texts_.num_rows(), "texts");
    std::int64_t in_piece = 0;
    BatchReader reader(texts_, store.rows_done() / texts_.batch_size(), texts_.steps_per_epoch());
    while (const Batch* batch = reader.next()) {
        if (context_.stop_requested()) return false;
        const View x_BD = engine_.encoder().forward({batch->tokens, batch->offsets}, false, 0, 0);
        assert(x_BD.dtype == store.dtype() && x_BD.cols == store.cols());
        const std::size_t old = piece.size();
        piece.resize(old + static_cast<std::size_t>(x_BD.bytes()));
        engine_.backend().download(piece.data() + old, x_BD);
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
