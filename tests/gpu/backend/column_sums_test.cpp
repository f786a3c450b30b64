// Column sums into gradients, which a GPU puts off and adds together: many that wait, two for one gradient,
// and AdamW, which begins while they are added. With a wait after each op nothing is put off.
#include <cstring>

#include "backend/op_harness.h"

namespace elmo::testing_ops {
namespace {

constexpr std::int64_t kRows = 700, kCols = 264;
constexpr int kSums = 9;  // more than wait at a time

struct Memory {
    std::unique_ptr<MemoryBlock> block;
    std::int64_t used = 0;
    View take(DType dtype, std::int64_t rows, std::int64_t cols) {
        const View view{static_cast<char*>(block->data()) + used, dtype, rows, cols};
        used += (view.bytes() + 255) / 256 * 256;
        return view;
    }
};

// Bytes of all gradients and of a tensor that AdamW changed with the last of them.
std::vector<char> gradients(bool waits) {
    Workload workload;
    workload.tokens = workload.longest = kRows;
    workload.width = workload.widest = kCols;
    Reserved gpu(make_device_backend(), workload);
    Memory memory{gpu->allocate(16 << 20)};
    Rng rng(17);
    const auto filled = [&](DType dtype, std::int64_t rows, std::int64_t cols) {
        const auto input = make_input("input", dtype, rows, cols, rng);
        const View view = memory.take(dtype, rows, cols);
        gpu->upload(view, input->view().data);
        return view;
    };
    const auto after = [&] {
        if (waits) gpu->wait();
    };
    const View pre = filled(DType::kBf16, kRows, kCols), dy = filled(DType::kBf16, kRows, kCols),
               sum = filled(DType::kBf16, kRows, kCols), gamma = filled(DType::kBf16, 1, kCols),
               stats = filled(DType::kF32, kRows, 2);
    const std::int64_t first = memory.used;
    View biases[kSums], dgamma = filled(DType::kBf16, 1, kCols), dbeta = filled(DType::kF32, 1, kCols);
    for (View& bias : biases) bias = filled(DType::kF32, 1, kCols);
    const View w = filled(DType::kBf16, 1, kCols), m = filled(DType::kBf16, 1, kCols),
               v = memory.take(DType::kBf16, 1, kCols);
    const std::int64_t last = memory.used;
    gpu->fill_zero(v);
    for (int turn = 0; turn < 3; ++turn) {
        for (const View& bias : biases) {
            gpu->gelu_backward({pre, dy, {}, bias, turn > 0});
            after();
        }
        for (int again = 0; again < 2; ++again) {
            gpu->residual_norm_backward({dy, sum, stats, gamma, {}, dy, {}, dgamma, dbeta, true});
            after();
        }
        AdamWUpdate update;
        update.w = w, update.grad = dgamma, update.m = m, update.v = v;
        update.lr = 0.01f;
        update.t = turn + 1;
        gpu->adamw(std::span(&update, 1));
        after();
    }
    std::vector<char> bytes(static_cast<std::size_t>(last - first));
    gpu->download(bytes.data(),
                  {static_cast<char*>(memory.block->data()) + first, DType::kU8, 1, last - first});
    return bytes;
}

TEST(ColumnSums, ThoseThatWaitAddUpInOrder) {
    const auto waited = gradients(true);
    EXPECT_TRUE(gradients(false) == waited);
}

}  // namespace
}  // namespace elmo::testing_ops
