// Linear layers and GELU of the tested backend against the reference.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops::linear_test {
namespace {

struct Shape {
    std::int64_t tokens, k, n;
};

const Shape kShapes[] = {{0, 3, 5},      {1, 1, 1},     {1, 2, 3},    {3, 1, 7},    {31, 7, 5},
                         {32, 32, 32},   {33, 31, 65},  {63, 64, 63}, {64, 65, 64}, {127, 64, 129},
                         {129, 17, 127}, {513, 24, 10}, {1025, 3, 67}};

Workload workload_of(const Shape& shape) {
    Workload workload;
    workload.tokens = shape.tokens;
    workload.longest = shape.tokens;
    workload.widest = std::max(shape.k, shape.n);
    workload.largest_weight = shape.k * shape.n;
    return workload;
}

// body(mode, shape, tested backend, rng) for all modes and shapes.
template <class Body>
void for_each_case(const Body& body) {
    Rng rng(7);
    for (const Mode& mode : tested_modes())
        for (const Shape& shape : thinned(kShapes, 4)) {
            SCOPED_TRACE(describe(mode) + ", " + std::to_string(shape.tokens) + " x " +
                         std::to_string(shape.k) + " x " + std::to_string(shape.n));
            Reserved tested(make_tested_backend(mode.products), workload_of(shape));
            body(mode, shape, tested, rng);
            if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(Linear, ForwardWithAndWithoutBias) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto x = make_input("x", mode.storage, s.tokens, s.k, rng);
        const auto w = make_input("w", mode.storage, s.n, s.k, rng, 0.1);
        const auto full_bias = make_input("bias", mode.storage, 1, s.n, rng);
        const std::unique_ptr<Tensor> no_bias;
        for (const auto* bias : {&full_bias, &no_bias}) {
            Tensor y("y", mode.storage, s.tokens, s.n), exact("exact", DType::kF64, s.tokens, s.n);
            Tensor size("size", DType::kF64, s.tokens, s.n);
            tested->linear_forward({x->view(), w->view(), view_of(*bias), y.view(), Activation::kNone, {}});
            truth->linear_forward(
                {x->view(), w->view(), view_of(*bias), exact.view(), Activation::kNone, {}});
            const auto ax = absolute(*x), aw = absolute(*w);
            const auto ab = *bias ? absolute(**bias) : nullptr;
            truth->linear_forward({ax->view(), aw->view(), view_of(ab), size.view(), Activation::kNone, {}});
            expect_close(y, exact, [&](auto r, auto c) { return sum_error(s.k + 1) * size(r, c); });
        }
    });
}

TEST(Linear, ForwardWithGelu) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto x = make_input("x", mode.storage, s.tokens, s.k, rng, 2);
        const auto w = make_input("w", mode.storage, s.n, s.k, rng, 0.5);
        const auto bias = make_input("bias", mode.storage, 1, s.n, rng);
        const auto ax = absolute(*x), aw = absolute(*w), ab = absolute(*bias);
        Tensor size("size", DType::kF64, s.tokens, s.n);
        truth->linear_forward({ax->view(), aw->view(), ab->view(), size.view(), Activation::kNone, {}});
        Tensor y("y", mode.storage, s.tokens, s.n), pre("pre", mode.storage, s.tokens, s.n);
        Tensor exact_y("exact y", DType::kF64, s.tokens, s.n), exact("exact pre", DType::kF64, s.tokens, s.n);
        tested->linear_forward({x->view(), w->view(), bias->view(), y.view(), Activation::kGelu, pre.view()});
        truth->linear_forward(
            {x->view(), w->view(), bias->view(), exact_y.view(), Activation::kGelu, exact.view()});
        const auto pre_error = [&](auto r, auto c) { return sum_error(s.k + 1) * size(r, c); };
        expect_close(pre, exact, pre_error);
        // y comes from pre as stored: x / 2 * (1 + erf) with the error of erf and four roundings.
        exact_y.fill(
            [&](auto r, auto c) { return pre(r, c) * 0.5 * std::erfc(-pre(r, c) / std::sqrt(2.0)); });
        expect_close(y, exact_y, [&](auto r, auto c) {
            return 0.5 * std::abs(pre(r, c)) * (kErfError + 4 * kF32Roundoff);
        });
        Tensor alone("y without pre", mode.storage, s.tokens, s.n);
        tested->linear_forward({x->view(), w->view(), bias->view(), alone.view(), Activation::kGelu, {}});
        expect_same_bits(alone, y);
        Tensor pre_alone("pre without y", mode.storage, s.tokens, s.n);
        tested->linear_forward({x->view(), w->view(), bias->view(), {}, Activation::kGelu, pre_alone.view()});
        expect_same_bits(pre_alone, pre);
    });
}

TEST(Linear, Backward) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto dy = make_input("dy", mode.storage, s.tokens, s.n, rng);
        const auto x = make_input("x", mode.storage, s.tokens, s.k, rng);
        const auto w = make_input("w", mode.storage, s.n, s.k, rng);
        const auto start_w = make_input("dw before", mode.storage, s.n, s.k, rng);
        const auto start_b = make_input("dbias before", mode.storage, 1, s.n, rng);
        const auto ady = absolute(*dy), ax = absolute(*x), aw = absolute(*w);
        for (const bool accumulate : {false, true}) {
            const auto run = [&](Backend& backend, const Tensor& dy_, const Tensor& x_, const Tensor& w_,
                                 Tensor& dx, Tensor& dw, Tensor& dbias, bool magnitude) {
                if (accumulate) {
                    dw.fill([&](auto r, auto c) {
                        const double v = (*start_w)(r, c);
                        return magnitude ? std::abs(v) : v;
                    });
                    dbias.fill([&](auto r, auto c) {
                        const double v = (*start_b)(r, c);
                        return magnitude ? std::abs(v) : v;
                    });
                }
                backend.linear_backward(
                    {dy_.view(), x_.view(), w_.view(), dx.view(), dw.view(), dbias.view(), accumulate});
            };
            Tensor dx("dx", mode.storage, s.tokens, s.k), dw("dw", mode.storage, s.n, s.k);
            Tensor dbias("dbias", mode.storage, 1, s.n);
            Tensor edx("exact dx", DType::kF64, s.tokens, s.k), edw("exact dw", DType::kF64, s.n, s.k);
            Tensor edb("exact dbias", DType::kF64, 1, s.n);
            Tensor sdx("size dx", DType::kF64, s.tokens, s.k), sdw("size dw", DType::kF64, s.n, s.k);
            Tensor sdb("size dbias", DType::kF64, 1, s.n);
            run(*tested, *dy, *x, *w, dx, dw, dbias, false);
            run(*truth, *dy, *x, *w, edx, edw, edb, false);
            run(*truth, *ady, *ax, *aw, sdx, sdw, sdb, true);
            expect_close(dx, edx, [&](auto r, auto c) { return sum_error(s.n) * sdx(r, c); });
            expect_close(dw, edw, [&](auto r, auto c) { return sum_error(s.tokens + 1) * sdw(r, c); });
            expect_close(dbias, edb, [&](auto r, auto c) { return sum_error(s.tokens + 1) * sdb(r, c); });
        }
        // dx, dw and dbias may be empty; two calls give the bits of one.
        Tensor dw("dw", mode.storage, s.n, s.k), full("dw of all", mode.storage, s.n, s.k);
        Tensor dx("dx", mode.storage, s.tokens, s.k), dbias("dbias", mode.storage, 1, s.n);
        tested->linear_backward({dy->view(), x->view(), w->view(), {}, dw.view(), {}, false});
        tested->linear_backward(
            {dy->view(), x->view(), w->view(), dx.view(), full.view(), dbias.view(), false});
        expect_same_bits(dw, full);
        Tensor alone("dx alone", mode.storage, s.tokens, s.k);
        tested->linear_backward({dy->view(), {}, w->view(), alone.view(), {}, {}, false});
        expect_same_bits(alone, dx);
    });
}

TEST(Linear, GeluBackward) {
    const auto truth = make_reference_backend();
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto pre = make_input("pre", mode.storage, s.tokens, s.n, rng, 3);
        const auto dy = make_input("dy", mode.storage, s.tokens, s.n, rng);
        Tensor in_place("dy in place", mode.storage, s.tokens, s.n),
            exact("exact", DType::kF64, s.tokens, s.n);
        in_place.copy(*dy);
        exact.copy(*dy);
        Tensor gelu("gelu again", mode.storage, s.tokens, s.n),
            gelu_exact("gelu", DType::kF64, s.tokens, s.n);
        tested->gelu_backward({pre->view(), in_place.view(), gelu.view()});
        truth->gelu_backward({pre->view(), exact.view(), gelu_exact.view()});
        expect_close(gelu, gelu_exact, [&](auto r, auto c) {
            return 0.5 * std::abs((*pre)(r, c)) * (kErfError + 4 * kF32Roundoff);
        });
        // gelu may be pre itself.
        Tensor over_pre("gelu over pre", mode.storage, s.tokens, s.n),
            again("dy again", mode.storage, s.tokens, s.n);
        over_pre.copy(*pre);
        again.copy(*dy);
        tested->gelu_backward({over_pre.view(), again.view(), over_pre.view()});
        expect_same_bits(over_pre, gelu);
        expect_same_bits(again, in_place);
        // Phi(x) + x phi(x): errors of erf, of e^(-x^2 / 2) (whose exponent is rounded twice), of the sums.
        expect_close(in_place, exact, [&](auto r, auto c) {
            const double x = (*pre)(r, c);
            const double density = std::abs(x) * 0.399 * std::exp(-0.5 * x * x);
            const double error =
                0.5 * kErfError + 4 * kF32Roundoff + density * (kExpError + (4 + x * x) * kF32Roundoff);
            return std::abs((*dy)(r, c)) * error + kF32Roundoff * std::abs(exact(r, c));
        });
    });
}

// Codes of what a GELU sees: the magnitudes of E3M4 times 16 with two exponents more above.
TEST(PreCodes, AreTheNearest) {
    constexpr MiniFloat kFormat{4, 4, 3, 159};
    for (std::uint32_t code = 0; code < 256; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        const int count = static_cast<int>(code) - kPreZero;
        const float size = kFormat.decode(static_cast<std::uint32_t>(std::abs(count)));
        EXPECT_EQ(pre_of(byte), count < 0 ? -size : size);
        EXPECT_EQ(pre_code(pre_of(byte)), byte);
        if (std::abs(count) < 128) {
            EXPECT_EQ(size, 16 * kE3M4.decode(static_cast<std::uint32_t>(std::abs(count))));
        }
    }
    EXPECT_EQ(pre_of(0), kLeastPre);
    EXPECT_EQ(pre_of(255), kLargestPre);
    const auto expected = [&](float x) {
        if (std::isnan(x) || x < kLeastPre) return 0;
        const auto count = static_cast<int>(round_nearest(kFormat, std::abs(x)) & 0xffu);
        return x < 0 ? kPreZero - count : kPreZero + count;
    };
    // Every BF16 number, and FP32 numbers around the middles.
    for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
        const float x = to_float(Bf16{static_cast<std::uint16_t>(bits)});
        ASSERT_EQ(pre_code(x), expected(x)) << x;
    }
    for (int code = 0; code < 255; ++code) {
        const float a = pre_of(static_cast<std::uint8_t>(code)),
                    b = pre_of(static_cast<std::uint8_t>(code + 1));
        const float middle = (a + b) / 2;
        for (const float x : {middle, std::nextafter(middle, a), std::nextafter(middle, b)})
            ASSERT_EQ(pre_code(x), expected(x)) << x;
    }
}

// y is what it is with pre kept, and the codes are those of that pre.
TEST(Linear, ForwardWithGeluGivesCodes) {
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto x = make_input("x", mode.storage, s.tokens, s.k, rng, 2);
        const auto w = make_input("w", mode.storage, s.n, s.k, rng, 0.5);
        const auto bias = make_input("bias", mode.storage, 1, s.n, rng);
        const auto truth = make_reference_backend();
        for (Backend* backend : {&*tested, truth.get()}) {
            Tensor y("y", mode.storage, s.tokens, s.n), pre("pre", mode.storage, s.tokens, s.n);
            Tensor same("y with codes", mode.storage, s.tokens, s.n),
                codes("codes", DType::kU8, s.tokens, s.n);
            backend->linear_forward(
                {x->view(), w->view(), bias->view(), y.view(), Activation::kGelu, pre.view()});
            backend->linear_forward(
                {x->view(), w->view(), bias->view(), same.view(), Activation::kGelu, codes.view()});
            expect_same_bits(same, y);
            const auto found = codes.bytes();
            for (std::int64_t r = 0; r < s.tokens; ++r)
                for (std::int64_t c = 0; c < s.n; ++c)
                    ASSERT_EQ(found[static_cast<std::size_t>(r * s.n + c)],
                              pre_code(static_cast<float>(pre(r, c))))
                        << pre(r, c);
        }
    });
}

// Of codes, all is as of the numbers that they stand for.
TEST(Linear, GeluBackwardOfCodes) {
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto dy = make_input("dy", mode.storage, s.tokens, s.n, rng);
        Tensor codes("codes", DType::kU8, s.tokens, s.n), pre("pre", mode.storage, s.tokens, s.n);
        const auto code_at = [&](auto r, auto c) {
            return static_cast<std::uint8_t>((r * s.n + c) * 37 % 256);
        };
        for (std::int64_t r = 0; r < s.tokens; ++r)
            for (std::int64_t c = 0; c < s.n; ++c) codes.view().codes()[r * s.n + c] = code_at(r, c);
        pre.fill([&](auto r, auto c) { return pre_of(code_at(r, c)); });
        const auto truth = make_reference_backend();
        for (Backend* backend : {&*tested, truth.get()}) {
            Tensor a("dy", mode.storage, s.tokens, s.n), b("dy of codes", mode.storage, s.tokens, s.n);
            Tensor gelu_a("gelu", mode.storage, s.tokens, s.n),
                gelu_b("gelu of codes", mode.storage, s.tokens, s.n);
            Tensor dbias_a("dbias", DType::kF32, 1, s.n), dbias_b("dbias of codes", DType::kF32, 1, s.n);
            a.copy(*dy);
            b.copy(*dy);
            backend->gelu_backward({pre.view(), a.view(), gelu_a.view(), dbias_a.view()});
            backend->gelu_backward({codes.view(), b.view(), gelu_b.view(), dbias_b.view()});
            expect_same_bits(b, a);
            expect_same_bits(gelu_b, gelu_a);
            expect_same_bits(dbias_b, dbias_a);
        }
    });
}

// The bias gradient that comes with it: sums of what was stored, added to what was there; the rest is as
// without it.
TEST(Linear, GeluBackwardGivesTheBiasGradient) {
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto pre = make_input("pre", mode.storage, s.tokens, s.n, rng, 3);
        const auto dy = make_input("dy", mode.storage, s.tokens, s.n, rng);
        Tensor plain("dy without bias", mode.storage, s.tokens, s.n);
        plain.copy(*dy);
        tested->gelu_backward({pre->view(), plain.view()});
        for (const DType gradients : {mode.storage, DType::kF32})
            for (const bool accumulate : {false, true})
                for (const bool again : {false, true}) {
                    const auto start = make_input("dbias before", gradients, 1, s.n, rng);
                    Tensor in_place("dy in place", mode.storage, s.tokens, s.n);
                    Tensor gelu("gelu again", mode.storage, s.tokens, s.n), dbias("dbias", gradients, 1, s.n);
                    in_place.copy(*dy);
                    if (accumulate) dbias.copy(*start);
                    tested->gelu_backward({pre->view(), in_place.view(), again ? gelu.view() : View{},
                                           dbias.view(), accumulate});
                    expect_same_bits(in_place, plain);
                    expect_column_sums(dbias, in_place, accumulate ? start.get() : nullptr);
                }
    });
}

// With the product before it: what the two ops give. (Larger ones on a GPU: products_test.cpp.)
TEST(Linear, GeluBackwardOfAProduct) {
    for_each_case([&](const Mode& mode, const Shape& s, Reserved& tested, Rng& rng) {
        const auto pre = make_input("pre", mode.storage, s.tokens, s.n, rng, 3);
        const auto dz = make_input("dz", mode.storage, s.tokens, s.k, rng);
        const auto w = make_input("w", mode.storage, s.k, s.n, rng);
        Tensor dx("dx", mode.storage, s.tokens, s.n), gelu("gelu", mode.storage, s.tokens, s.n),
            dbias("dbias", DType::kF32, 1, s.n);
        tested->linear_backward({dz->view(), {}, w->view(), dx.view(), {}, {}});
        tested->gelu_backward({pre->view(), dx.view(), gelu.view(), dbias.view()});
        Tensor dy("dy", mode.storage, s.tokens, s.n), again("gelu again", mode.storage, s.tokens, s.n),
            sums("sums", DType::kF32, 1, s.n);
        tested->gelu_backward(
            {pre->view(), dy.view(), again.view(), sums.view(), false, {}, false, dz->view(), w->view()});
        expect_same_bits(dy, dx);
        expect_same_bits(again, gelu);
        expect_same_bits(sums, dbias);
    });
}

// The number of threads changes no bit.
TEST(Linear, RunsAndThreadsDoNotMatter) {
    const Shape s{259, 33, 130};
    for (const Mode& mode : tested_modes()) {
        SCOPED_TRACE(describe(mode));
        std::vector<std::vector<unsigned char>> results;
        for (const int threads : {1, 2, 3}) {
            Rng rng(5);
            Reserved tested(make_tested_backend(mode.products, threads), workload_of(s));
            const auto dy = make_input("dy", mode.storage, s.tokens, s.n, rng);
            const auto x = make_input("x", mode.storage, s.tokens, s.k, rng);
            const auto w = make_input("w", mode.storage, s.n, s.k, rng);
            Tensor dx("dx", mode.storage, s.tokens, s.k), dw("dw", mode.storage, s.n, s.k);
            Tensor dbias("dbias", mode.storage, 1, s.n), y("y", mode.storage, s.tokens, s.n);
            tested->linear_forward({x->view(), w->view(), {}, y.view(), Activation::kNone, {}});
            tested->linear_backward(
                {dy->view(), x->view(), w->view(), dx.view(), dw.view(), dbias.view(), false});
            Tensor dpre("dpre", mode.storage, s.tokens, s.n), up_dbias("dbias of pre", mode.storage, 1, s.n);
            dpre.copy(*dy);
            tested->gelu_backward({y.view(), dpre.view(), {}, up_dbias.view(), false});
            std::vector<unsigned char> all;
            for (const Tensor* t : {&y, &dx, &dw, &dbias, &dpre, &up_dbias}) {
                const auto bytes = t->bytes();
                all.insert(all.end(), bytes.begin(), bytes.end());
            }
            results.push_back(std::move(all));
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0], results[2]);
    }
}

}  // namespace
}  // namespace elmo::testing_ops::linear_test
