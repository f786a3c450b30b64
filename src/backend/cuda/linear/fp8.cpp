// Linear layers with FP8 products: cuBLASLt's FP8 kernels, which need both operands with the summed dimension
// last. So dy is cast as it is (for dx) and transposed (for dw), w as it is and, for dx, transposed; x is
// cast both ways at once in the forward, and what a backward is given of it are the transposed codes. Where
// there is no such kernel (widths that are not multiples of 16, GPUs before 8.9), a plain one multiplies the
// codes.
#include <fmt/format.h>

#include <vector>

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

// The operands of c = a b^T.
void set_operands(Product& product, const Fp8Operand& a, std::uint8_t* a_codes, const Fp8Operand& b,
                  std::uint8_t* b_codes, std::int64_t summed) {
    const auto codes = [&](std::uint8_t* of, bool e5m2, std::int64_t rows) {
        return View{of, e5m2 ? DType::kE5M2 : DType::kE4M3, rows, summed};
    };
    product.a = codes(a_codes, a.e5m2, product.c.rows);
    product.b = codes(b_codes, b.e5m2, product.c.cols);
    product.transpose_b = true;
    product.scale_a = a.scale;
    product.scale_b = b.scale;
}

}  // namespace

void LinearOps::reserve_fp8(Arena& arena, const Workload& w) {
    fp8_.weights = arena.allocate("scratch/fp8_weights", DType::kU8, 1, w.largest_weight);
    fp8_.small = arena.allocate("scratch/fp8_scales", DType::kU8, 1, sizeof(Small));
    if (fp8_.small.data != nullptr) prepare_cast_fp8(&small_of(fp8_.small)->cast, context_.stream());
}

void LinearOps::check_fp8_room(const View& w_NK, const View& room, std::int64_t bytes) const {
    if (bytes > room.bytes() || w_NK.size() > fp8_.weights.bytes())
        throw DeviceError(
            fmt::format("FP8 products with a weight of [{}, {}] were not planned for: {} bytes "
                        "of room, {} wanted",
                        w_NK.rows, w_NK.cols, room.bytes(), bytes));
}

void LinearOps::multiply_fp8(const Product& product, const char* op) {
    const bool in_sixteens = product.a.cols % 16 == 0 && product.c.cols % 16 == 0;
    const int capability = context_.properties().major * 10 + context_.properties().minor;
    if (capability < 89 || !in_sixteens || !products_.run(product, op))
        plain_product(product, context_.stream(), op);
}

void LinearOps::forward_fp8(const LinearForward& op, const View& y) {
    const std::int64_t k = op.w_NK.cols;
    check_fp8_room(op.w_NK, op.room, in_sixteens(op.x_TK.rows) * k);
    Small* small = small_of(fp8_.small);
    Fp8Operand operands[2];
    auto& [x, w] = operands;
    x.x = op.x_TK;
    x.amax = op.amax_13.as<float>();
    x.scale = &small->x_scale;
    x.pads = true;
    x.codes = op.room.codes();
    if (!op.x_codes.empty()) x.transposed = op.x_codes.codes();
    if (!op.slope_TK.empty()) x.slope = op.slope_TK.codes();
    if (!op.seen_TK.empty()) x.seen = op.seen_TK.codes();
    w.x = op.w_NK;
    w.amax = op.amax_13.as<float>() + 1;
    w.scale = &small->w_scale;
    w.codes = fp8_.weights.codes();
    cast_fp8(operands, &small->cast, context_);

    Product product;
    product.c = y;
    product.bias = op.bias_1N;
    product.tokens = Product::Tokens::kM;
    product.fast = true;
    set_operands(product, x, x.codes, w, w.codes, k);
    multiply_fp8(product, "linear forward, FP8");
}

void LinearOps::backward_fp8(const LinearBackward& op) {
    const std::int64_t n = op.w_NK.rows, k = op.w_NK.cols, padded = in_sixteens(op.dy_TN.rows);
    const bool dx = !op.dx_TK.empty(), dw = !op.dw_NK.empty();
    const bool seen = !op.dy_seen_TN.empty(), times_slopes = seen || !op.dy_slope_TN.empty();
    if (times_slopes && (n % 16 != 0 || k % 16 != 0)) {
        gelu_backward({op.dy_seen_TN, op.dy_TN, {}, op.dbias_1N, op.accumulate, op.dy_slope_TN});
        LinearBackward rest = op;
        rest.dy_slope_TN = rest.dy_seen_TN = rest.dbias_1N = {};
        return backward_fp8(rest);
    }
    check_fp8_room(op.w_NK, op.room, 2 * padded * n);
    if (dw) check_fp8_room(op.w_NK, op.x_codes, padded * k);
    Small* small = small_of(fp8_.small);
    // dy; then what dx needs beside it, and what dw does.
    Fp8Operand dy, w, x;
    dy.x = op.dy_TN;
    dy.e5m2 = true;
    dy.amax = op.amax_13.as<float>() + 2;
    dy.scale = &small->dy_scale;
    dy.pads = true;
    if (dw || op.dy_codes) dy.transposed = op.room.codes();
    if (dx) dy.codes = op.room.codes() + padded * n;
    const std::int64_t num_sums = fp8_cast_sums(op.dy_TN.rows, n);
    if (times_slopes) {
        dy.times = seen ? op.dy_seen_TN.codes() : op.dy_slope_TN.codes();
        dy.times_seen = seen;
        // Codes in the place of slopes: each in that of its own.
        if (!seen && dy.times >= op.room.codes() && dy.times < op.room.codes() + op.room.bytes()) {
            if (dx) dy.codes = op.dy_slope_TN.codes();
            dy.product = op.dy_TN.data;
        }
        if (!op.dbias_1N.empty()) dy.sums = column_sums_.partials(num_sums * n);
    }
    w.x = op.w_NK;
    w.amax = op.amax_13.as<float>() + 1;
    w.scale = &small->w_scale;
    w.transposed = fp8_.weights.codes();
    x.x = op.x_TK.empty() ? View{nullptr, DType::kBf16, 0, k} : op.x_TK;  // the forward has its codes
    x.amax = op.amax_13.as<float>();
    x.scale = &small->x_scale;
    x.pads = true;
    if (dw) x.transposed = op.x_codes.codes();
    if (!op.slope_TK.empty()) x.slope = op.slope_TK.codes();
    w.amax_known = x.amax_known = true;  // from the forward
    std::vector<Fp8Operand> operands;
    if (dx || !op.dy_codes) operands.push_back(dy);
    if (dx) operands.push_back(w);
    if (dw) operands.push_back(x);
    cast_fp8(operands, &small->cast, context_);
    if (dy.sums != nullptr)
        column_sums_.add_partials(dy.sums, num_sums, {op.dbias_1N}, op.accumulate);
    else if (!op.dbias_1N.empty())
        column_sums_.add_rows(op.dy_TN, op.dbias_1N, op.accumulate);

    if (dx) {
        Product product;
        product.c = op.dx_TK;
        product.tokens = Product::Tokens::kM;
        set_operands(product, dy, dy.codes, w, w.transposed, n);
        multiply_fp8(product, "linear backward, dx, FP8");
    }
    if (dw) {
        Product product;
        product.c = op.dw_NK;
        product.accumulate = op.accumulate;
        product.tokens = Product::Tokens::kK;
        set_operands(product, dy, dy.transposed, x, x.transposed, padded);
        multiply_fp8(product, "linear backward, dw, FP8");
    }
}

}  // namespace elmo::cuda
