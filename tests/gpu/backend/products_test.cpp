// Products of an encoder's sizes, for which a GPU chooses among cuBLASLt's algorithms by the shape. Texts
// repeat, so that a few rows say what all should be.
#include <numbers>

#include "backend/op_harness.h"

namespace elmo::testing_ops {
namespace {

constexpr std::int64_t kPeriod = 32;

struct Shape {
    std::int64_t tokens, k, n;
};
std::string describe(const Shape& s) {
    return std::to_string(s.tokens) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n);
}
Workload workload_of(const Shape& s) {
    Workload workload;
    workload.tokens = workload.longest = s.tokens;
    workload.widest = std::max(s.k, s.n);
    workload.largest_weight = s.k * s.n;
    return workload;
}

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
    const auto truth = make_reference_backend();
    Rng rng(91);
    for (const Shape& s : {Shape{16384, 768, 3072}, Shape{16384, 3072, 768}, Shape{16384, 768, 768}}) {
        SCOPED_TRACE(describe(s));
        Reserved tested(make_tested_backend("cuda"), workload_of(s));
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

// Products with GELU or its derivative, which Hopper has a kernel for, of rows and columns that are whole
// tiles or not. The last two it does not take: rows that are no whole pieces of 16 bytes, and few rows.
TEST(Products, WithGelu) {
    const auto truth = make_reference_backend();
    Rng rng(97);
    for (const Shape& s : {Shape{2336, 384, 1536}, Shape{4096, 768, 3072}, Shape{2080, 1024, 4096},
                           Shape{2336, 200, 1288}, Shape{2080, 380, 190}, Shape{160, 384, 1536}}) {
        SCOPED_TRACE(describe(s));
        Reserved tested(make_tested_backend("cuda"), workload_of(s));
        const auto x = make_input("x", DType::kBf16, kPeriod, s.k, rng),
                   up = make_input("up", DType::kBf16, s.n, s.k, rng, 0.1),
                   bias = make_input("bias", DType::kBf16, 1, s.n, rng),
                   dz = make_input("dz", DType::kBf16, kPeriod, s.k, rng),
                   down = make_input("down", DType::kBf16, s.k, s.n, rng);
        const auto ax = absolute(*x), aup = absolute(*up), ab = absolute(*bias), adz = absolute(*dz),
                   adown = absolute(*down);
        const auto all_x = repeated(*x, s.tokens), all_dz = repeated(*dz, s.tokens);

        Tensor pre("pre", DType::kBf16, s.tokens, s.n), y("y", DType::kBf16, s.tokens, s.n),
            pre_alone("pre alone", DType::kBf16, s.tokens, s.n),
            y_alone("y alone", DType::kBf16, s.tokens, s.n);
        const auto forward = [&](const View& to, const View& pre_to) {
            tested->linear_forward({all_x->view(), up->view(), bias->view(), to, Activation::kGelu, pre_to});
        };
        forward(y.view(), pre.view());
        forward(y_alone.view(), {});
        forward({}, pre_alone.view());
        expect_same_bits(y_alone, y);
        expect_same_bits(pre_alone, pre);
        Tensor exact_pre("exact pre", DType::kF64, kPeriod, s.n), size_pre("size", DType::kF64, kPeriod, s.n),
            exact_y("exact y", DType::kF64, kPeriod, s.n);
        truth->linear_forward({x->view(), up->view(), bias->view(), exact_pre.view(), Activation::kNone, {}});
        truth->linear_forward({ax->view(), aup->view(), ab->view(), size_pre.view(), Activation::kNone, {}});
        expect_repeated(pre, exact_pre, [&](auto r, auto c) { return sum_error(s.k + 1) * size_pre(r, c); });
        // From pre as stored.
        exact_y.fill(
            [&](auto r, auto c) { return pre(r, c) * 0.5 * std::erfc(-pre(r, c) / std::sqrt(2.0)); });
        expect_repeated(y, exact_y, [&](auto r, auto c) {
            return 0.5 * std::abs(pre(r, c)) * (kErfError + 4 * kF32Roundoff);
        });

        Tensor dy("dy", DType::kBf16, s.tokens, s.n), gelu("gelu again", DType::kBf16, s.tokens, s.n),
            plain("dy alone", DType::kBf16, s.tokens, s.n),
            over("gelu over pre", DType::kBf16, s.tokens, s.n), dbias("dbias", DType::kF32, 1, s.n);
        const auto start = make_input("dbias before", DType::kF32, 1, s.n, rng);
        dbias.copy(*start);
        const auto backward = [&](const View& from, const View& to, const View& again, const View& sums) {
            tested->gelu_backward({from, to, again, sums, true, {}, false, all_dz->view(), down->view()});
        };
        backward(pre.view(), dy.view(), gelu.view(), dbias.view());
        backward(pre.view(), plain.view(), {}, {});
        expect_same_bits(plain, dy);
        over.copy(pre);
        backward(over.view(), plain.view(), over.view(), {});
        expect_same_bits(over, gelu);
        expect_same_bits(gelu, y);
        expect_same_bits(plain, dy);
        Tensor exact_dx("exact dx", DType::kF64, kPeriod, s.n), size_dx("size dx", DType::kF64, kPeriod, s.n),
            exact_dy("exact dy", DType::kF64, kPeriod, s.n);
        truth->linear_backward({dz->view(), {}, down->view(), exact_dx.view(), {}, {}});
        truth->linear_backward({adz->view(), {}, adown->view(), size_dx.view(), {}, {}});
        const auto density = [](double at) {
            return std::exp(-0.5 * at * at) / std::sqrt(2 * std::numbers::pi);
        };
        const auto slope = [&](double at) {
            return 0.5 * std::erfc(-at / std::sqrt(2.0)) + at * density(at);
        };
        exact_dy.fill([&](auto r, auto c) { return exact_dx(r, c) * slope(pre(r, c)); });
        // dx with the error of its sum is stored; the slope has errors of erf and of the density.
        expect_repeated(dy, exact_dy, [&](auto r, auto c) {
            const double sum = sum_error(s.k) * size_dx(r, c), at = pre(r, c);
            const double stored = sum + storing_error(DType::kBf16, std::abs(exact_dx(r, c)) + sum);
            const double of_slope = 0.5 * kErfError + 4 * kF32Roundoff +
                                    std::abs(at) * density(at) * (kExpError + (4 + at * at) * kF32Roundoff);
            return stored * std::abs(slope(at)) + (std::abs(exact_dx(r, c)) + stored) * of_slope +
                   kF32Roundoff * std::abs(exact_dy(r, c));
        });
        expect_column_sums(dbias, dy, start.get());
    }
}

// Small whole numbers, divided: sums of their products are exact, and so the same in every order.
std::unique_ptr<Tensor> of_few_bits(const char* name, std::int64_t rows, std::int64_t cols, Rng& rng,
                                    double divisor) {
    auto tensor = std::make_unique<Tensor>(name, DType::kBf16, rows, cols);
    tensor->fill([&](auto, auto) { return (static_cast<double>(rng() % 17) - 8) / divisor; });
    tensor->freeze();
    return tensor;
}

void expect_codes(const Tensor& codes, const Tensor& pre) {
    const auto found = codes.bytes();
    for (std::int64_t r = 0; r < pre.rows(); ++r)
        for (std::int64_t c = 0; c < pre.cols(); ++c)
            ASSERT_EQ(found[static_cast<std::size_t>(r * pre.cols() + c)],
                      pre_code(static_cast<float>(pre(r, c))))
                << pre(r, c) << " at " << r << ", " << c;
}

// The product of the library and the kernels after it give the same bits, whatever is kept of pre. Rows and
// columns are no whole tiles.
TEST(Products, WithGeluHaveTheBitsOfTheirParts) {
    Rng rng(101);
    for (const Shape& s : thinned({Shape{5535, 128, 512}, Shape{8193, 256, 328}, Shape{2337, 384, 1536},
                                   Shape{1100, 768, 3072}, Shape{700, 1024, 4096}},
                                  2)) {
        SCOPED_TRACE(describe(s));
        Reserved tested(make_tested_backend("cuda"), workload_of(s));
        const auto x = of_few_bits("x", s.tokens, s.k, rng, 8), up = of_few_bits("up", s.n, s.k, rng, 64),
                   bias = of_few_bits("bias", 1, s.n, rng, 2), dz = of_few_bits("dz", s.tokens, s.k, rng, 8),
                   down = of_few_bits("down", s.k, s.n, rng, 64);
        const auto make = [&](const char* name) {
            return std::make_unique<Tensor>(name, DType::kBf16, s.tokens, s.n);
        };
        const auto pre = make("pre"), dx = make("dx");
        tested->linear_forward({x->view(), up->view(), bias->view(), pre->view(), Activation::kNone, {}});
        tested->linear_backward({dz->view(), {}, down->view(), dx->view(), {}, {}});
        // GELU of what is seen, and dx times its slope there.
        const auto parts = [&](const View& seen, Tensor& dy, Tensor& gelu) {
            std::memcpy(dy.view().data, dx->view().data, static_cast<std::size_t>(dx->view().bytes()));
            tested->gelu_backward({seen, dy.view(), gelu.view()});
        };
        const auto whole = [&](const View& seen, Tensor& dy, Tensor& gelu, Tensor& dbias) {
            tested->gelu_backward(
                {seen, dy.view(), gelu.view(), dbias.view(), false, {}, false, dz->view(), down->view()});
            expect_column_sums(dbias, dy, nullptr);
        };
        Tensor codes("codes", DType::kU8, s.tokens, s.n), dbias("dbias", DType::kF32, 1, s.n);
        const auto y = make("y"), same_y = make("y with codes"), same_pre = make("pre with y"),
                   dy = make("dy"), gelu = make("gelu"), dy_parts = make("dy of parts"),
                   gelu_parts = make("gelu of parts");
        tested->linear_forward(
            {x->view(), up->view(), bias->view(), y->view(), Activation::kGelu, same_pre->view()});
        tested->linear_forward(
            {x->view(), up->view(), bias->view(), same_y->view(), Activation::kGelu, codes.view()});
        expect_same_bits(*same_pre, *pre);
        expect_same_bits(*same_y, *y);
        expect_codes(codes, *pre);
        Tensor every("every code", DType::kU8, s.tokens, s.n);
        for (std::int64_t i = 0; i < every.view().size(); ++i)
            every.view().codes()[i] = static_cast<std::uint8_t>(i * 37 % 251 + i / 4096 % 6);
        for (const View& seen : {pre->view(), codes.view(), every.view()}) {
            parts(seen, *dy_parts, *gelu_parts);
            whole(seen, *dy, *gelu, dbias);
            expect_same_bits(*dy, *dy_parts);
            expect_same_bits(*gelu, *gelu_parts);
            if (seen.dtype == DType::kBf16) expect_same_bits(*gelu, *y);
        }
    }
}

// Every BF16 number, by a product with ones on its diagonal: in the product's end, and in a kernel after it,
// which takes over where there are few rows. A row with a number that is not finite has NaN beside it.
TEST(Products, WithGeluGiveTheCodeOfEveryNumber) {
    const Shape s{8200, 384, 384};
    Tensor x("x", DType::kBf16, s.tokens, s.k), ones("ones", DType::kBf16, s.n, s.k);
    auto* bits = static_cast<std::uint16_t*>(x.view().data);
    for (std::int64_t i = 0; i < x.view().size(); ++i) bits[i] = static_cast<std::uint16_t>(i % 65536);
    ones.fill([](auto r, auto c) { return r == c ? 1.0 : 0.0; });
    for (const std::int64_t tokens : {s.tokens, std::int64_t{200}}) {
        Reserved tested(make_tested_backend("cuda"), workload_of({tokens, s.k, s.n}));
        Tensor y("y", DType::kBf16, tokens, s.n), pre("pre", DType::kBf16, tokens, s.n),
            same_y("y with codes", DType::kBf16, tokens, s.n), codes("codes", DType::kU8, tokens, s.n);
        const View few = x.view().first(tokens);
        tested->linear_forward({few, ones.view(), {}, y.view(), Activation::kGelu, pre.view()});
        tested->linear_forward({few, ones.view(), {}, same_y.view(), Activation::kGelu, codes.view()});
        for (std::int64_t r = 0; r < tokens; ++r) {
            bool finite = true;
            for (std::int64_t c = 0; c < s.k; ++c) finite = finite && std::isfinite(x(r, c));
            for (std::int64_t c = 0; c < s.n && finite; ++c)
                ASSERT_TRUE(pre(r, c) == x(r, c) || std::abs(x(r, c)) < 0x1p-126) << x(r, c);
        }
        expect_codes(codes, pre);
        expect_same_bits(same_y, y);
    }
}

}  // namespace
}  // namespace elmo::testing_ops
