// Sums over rows that kernels of several families make part by part (column_sums.cuh), and the scratch for
// the parts.
#pragma once

#include <initializer_list>
#include <vector>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

// Partial sums over tokens: as many as these, added in order.
inline constexpr std::int64_t kColumnPartials = 264;
// ... or one per text, of 3D columns, for as many texts as these.
inline constexpr std::int64_t kTextPartials = 1024;

class ColumnSums {
  public:
    explicit ColumnSums(CudaContext& context) : context_(context) {}
    void reserve(Arena& arena, const Workload& workload);

    // Room for the partials of one kernel, which launches before the next call of this object.
    float* partials(std::int64_t floats);
    // Partials of a kernel over [rows, cols] by blocks of eight warps.
    static std::int64_t num_partials(std::int64_t rows);
    // Whether there is room for one partial per text. Depends only on the batch where the workload had it in
    // mind.
    bool takes(std::int64_t texts, std::int64_t cols) const {
        return texts <= kTextPartials && texts * cols <= largest_;
    }
    // gradient i (+)= partials[0][i] + partials[1][i] + ..., in a fixed order, by finish() at the latest; a
    // partial is [gradients, columns]. At most three gradients.
    void add_partials(const float* partials, std::int64_t num_partials, std::initializer_list<View> gradients,
                      bool accumulate);
    // Column sums of [rows, cols] into a gradient, added to what is there when `accumulate` is set. Likewise.
    void add_rows(const View& dy_TN, const View& dbias_1N, bool accumulate);
    // Adds what add_partials() has put off: one kernel for a layer, not one for each of its sums. Returns
    // whether it launched one. Called before anything that may read or write a gradient.
    bool finish();

    static constexpr int kOuts = 3, kMostSums = 6;
    struct Out {
        void* data = nullptr;
        bool is_bf16 = false;
    };
    // Sums that wait, as their kernel takes them.
    struct Sum {
        const float* partials;
        std::int64_t num_partials, cols;
        Out outs[kOuts];
        std::int32_t first_block;
        bool accumulate;
        std::int8_t num_outs;
    };

  private:
    CudaContext& context_;
    View partials_;  // f32: of norms and biases
    std::int64_t largest_ = 0, used_ = 0;
    std::vector<Sum> waiting_;
};

}  // namespace elmo::cuda
