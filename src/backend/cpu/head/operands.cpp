#include "backend/cpu/head/operands.h"

#include "backend/cpu/scratch.h"

namespace elmo::cpu {

void transpose(const float* from, float* to, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
}

StagedBatch stage_batch(ThreadPool& threads, const View& x_BD, bool to_e4m3, bool bf16, const Bf16* x16,
                        void* scratch) {
    const std::int64_t count = x_BD.size();
    ScratchCutter cut(scratch);
    float* x = cut.take<float>(count);
    float* xt = cut.take<float>(count);
    float* through = cut.take<float>(count);
    load_floats(x_BD, 0, x, count);
    if (to_e4m3)
        threads.parallel_ranges(count, 4096, [&](std::int64_t begin, std::int64_t end) {
            through_e4m3(x + begin, through + begin, end - begin);
        });
    transpose(to_e4m3 ? through : x, xt, x_BD.rows, x_BD.cols);
    if (!bf16) return {x, xt, x16, nullptr};
    Bf16* xt16 = reinterpret_cast<Bf16*>(through);  // exact: BF16 holds every E4M3 number
    float_to_bf16(xt, xt16, count);
    return {x, xt, x16, xt16};
}

}  // namespace elmo::cpu
