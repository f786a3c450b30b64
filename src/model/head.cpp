#include "model/head.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/streams.h"

namespace elmo {

DType head_dtype(const std::string& precision) {
    if (precision == "fp32") return DType::kF32;
    if (precision == "bf16") return DType::kBf16;
    if (precision == "fp8") return DType::kE4M3;
    if (precision == "e3m4") return DType::kE3M4;
    throw ConfigError(fmt::format("precision '{}': expected fp32, bf16, fp8 or e3m4", quoted(precision)));
}

std::string precision_of(DType dtype) {
    switch (dtype) {
        case DType::kF32:
            return "fp32";
        case DType::kBf16:
            return "bf16";
        case DType::kE4M3:
            return "fp8";
        case DType::kE3M4:
            return "e3m4";
        default:
            return std::string(name_of(dtype));
    }
}

Head::Head(std::int64_t labels, std::int64_t width, DType dtype, std::int64_t chunks, Backend& backend,
           const HeadExtras& extras)
    : labels_(labels),
      width_(width),
      dtype_(dtype),
      chunks_(chunks),
      backend_(backend),
      weight_dropout_(extras.weight_dropout),
      compensation_(labels, width, extras.compensated_rows, backend) {
    if (extras.compensated_rows > 0 && dtype == DType::kF32)
        throw ConfigError("a compensation needs weights of 16 or 8 bits, found fp32");
    if (labels < 1 || width < 1 || chunks < 1)
        throw ConfigError(
            fmt::format("a head needs labels, width and chunks of at least 1, found {}, {} and {}", labels,
                        width, chunks));
    pieces_ = {{0, {nullptr, dtype, labels, width}}};
}

std::int64_t Head::mapped_bytes() const {
    std::int64_t bytes = 0;
    if (!mapped_.empty())
        for (const Piece& piece : pieces_) bytes += piece.w.bytes();
    return bytes;
}

void Head::allocate(Arena& arena) {
    pieces_ = {{0, arena.allocate("head/weights", dtype_, labels_, width_)}};
    compensation_.allocate(arena);
    mapped_.clear();
}

void Head::initialise(std::uint64_t seed) {
    backend_.fill_normal(
        {pieces_.front().w, 0.02f, {seed, 0, streams::kHeadInit}, {seed, 0, streams::kHeadInit + 1}, 0});
}

HeadStepResult Head::step(View x_BD, std::span<const Positive> positives, float lr, float weight_decay,
                          std::uint64_t seed, std::uint64_t step, bool want_loss, View dx_BD) {
    assert(mapped_.empty());
    HeadStep op;
    op.x_BD = x_BD;
    op.w_LD = pieces_.front().w;
    op.positives = positives;
    op.lr = lr;
    op.weight_decay = weight_decay;
    op.rounding = {seed, step, streams::kHeadRounding};
    op.num_chunks = chunks_;
    op.dx_BD = dx_BD;
    op.want_loss = want_loss;
    op.compensation_KD = compensation_.values();
    op.slots_L = compensation_.slots();
    op.weight_dropout = {weight_dropout_, {seed, step, streams::kWeightDropout}};
    return backend_.head_step(op);
}

std::vector<TopK> Head::topk(View x_BD, std::int64_t k) const {
    if (pieces_.size() == 1) return backend_.head_topk({x_BD, pieces_.front().w, k});
    std::vector<TopK> best(static_cast<std::size_t>(x_BD.rows), TopK(k));
    for (const Piece& piece : pieces_) {
        const std::vector<TopK> found = backend_.head_topk({x_BD, piece.w, k});
        for (std::size_t b = 0; b < best.size(); ++b)
            for (const ScoredLabel& scored : found[b].sorted())
                best[b].offer(scored.score, piece.first_row + scored.label);
    }
    return best;
}

}  // namespace elmo
