#include "backend/cuda/linear/gelu_product.h"

#include <string>

#include "backend/cuda/linear/gelu_product.cuh"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

using hopper::End, hopper::GeluProductArgs;

// The driver's function that describes a matrix: only the driver knows the form.
auto map_encoder() {
    static const auto encode = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult result{};
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                               &result),
              "looking for cuTensorMapEncodeTiled");
        if (result != cudaDriverEntryPointSuccess)
            throw DeviceError("GPU: the driver has no cuTensorMapEncodeTiled; a driver for CUDA 12 has it");
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    }();
    return encode;
}

// A matrix that is fetched in blocks of 64 columns and `rows` rows, as operands of products lie in shared
// memory. Zeros are beyond its ends.
CUtensorMap map_of(const View& matrix, int rows) {
    CUtensorMap map;
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
    const cuuint64_t row_bytes = sizes[0] * sizeof(bf16);
    const cuuint32_t block[] = {64, static_cast<cuuint32_t>(rows)}, steps[] = {1, 1};
    const CUresult result =
        map_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix.data, sizes, &row_bytes, block, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        throw DeviceError("GPU: the driver cannot describe a matrix of " + std::to_string(matrix.rows) +
                          " x " + std::to_string(matrix.cols) + " (error " + std::to_string(result) + ")");
    return map;
}

bf16* data_of(const View& view) {
    return view.empty() ? nullptr : static_cast<bf16*>(view.data);
}
void set_pre(GeluProductArgs& args, const View& pre) {
    if (pre.dtype == DType::kU8)
        args.codes = pre.codes();
    else
        args.pre = data_of(pre);
}

template <End kEnd>
void launch(const View& a, const View& b, GeluProductArgs args, const CudaContext& context, const char* op) {
    constexpr int kBytes = hopper::ProductLayout::kBytes;
    const auto kernel = hopper::gelu_product_kernel<kEnd>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), op);
    args.rows = a.rows;
    args.sum_blocks = static_cast<int>(blocks_for(a.cols, hopper::kDepth));
    const std::int64_t tiles =
        std::int64_t{blocks_for(args.rows, hopper::kTileRows)} * blocks_for(args.cols, hopper::kTileColumns);
    launch_early(context.starts_early(), kernel,
                 blocks_up_to(context.properties().multiProcessorCount, tiles, 1), hopper::kProductThreads,
                 kBytes, context.stream(), op, map_of(a, hopper::kTileRows),
                 map_of(b, hopper::is_backward(kEnd) ? hopper::kDepth : hopper::kTileColumns), args);
}

}  // namespace

// Rows of operands must be whole pieces of 16 bytes. Where there are few tiles, cuBLASLt's smaller ones fill
// the card better.
bool takes_gelu_product(const View& a, std::int64_t cols) {
    constexpr std::int64_t kFewest = 128;
    const std::int64_t tiles =
        std::int64_t{blocks_for(a.rows, hopper::kTileRows)} * blocks_for(cols, hopper::kTileColumns);
    return a.dtype == DType::kBf16 && a.cols % 8 == 0 && cols % 8 == 0 && tiles >= kFewest;
}

void gelu_product(const LinearForward& op, const CudaContext& context) {
    GeluProductArgs args;
    args.cols = static_cast<int>(op.w_NK.rows);
    args.bias = op.bias_1N.empty() ? nullptr : op.bias_1N.data;
    args.bias_is_bf16 = op.bias_1N.dtype == DType::kBf16;
    set_pre(args, op.pre_TN);
    args.out = data_of(op.y_TN);
    launch<End::kGelu>(op.x_TK, op.w_NK, args, context, "linear forward with GELU");
}

void gelu_product(const GeluBackward& op, float* partials, const CudaContext& context) {
    GeluProductArgs args;
    args.cols = static_cast<int>(op.w_MN.cols);
    set_pre(args, op.pre_TN);
    args.out = data_of(op.dy_TN);
    args.again = data_of(op.gelu_TN);
    args.partials = partials;
    const auto run = args.codes != nullptr ? launch<End::kDerivativeOfCodes> : launch<End::kDerivative>;
    run(op.dz_TM, op.w_MN, args, context, "linear backward, dx, with GELU");
}

std::int64_t gelu_product_partials(std::int64_t rows) {
    return blocks_for(rows, hopper::kTileRows);
}

}  // namespace elmo::cuda
