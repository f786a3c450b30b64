// Products of an encoder's sizes, for which a GPU chooses among cuBLASLt's algorithms by the shape. Texts
// repeat, so that a few rows say what all should be.
#include "backend/op_harness.h"

namespace elmo::testing_ops {
namespace {

constexpr std::int64_t kPeriod = 32;

std::int64_t row_bytes(const Tensor& t) {
    return t.view().bytes() / t.rows();
}

// The rows of `few`, again and again.
std::unique_ptr<Tensor> repeated(const Tensor& few, std::int64_t rows) {
    auto all = std::make_unique<Tensor>(few.name() + " repeated", few.dtype(), rows, few.cols());
    auto* to = static_cast<char*>(all->view().data);
    for (std::int64_t r = 0; r < rows; r += few.rows())
        std::memcpy(to + r * row_bytes(few), few.view().data, static_cast<std::size_t>(few.view().bytes()));
    all->freeze();
    return all;
}

// The first rows by `bound`; all others have the bits of the row that they repeat.
void expect_repeated(const Tensor& all, const Tensor& exact, const auto& bound) {
    Tensor few("first rows of " + all.name(), all.dtype(), kPeriod, all.cols());
    const auto* from = static_cast<const char*>(all.view().data);
    std::memcpy(few.view().data, from, static_cast<std::size_t>(few.view().bytes()));
    expect_close(few, exact, bound);
    for (std::int64_t r = 0; r < all.rows(); r += kPeriod)
        ASSERT_EQ(std::memcmp(from, from + r * row_bytes(all), static_cast<std::size_t>(few.view().bytes())),
                  0)
            << all.name() << ", rows from " << r << " on";
}

TEST(Products, OfAnEncodersSizes) {
    struct Shape {
        std::int64_t tokens, k, n;
    };
    const auto truth = make_reference_backend();
    Rng rng(91);
    for (const Shape& s : {Shape{16384, 768, 3072}, Shape{16384, 3072, 768}, Shape{16384, 768, 768}}) {
        SCOPED_TRACE(std::to_string(s.tokens) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n));
        Workload workload;
        workload.tokens = workload.longest = s.tokens;
        workload.widest = std::max(s.k, s.n);
        workload.largest_weight = s.k * s.n;
        Reserved tested(make_tested_backend("cuda"), workload);
        const auto x = make_input("x", DType::kBf16, kPeriod, s.k, rng),
                   w = make_input("w", DType::kBf16, s.n, s.k, rng, 0.1),
                   bias = make_input("bias", DType::kBf16, 1, s.n, rng),
                   dy = make_input("dy", DType::kBf16, kPeriod, s.n, rng);
        const auto ax = absolute(*x), aw = absolute(*w), ab = absolute(*bias), ady = absolute(*dy);
        const auto all_x = repeated(*x, s.tokens), all_dy = repeated(*dy, s.tokens);

        Tensor y("y", DType::kBf16, s.tokens, s.n), dx("dx", DType::kBf16, s.tokens, s.k),
            dw("dw", DType::kF32, s.n, s.k);
        tested->linear_forward({all_x->view(), w->view(), bias->view(), y.view(), Activation::kNone, {}});
        tested->linear_backward({all_dy->view(), all_x->view(), w->view(), dx.view(), dw.view(), {}, false});

        Tensor exact_y("exact y", DType::kF64, kPeriod, s.n), size_y("size y", DType::kF64, kPeriod, s.n),
            exact_dx("exact dx", DType::kF64, kPeriod, s.k), size_dx("size dx", DType::kF64, kPeriod, s.k),
            exact_dw("exact dw", DType::kF64, s.n, s.k), size_dw("size dw", DType::kF64, s.n, s.k);
        truth->linear_forward({x->view(), w->view(), bias->view(), exact_y.view(), Activation::kNone, {}});
        truth->linear_forward({ax->view(), aw->view(), ab->view(), size_y.view(), Activation::kNone, {}});
        truth->linear_backward(
            {dy->view(), x->view(), w->view(), exact_dx.view(), exact_dw.view(), {}, false});
        truth->linear_backward(
            {ady->view(), ax->view(), aw->view(), size_dx.view(), size_dw.view(), {}, false});
        expect_repeated(y, exact_y, [&](auto r, auto c) { return sum_error(s.k + 1) * size_y(r, c); });
        expect_repeated(dx, exact_dx, [&](auto r, auto c) { return sum_error(s.n) * size_dx(r, c); });
        const auto times = static_cast<double>(s.tokens / kPeriod);
        for (Tensor* sum : {&exact_dw, &size_dw})
            sum->fill([&, of = sum](auto r, auto c) { return times * (*of)(r, c); });
        expect_close(dw, exact_dw, [&](auto r, auto c) { return sum_error(s.tokens) * size_dw(r, c); });
    }
}

}  // namespace
}  // namespace elmo::testing_ops
