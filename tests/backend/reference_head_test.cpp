// The reference head against a computation by hand, and the rules that a formula does not show.
#include "op_harness.h"

namespace elmo::testing_ops::reference_head_test {
namespace {

struct Step {
    std::unique_ptr<Backend> backend = make_reference_backend();
    HeadStepResult run(const Tensor& x, Tensor& w, const PositiveList& positives, float lr, float decay,
                       Tensor& dx) {
        HeadStep op;
        op.x_BD = x.view();
        op.w_LD = w.view();
        op.positives = positives;
        op.lr = lr;
        op.weight_decay = decay;
        op.rounding = {1, 2, 3};
        op.dx_BD = dx.view();
        op.want_loss = true;
        return backend->head_step(op);
    }
};

TEST(ReferenceHead, ByHand) {
    Tensor x("x", DType::kF64, 2, 2), w("w", DType::kF64, 2, 2), dx("dx", DType::kF64, 2, 2);
    // z = x w^T: chosen to be ln 3 and its multiples, so that sigmoid is 3/4, 1/4, 1/2, 9/10.
    const double ln3 = std::log(3.0);
    x.set(0, 0, 1), x.set(0, 1, 0), x.set(1, 0, 0), x.set(1, 1, 2);
    w.set(0, 0, ln3), w.set(0, 1, 0), w.set(1, 0, -ln3), w.set(1, 1, ln3);
    x.freeze();
    const auto result = Step{}.run(x, w, {{0, 0}, {1, 1}}, 0.5f, 0.25f, dx);
    // z: sample 0 (ln3, -ln3), sample 1 (0, 2 ln3). g = p - y.
    const double g00 = 0.75 - 1, g01 = 0.25, g10 = 0.5, g11 = 0.9 - 1;
    EXPECT_NEAR(dx(0, 0), g00 * ln3 + g01 * -ln3, 1e-15);
    EXPECT_NEAR(dx(0, 1), g01 * ln3, 1e-15);
    EXPECT_NEAR(dx(1, 0), g10 * ln3 + g11 * -ln3, 1e-15);
    EXPECT_NEAR(dx(1, 1), g11 * ln3, 1e-15);
    const double keep = 1 - 0.5 * 0.25;
    EXPECT_NEAR(w(0, 0), ln3 * keep - 0.5 * g00, 1e-15);
    EXPECT_NEAR(w(0, 1), -0.5 * g10 * 2, 1e-15);
    EXPECT_NEAR(w(1, 0), -ln3 * keep - 0.5 * g01, 1e-15);
    EXPECT_NEAR(w(1, 1), ln3 * keep - 0.5 * g11 * 2, 1e-15);
    const double loss = -std::log(0.75) - std::log(0.75) - std::log(0.5) - std::log(0.9);
    EXPECT_NEAR(result.loss_sum, loss, 1e-14);
    EXPECT_EQ(result.saturations, 0);
}

// BF16 input: g is rounded after the subtraction, the weights stochastically with the addressed noise.
TEST(ReferenceHead, RoundsGradientAndWeights) {
    for (const DType storage : {DType::kBf16, DType::kE4M3, DType::kE3M4}) {
        Tensor x("x", DType::kBf16, 1, 3), w("w", storage, 2, 3), dx("dx", DType::kF32, 1, 3);
        x.fill([](auto, auto c) { return 0.5 + 0.25 * static_cast<double>(c); });
        w.fill([](auto r, auto c) { return 0.125 * static_cast<double>(r + c) - 0.25; });
        x.freeze();
        std::vector<std::vector<double>> before(2, std::vector<double>(3));
        for (int l = 0; l < 2; ++l)
            for (int d = 0; d < 3; ++d) before[l][d] = w(l, d);
        Step{}.run(x, w, {{1, 0}}, 0.3f, 0, dx);
        for (int l = 0; l < 2; ++l) {
            double z = 0;
            for (int d = 0; d < 3; ++d) z += x(0, d) * before[l][d];  // x is representable in E4M3
            const double exact = 1 / (1 + std::exp(-z)) - (l == 1 ? 1 : 0);
            const double g = to_float(to_bf16(static_cast<float>(exact)));
            for (int d = 0; d < 3; ++d) {
                const auto value = static_cast<float>(before[l][d] - double{0.3f} * g * x(0, d));
                const std::uint16_t noise = noise16({1, 2, 3}, l, d);
                const double expected =
                    storage == DType::kBf16   ? to_float(round_stochastic_bf16(value, noise))
                    : storage == DType::kE4M3 ? kE4M3.decode(round_stochastic(kE4M3, value, noise))
                                              : kE3M4.decode(round_stochastic(kE3M4, value, noise));
                EXPECT_EQ(w(l, d), expected);
            }
        }
    }
}

// X goes through E4M3 for the logits of E4M3 weights, and only there.
TEST(ReferenceHead, E4M3CastsInputForLogitsAlone) {
    Tensor x("x", DType::kF64, 1, 1), w("w", DType::kE4M3, 1, 1), dx("dx", DType::kF64, 1, 1);
    x.set(0, 0, 1.0625 + 1.0 / 128);  // nearest E4M3: 1.125
    w.set(0, 0, 2);
    Step{}.run(x, w, {}, 64.0f, 0, dx);
    const double g = 1 / (1 + std::exp(-2.25));
    EXPECT_NEAR(dx(0, 0), g * 2, 1e-15);
    const auto value = static_cast<float>(2 - 64 * g * (1.0625 + 1.0 / 128));
    EXPECT_EQ(w(0, 0), kE4M3.decode(round_stochastic(kE4M3, value, noise16({1, 2, 3}, 0, 0))));
}

TEST(ReferenceHead, SaturationsAreCounted) {
    Tensor x("x", DType::kBf16, 1, 2), w("w", DType::kE3M4, 1, 2), dx("dx", DType::kF32, 1, 2);
    x.fill([](auto, auto c) { return c == 0 ? 1.0 : 0.0; });
    w.fill([](auto, auto) { return 1.9375; });
    EXPECT_EQ(Step{}.run(x, w, {{0, 0}}, 100.0f, 0, dx).saturations, 1);
    EXPECT_EQ(w(0, 0), 1.9375);
    EXPECT_EQ(w(0, 1), 1.9375);
}

TEST(ReferenceHead, TopKTiesByLowerLabel) {
    Tensor x("x", DType::kF64, 2, 1), w("w", DType::kF64, 4, 1);
    x.set(0, 0, 1), x.set(1, 0, -1);
    const double weights[] = {0.5, 2, 0.5, -1};
    w.fill([&](auto r, auto) { return weights[r]; });
    const auto best = make_reference_backend()->head_topk({x.view(), w.view(), 3});
    ASSERT_EQ(best.size(), 2u);
    EXPECT_EQ(best[0].sorted(), (std::vector<ScoredLabel>{{2, 1}, {0.5f, 0}, {0.5f, 2}}));
    EXPECT_EQ(best[1].sorted(), (std::vector<ScoredLabel>{{1, 3}, {-0.5f, 0}, {-0.5f, 2}}));
}

}  // namespace
}  // namespace elmo::testing_ops::reference_head_test
