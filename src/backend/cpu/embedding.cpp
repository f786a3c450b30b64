// Embeddings, pooling and the bag of the CPU backend. Gradients of tables: token places sorted by the
// row they touch, each row summed by one thread in the order of the tokens.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/dropout.h"
#include "backend/cpu/scratch.h"
#include "base/clones.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

ELMO_CLONES void add_scaled(float* y, const float* x, float factor, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}
ELMO_CLONES void scale_to(float* y, float factor, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] *= factor;
}

// Table gradient: row ids[i] of `table` gets weights(i) * row source(i) of `dout` for each i.
template <class Source, class Weight>
void scatter_add(ThreadPool& threads, const View& dout, const View& table, std::span<const std::int32_t> ids,
                 bool accumulate, const Source& source, const Weight& weight,
                 const std::function<void*(std::int64_t)>& scratch) {
    std::vector<std::int32_t> order(ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](std::int32_t a, std::int32_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
    std::vector<std::int32_t> starts;  // where each distinct row begins in `order`
    for (std::size_t i = 0; i < order.size(); ++i)
        if (i == 0 || ids[order[i]] != ids[order[i - 1]]) starts.push_back(static_cast<std::int32_t>(i));
    starts.push_back(static_cast<std::int32_t>(order.size()));
    const std::int64_t width = table.cols;
    if (!accumulate)
        threads.parallel_ranges(table.rows, 256, [&](std::int64_t begin, std::int64_t end) {
            const View rows = table.slice(begin, end);
            std::memset(rows.data, 0, static_cast<std::size_t>(rows.bytes()));
        });
    threads.parallel_ranges(static_cast<std::int64_t>(starts.size()) - 1, 16,
                            [&](std::int64_t begin, std::int64_t end) {
                                ScratchCutter cut(scratch(2 * ScratchCutter::padded(width * 4)));
                                float* sum = cut.take<float>(width);
                                float* line = cut.take<float>(width);
                                for (std::int64_t g = begin; g < end; ++g) {
                                    const std::int64_t row = ids[order[starts[g]]];
                                    if (accumulate)
                                        load_floats(table, row * width, sum, width);
                                    else
                                        std::memset(sum, 0, static_cast<std::size_t>(width) * sizeof(float));
                                    for (std::int32_t i = starts[g]; i < starts[g + 1]; ++i) {
                                        load_floats(dout, source(order[i]) * width, line, width);
                                        add_scaled(sum, line, weight(order[i]), width);
                                    }
                                    store_floats(sum, table, row * width, width);
                                }
                            });
}

// Which text each token belongs to.
std::vector<std::int32_t> text_of_token(Offsets offsets) {
    std::vector<std::int32_t> text(offsets.empty() ? 0 : static_cast<std::size_t>(offsets.back()));
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
        for (std::int32_t t = offsets[b]; t < offsets[b + 1]; ++t) text[t] = static_cast<std::int32_t>(b);
    return text;
}

}  // namespace

void CpuBackend::embed_forward(const EmbedForward& op) {
    const std::int64_t width = op.out_TD.cols;
    parallel_for(static_cast<std::int64_t>(op.offsets.size()) - 1, [&](std::int64_t b) {
        ScratchCutter cut(thread_scratch(2 * ScratchCutter::padded(width * 4)));
        float* sum = cut.take<float>(width);
        float* line = cut.take<float>(width);
        for (std::int32_t t = op.offsets[b]; t < op.offsets[b + 1]; ++t) {
            load_floats(op.word_VD, op.tokens[t] * width, sum, width);
            if (!op.position_PD.empty()) {
                load_floats(op.position_PD, (op.position_base + t - op.offsets[b]) * width, line, width);
                add_scaled(sum, line, 1.0f, width);
            }
            if (!op.type_1D.empty()) {
                load_floats(op.type_1D, 0, line, width);
                add_scaled(sum, line, 1.0f, width);
            }
            store_floats(sum, op.out_TD, t * width, width);
        }
    });
}

void CpuBackend::embed_backward(const EmbedBackward& op) {
    const auto scratch = [this](std::int64_t bytes) { return thread_scratch(bytes); };
    const auto self = [](std::int64_t i) { return i; };
    const auto one = [](std::int64_t) { return 1.0f; };
    scatter_add(context_.threads(), op.dout_TD, op.dword_VD, op.tokens, op.accumulate, self, one, scratch);
    if (!op.dposition_PD.empty()) {
        std::vector<std::int32_t> places(op.tokens.size());
        for (std::size_t b = 0; b + 1 < op.offsets.size(); ++b)
            for (std::int32_t t = op.offsets[b]; t < op.offsets[b + 1]; ++t)
                places[t] = static_cast<std::int32_t>(op.position_base) + t - op.offsets[b];
        scatter_add(context_.threads(), op.dout_TD, op.dposition_PD, places, op.accumulate, self, one,
                    scratch);
    }
    if (!op.dtype_1D.empty()) {
        const std::vector<std::int32_t> zeros(op.tokens.size(), 0);
        scatter_add(context_.threads(), op.dout_TD, op.dtype_1D, zeros, op.accumulate, self, one, scratch);
    }
}

void CpuBackend::pool_forward(const PoolForward& op) {
    const std::int64_t width = op.out_BD.cols;
    parallel_for(op.out_BD.rows, [&](std::int64_t b) {
        ScratchCutter cut(thread_scratch(3 * ScratchCutter::padded(noise_row_capacity(width) * 4)));
        float* sum = cut.take<float>(width);
        float* line = cut.take<float>(width);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(width));
        const std::int64_t begin = op.offsets[b], n = op.offsets[b + 1] - begin;
        const std::int64_t used = op.pooling == Pooling::kCls ? std::min<std::int64_t>(n, 1) : n;
        std::memset(sum, 0, static_cast<std::size_t>(width) * sizeof(float));
        for (std::int64_t t = begin; t < begin + used; ++t) {
            load_floats(op.x_TD, t * width, line, width);
            add_scaled(sum, line, 1.0f, width);
        }
        if (used > 1) scale_to(sum, 1.0f / static_cast<float>(used), width);
        apply_dropout(op.dropout, b, sum, noise, width);
        store_floats(sum, op.out_BD, b * width, width);
    });
}

void CpuBackend::pool_backward(const PoolBackward& op) {
    const std::int64_t width = op.dout_BD.cols;
    parallel_for(op.dout_BD.rows, [&](std::int64_t b) {
        ScratchCutter cut(thread_scratch(3 * ScratchCutter::padded(noise_row_capacity(width) * 4)));
        float* line = cut.take<float>(width);
        float* zero = cut.take<float>(width);
        auto* noise = cut.take<std::uint16_t>(noise_row_capacity(width));
        const std::int64_t begin = op.offsets[b], n = op.offsets[b + 1] - begin;
        const std::int64_t used = op.pooling == Pooling::kCls ? std::min<std::int64_t>(n, 1) : n;
        load_floats(op.dout_BD, b * width, line, width);
        apply_dropout(op.dropout, b, line, noise, width);
        if (used > 1) scale_to(line, 1.0f / static_cast<float>(used), width);
        std::memset(zero, 0, static_cast<std::size_t>(width) * sizeof(float));
        for (std::int64_t t = begin; t < begin + n; ++t)
            store_floats(t < begin + used ? line : zero, op.dx_TD, t * width, width);
    });
}

void CpuBackend::bag_forward(const BagForward& op) {
    const std::int64_t width = op.out_BD.cols;
    parallel_for(op.out_BD.rows, [&](std::int64_t b) {
        ScratchCutter cut(thread_scratch(2 * ScratchCutter::padded(width * 4)));
        float* sum = cut.take<float>(width);
        float* line = cut.take<float>(width);
        const std::int64_t begin = op.offsets[b], n = op.offsets[b + 1] - begin;
        std::memset(sum, 0, static_cast<std::size_t>(width) * sizeof(float));
        for (std::int64_t t = begin; t < begin + n; ++t) {
            load_floats(op.word_VD, op.tokens[t] * width, line, width);
            add_scaled(sum, line, 1.0f, width);
        }
        if (n > 1) scale_to(sum, 1.0f / static_cast<float>(n), width);
        store_floats(sum, op.out_BD, b * width, width);
    });
}

void CpuBackend::bag_backward(const BagBackward& op) {
    const std::vector<std::int32_t> text = text_of_token(op.offsets);
    scatter_add(
        context_.threads(), op.dout_BD, op.dword_VD, op.tokens, op.accumulate,
        [&](std::int64_t i) { return std::int64_t{text[i]}; },
        [&](std::int64_t i) {
            return 1.0f / static_cast<float>(op.offsets[text[i] + 1] - op.offsets[text[i]]);
        },
        [this](std::int64_t bytes) { return thread_scratch(bytes); });
}

}  // namespace elmo::cpu
