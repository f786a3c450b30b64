#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/head/head_scratch.h"
#include "backend/cpu/loops/convert.h"
#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo::cpu {

std::string CpuBackend::describe() const {
    return fmt::format("{}, {}, BF16 products by {}", processor_name(),
                       counted(context_.num_threads(), "thread"),
                       products_ == Products::kBf16 ? "BF16 dot products" : "FP32 multiply-add");
}

void CpuBackend::reserve(Arena& arena, const Workload& w) {
    const std::int64_t row = ScratchCutter::padded(noise_row_capacity(std::max(w.width, w.widest)) * 4);
    std::int64_t thread = std::max(head_tile_bytes(w.batch, w.width), 6 * row);
    std::int64_t shared = std::max(head_batch_bytes(w.batch, w.width), 40 * row);
    if (w.widest > 0) {
        thread = std::max(thread, 2 * ScratchCutter::padded(kRowBlock * w.widest * 4));
        shared = std::max(shared, row + ScratchCutter::padded(w.largest_weight * 4) +
                                      (w.training ? 2 * ScratchCutter::padded(kPanel * w.widest * 4) : 0));
    }
    if (w.heads > 0) {
        const std::int64_t n = w.longest, size = w.width / w.heads;
        thread = std::max(thread, (8 * n * size + 4 * n * n + noise_row_capacity(n) + 512) * 4 +
                                      (w.relative_bias ? bias_row_bytes(n) : 0));
        if (w.relative_bias && w.training) shared = std::max(shared, bias_slice_bytes(w.heads));
    }
    thread_scratch_.clear();
    for (int t = 0; t < context_.num_threads(); ++t)
        thread_scratch_.push_back(arena.allocate(fmt::format("scratch/thread.{}", t), DType::kU8, 1, thread));
    shared_scratch_ = arena.allocate("scratch/shared", DType::kU8, 1, shared);
}

void CpuBackend::reserve_head(Arena& arena, const Workload& w) {
    if (w.training && w.labels > 0)
        slices_ =
            arena.allocate("scratch/head_input_gradient_slices", DType::kF32, kSlices, w.batch * w.width);
}

void* CpuBackend::thread_scratch(std::int64_t bytes) {
    const auto thread = static_cast<std::size_t>(thread_index());
    if (thread >= thread_scratch_.size() || bytes > thread_scratch_[thread].bytes())
        throw DeviceError(
            fmt::format("scratch of {} for thread {} was not planned (threads were {} at planning)",
                        human_bytes(bytes), thread, thread_scratch_.size()));
    return thread_scratch_[thread].data;
}

void CpuBackend::upload(View to, const void* from) {
    std::memcpy(to.data, from, static_cast<std::size_t>(to.bytes()));
}
void CpuBackend::download(void* to, View from) {
    std::memcpy(to, from.data, static_cast<std::size_t>(from.bytes()));
}
void CpuBackend::fill_zero(View view) {
    std::memset(view.data, 0, static_cast<std::size_t>(view.bytes()));
}

void CpuBackend::cast(View to, View from) {
    assert(to.size() == from.size());
    parallel_ranges(to.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kPiece = 1024;
        float x[kPiece];
        for (std::int64_t i = begin; i < end; i += kPiece) {
            const std::int64_t count = std::min(kPiece, end - i);
            load_floats(from, i, x, count);
            store_floats(x, to, i, count);
        }
    });
}

void CpuBackend::round_fp16(View view) {
    parallel_ranges(view.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        round_to_fp16(view.as<float>() + begin, end - begin);
    });
}

bool CpuBackend::has_non_finite(View view) {
    std::atomic<bool> found{false};
    parallel_ranges(view.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kPiece = 1024;
        float x[kPiece];
        for (std::int64_t i = begin; i < end; i += kPiece) {
            const std::int64_t count = std::min(kPiece, end - i);
            load_floats(view, i, x, count);
            for (std::int64_t j = 0; j < count; ++j)
                if (!std::isfinite(x[j])) found = true;
        }
    });
    return found;
}

}  // namespace elmo::cpu

namespace elmo {

std::unique_ptr<Backend> make_cpu_backend(const Context& context, const std::string& products) {
    return std::make_unique<cpu::CpuBackend>(context, products);
}

}  // namespace elmo
