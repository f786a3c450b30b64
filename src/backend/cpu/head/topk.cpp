// The best labels of each text on the CPU: each thread ranks the tiles that it takes, one after another, and
// the ranks are then merged. A ranking depends only on the labels that were offered, so neither the number of
// threads nor who took which tile changes anything; and a thread that loses its core holds up one tile.
#include <algorithm>
#include <atomic>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/head/few_texts.h"
#include "backend/cpu/head/head_scratch.h"
#include "backend/cpu/head/operands.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/linear/gemm.h"

namespace elmo::cpu {

namespace {

std::vector<float> stage_few_of(const HeadTopK& op, DType storage) {
    std::vector<float> x(static_cast<std::size_t>(op.x_BD.size()));
    load_floats(op.x_BD, 0, x.data(), op.x_BD.size());
    if (casts_to_e4m3(op)) through_e4m3(x.data(), x.data(), op.x_BD.size());
    std::vector<float> staged(static_cast<std::size_t>(op.x_BD.rows * staged_width(op.x_BD.cols)));
    stage_few(x.data(), op.x_BD.rows, op.x_BD.cols, storage, staged.data());
    return staged;
}

// Logits [texts, n] of few texts and of labels [begin, begin + n), for rows of W or what load_rows made of
// them.
void few_logits(const HeadTopK& op, const View& rows, const std::vector<float>& staged, std::int64_t begin,
                float* logits) {
    logits_of_few(rows, staged.data(), op.x_BD.rows, logits);
    if (rows.dtype != DType::kU8) return;
    for (std::int64_t b = 0; b < op.x_BD.rows; ++b)
        for (std::int64_t l = 0; l < rows.rows; ++l)
            *logits++ *= power_of_two(decode_row_exponent(op.row_exponents_L1.codes()[begin + l]));
}

}  // namespace

std::vector<TopK> CpuBackend::head_topk(const HeadTopK& op) {
    const std::int64_t labels = op.w_LD.rows, samples = op.x_BD.rows, width = op.x_BD.cols;
    const std::int64_t tiles = (labels + kLabelTile - 1) / kLabelTile;
    const std::int64_t slices = std::min<std::int64_t>(context_.threads().size(), tiles);
    std::atomic<std::int64_t> next{0};
    const bool packed = op.w_LD.dtype == DType::kU8 && op.grid.bits() < 8;
    const bool both_bf16 = bf16_products(op.w_LD.dtype) && op.x_BD.dtype == DType::kBf16;
    // AMX reads BF16 weights as fast as memory gives them, and for four texts 1.5 times as fast as few_texts.
    const bool few = samples <= kFewTexts && !(both_bf16 && op.w_LD.dtype == DType::kBf16 && has_tiles());
    const bool bf16 = both_bf16 && !few;
    const Bf16* x16 = bf16_products(op.x_BD.dtype) ? op.x_BD.as<Bf16>() : nullptr;
    StagedBatch batch;
    std::vector<float> staged;
    if (few)
        staged = stage_few_of(op, packed ? DType::kF32 : op.w_LD.dtype);
    else
        batch = stage_batch(context_.threads(), op.x_BD, casts_to_e4m3(op), bf16, x16, shared_scratch_.data);

    std::vector<std::vector<TopK>> best(static_cast<std::size_t>(std::max<std::int64_t>(slices, 1)),
                                        std::vector<TopK>(static_cast<std::size_t>(samples), TopK(op.k)));
    parallel_for(slices, [&](std::int64_t slice) {
        ScratchCutter cut(thread_scratch(head_tile_bytes(samples, width)));
        float* w = cut.take<float>(kLabelTile * width);
        float* z = cut.take<float>(kLabelTile * samples);
        float* zt = cut.take<float>(kLabelTile * samples);
        float* row = cut.take<float>(width);
        for (std::int64_t t = next++; t < tiles; t = next++) {
            const std::int64_t begin = t * kLabelTile, n = std::min(labels, begin + kLabelTile) - begin;
            const bool decodes = !few || packed;  // otherwise few_logits does
            const LoadedRows rows = decodes ? load_rows(op, begin, n, bf16, w, row) : LoadedRows{};
            if (few) {
                few_logits(op, packed ? View{w, DType::kF32, n, width} : op.w_LD.slice(begin, begin + n),
                           staged, begin, zt);
            } else {
                const Gemm shape{n, samples, width, width, samples, samples, false, false, false};
                if (bf16)
                    gemm(shape, rows.w16, batch.xt16, z);
                else
                    gemm(shape, rows.w, batch.xt, z);
                transpose(z, zt, n, samples);
            }
            for (std::int64_t b = 0; b < samples; ++b)
                best[slice][b].offer_block({zt + b * n, static_cast<std::size_t>(n)}, begin);
        }
    });
    for (std::int64_t slice = 1; slice < slices; ++slice)
        for (std::int64_t b = 0; b < samples; ++b) best[0][b].merge(best[slice][b]);
    return std::move(best[0]);
}

}  // namespace elmo::cpu
