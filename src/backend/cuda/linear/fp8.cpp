// Linear layers with FP8 products: cuBLASLt's FP8 kernels, which need both operands with the summed dimension
// last. So the backward casts transposed: dy as it is (for dx) and transposed (for dw), w and x transposed.
// If there is no such kernel (widths that are not multiples of 16, GPUs before 8.9), the operands are rounded
// to the same grids in BF16 and multiplied as usual.
#include <fmt/format.h>

#include <vector>

#include "backend/cuda/device/texts.h"
#include "backend/cuda/linear/fp8_cast.h"
#include "backend/cuda/linear/linear.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// What lies in the scratch for small things.
struct Small {
    Fp8CastScratch cast;
    alignas(16) float x_scale;  // cuBLASLt needs scales at multiples of 16 bytes
    alignas(16) float w_scale;
    alignas(16) float dy_scale;
};

Small* small_of(const View& scratch) {
    return static_cast<Small*>(scratch.data);
}

View codes_of(std::uint8_t* codes, bool e5m2, std::int64_t rows, std::int64_t cols) {
    return {codes, e5m2 ? DType::kE5M2 : DType::kE4M3, rows, cols};
}

View grid_of(const Fp8Operand& operand) {
    return {operand.on_grid, DType::kBf16, operand.x.rows, operand.x.cols};
}

}  // namespace

void LinearOps::reserve(Arena& arena, const Workload& w) {
    if (w.fp8_widths == 0) return;
    const std::int64_t rows = BatchTexts::entries(w);
    // Codes and transposed codes, or BF16 numbers in their place: two bytes per element either way.
    fp8_.operands = arena.allocate("scratch/fp8_operands", DType::kU8, 2 * in_sixteens(rows), w.fp8_widths);
    fp8_.weights = arena.allocate("scratch/fp8_weights", DType::kU8, 2, w.largest_weight);
    fp8_.small = arena.allocate("scratch/fp8_scales", DType::kU8, 1, sizeof(Small));
    if (fp8_.small.data != nullptr) context_.fill_zero(fp8_.small);
}

bool LinearOps::multiplies_fp8(std::int64_t n, std::int64_t k) const {
    return context_.properties().major * 10 + context_.properties().minor >= 89 && n % 16 == 0 && k % 16 == 0;
}

void LinearOps::check_fp8_room(std::int64_t rows, const View& w_NK) const {
    const std::int64_t padded = in_sixteens(rows);
    if (2 * padded * (w_NK.rows + w_NK.cols) > fp8_.operands.bytes() ||
        2 * w_NK.size() > fp8_.weights.bytes())
        throw DeviceError(
            fmt::format("FP8 products of {} rows with a weight of [{}, {}] were not planned for", rows,
                        w_NK.rows, w_NK.cols));
}

void LinearOps::forward_fp8(const LinearForward& op, const View& y) {
    const std::int64_t n = op.w_NK.rows, k = op.w_NK.cols;
    check_fp8_room(op.x_TK.rows, op.w_NK);
    Small* small = small_of(fp8_.small);
    Fp8Operand operands[2];
    auto& [x, w] = operands;
    x.x = op.x_TK;
    x.amax = op.amax_13.as<float>();
    x.scale = &small->x_scale;
    w.x = op.w_NK;
    w.amax = op.amax_13.as<float>() + 1;
    w.scale = &small->w_scale;

    Product product;
    product.transpose_b = true;
    product.c = y;
    product.bias = op.bias_1N;
    product.tokens = Product::Tokens::kM;
    if (multiplies_fp8(n, k)) {
        x.codes = fp8_.operands.codes();
        w.codes = fp8_.weights.codes();
        cast_fp8(operands, &small->cast, context_.stream());
        product.a = codes_of(x.codes, false, op.x_TK.rows, k);
        product.b = codes_of(w.codes, false, n, k);
        product.scale_a = x.scale;
        product.scale_b = w.scale;
        if (products_.run(product, "linear forward, FP8")) return;
    }
    x.on_grid = static_cast<__nv_bfloat16*>(fp8_.operands.data);
    w.on_grid = static_cast<__nv_bfloat16*>(fp8_.weights.data);
    round_to_fp8_grid(operands, &small->cast, context_.stream());
    product.a = grid_of(x);
    product.b = grid_of(w);
    product.scale_a = product.scale_b = nullptr;
    products_.multiply(product, "linear forward");
}

void LinearOps::backward_fp8(const LinearBackward& op) {
    const std::int64_t n = op.w_NK.rows, k = op.w_NK.cols, rows = op.dy_TN.rows, padded = in_sixteens(rows);
    check_fp8_room(rows, op.w_NK);
    bool dx = !op.dx_TK.empty(), dw = !op.dw_NK.empty();  // still to be made
    Small* small = small_of(fp8_.small);
    // dy; then what dx needs beside it, and what dw does.
    Fp8Operand dy, w, x;
    dy.x = op.dy_TN;
    dy.e5m2 = true;
    dy.amax = op.amax_13.as<float>() + 2;
    dy.scale = &small->dy_scale;
    w.x = op.w_NK;
    w.amax = op.amax_13.as<float>() + 1;
    w.scale = &small->w_scale;
    x.x = op.x_TK;
    x.amax = op.amax_13.as<float>();
    x.scale = &small->x_scale;
    w.amax_known = x.amax_known = true;  // from the forward
    const auto wanted = [&] {
        std::vector<Fp8Operand> operands = {dy};
        if (dx) operands.push_back(w);
        if (dw) operands.push_back(x);
        return operands;
    };

    Product to_dx, to_dw;
    to_dx.c = op.dx_TK;
    to_dx.tokens = Product::Tokens::kM;
    to_dw.c = op.dw_NK;
    to_dw.accumulate = op.accumulate;
    to_dw.tokens = Product::Tokens::kK;
    if (multiplies_fp8(n, k)) {
        if (dx) dy.codes = fp8_.operands.codes();
        if (dw) dy.transposed = fp8_.operands.codes() + padded * n;
        w.transposed = fp8_.weights.codes();
        x.transposed = fp8_.operands.codes() + 2 * padded * n;
        cast_fp8(wanted(), &small->cast, context_.stream());
        dy.amax_known = true;
        if (dx) {
            Product product = to_dx;
            product.a = codes_of(dy.codes, true, rows, n);
            product.b = codes_of(w.transposed, false, k, n);
            product.transpose_b = true;
            product.scale_a = dy.scale;
            product.scale_b = w.scale;
            dx = !products_.run(product, "linear backward, dx, FP8");
        }
        if (dw) {
            Product product = to_dw;
            product.a = codes_of(dy.transposed, true, n, padded);
            product.b = codes_of(x.transposed, false, k, padded);
            product.transpose_b = true;
            product.scale_a = dy.scale;
            product.scale_b = x.scale;
            dw = !products_.run(product, "linear backward, dw, FP8");
        }
    }
    if (!dx && !dw) return;
    dy.on_grid = static_cast<__nv_bfloat16*>(fp8_.operands.data);
    w.on_grid = static_cast<__nv_bfloat16*>(fp8_.weights.data);
    x.on_grid = dy.on_grid + padded * n;
    round_to_fp8_grid(wanted(), &small->cast, context_.stream());
    if (dx) {
        to_dx.a = grid_of(dy);
        to_dx.b = grid_of(w);
        products_.multiply(to_dx, "linear backward, dx");
    }
    if (dw) {
        to_dw.a = grid_of(dy);
        to_dw.transpose_a = true;
        to_dw.b = grid_of(x);
        products_.multiply(to_dw, "linear backward, dw");
    }
}

}  // namespace elmo::cuda
