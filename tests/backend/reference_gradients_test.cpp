// Every backward of the reference against central differences of its own forward, in FP64: the gradient of
// sum(out * weight) for random weights. The truncation error of a central difference with step h is h^2 / 6
// times a third derivative of order one, its rounding error 2^-53 / h: with h = 1e-5 both stay below 1e-9.
#include "op_harness.h"

namespace elmo::testing_ops::reference_gradients_test {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;

std::unique_ptr<Tensor> random_f64(std::string name, std::int64_t rows, std::int64_t cols, Rng& rng) {
    auto tensor = std::make_unique<Tensor>(std::move(name), DType::kF64, rows, cols);
    std::normal_distribution<double> normal;
    tensor->fill([&](auto, auto) { return normal(rng); });
    return tensor;
}

// loss() as a function of each element of x; gradient holds what the backward gave.
void check_gradient(Tensor& x, const Tensor& gradient, const std::function<double()>& loss) {
    ASSERT_EQ(x.rows(), gradient.rows());
    ASSERT_EQ(x.cols(), gradient.cols());
    for (std::int64_t r = 0; r < x.rows(); ++r)
        for (std::int64_t c = 0; c < x.cols(); ++c) {
            const double before = x(r, c);
            x.set(r, c, before + kStep);
            const double up = loss();
            x.set(r, c, before - kStep);
            const double down = loss();
            x.set(r, c, before);
            const double slope = (up - down) / (2 * kStep);
            ASSERT_LE(std::abs(slope - gradient(r, c)), kTolerance * (1 + std::abs(slope)))
                << x.name() << "(" << r << ", " << c << "): " << gradient(r, c) << ", differences give "
                << slope;
        }
}

double weighted(const Tensor& out, const Tensor& weight) {
    double sum = 0;
    for (std::int64_t r = 0; r < out.rows(); ++r)
        for (std::int64_t c = 0; c < out.cols(); ++c) sum += out(r, c) * weight(r, c);
    return sum;
}

class ReferenceGradients : public testing::Test {
  protected:
    std::unique_ptr<Backend> backend = make_reference_backend();
    Rng rng{42};
    std::unique_ptr<Tensor> random(std::string name, std::int64_t rows, std::int64_t cols) {
        return random_f64(std::move(name), rows, cols, rng);
    }
};

TEST_F(ReferenceGradients, LinearWithGelu) {
    const std::int64_t tokens = 3, k = 4, n = 5;
    auto x = random("x", tokens, k), w = random("w", n, k), bias = random("bias", 1, n);
    auto dy = random("dy", tokens, n);
    Tensor y("y", DType::kF64, tokens, n), pre("pre", DType::kF64, tokens, n);
    const auto loss = [&] {
        backend->linear_forward(
            {x->view(), w->view(), bias->view(), y.view(), Activation::kGelu, pre.view()});
        return weighted(y, *dy);
    };
    loss();
    Tensor dpre("dpre", DType::kF64, tokens, n), dx("dx", DType::kF64, tokens, k);
    Tensor dw("dw", DType::kF64, n, k), dbias("dbias", DType::kF64, 1, n);
    dpre.copy(*dy);
    backend->gelu_backward({pre.view(), dpre.view(), {}});
    backend->linear_backward({dpre.view(), x->view(), w->view(), dx.view(), dw.view(), dbias.view(), false});
    check_gradient(*x, dx, loss);
    check_gradient(*w, dw, loss);
    check_gradient(*bias, dbias, loss);
}

TEST_F(ReferenceGradients, LinearAccumulates) {
    auto x = random("x", 2, 3), w = random("w", 2, 3), dy = random("dy", 2, 2);
    Tensor dw("dw", DType::kF64, 2, 3), once("once", DType::kF64, 2, 3);
    const View none;
    backend->linear_backward({dy->view(), x->view(), w->view(), none, once.view(), none, false});
    dw.copy(once);
    backend->linear_backward({dy->view(), x->view(), w->view(), none, dw.view(), none, true});
    for (std::int64_t n = 0; n < 2; ++n)
        for (std::int64_t k = 0; k < 3; ++k) EXPECT_DOUBLE_EQ(dw(n, k), 2 * once(n, k));
}

TEST_F(ReferenceGradients, ResidualNormWithDropout) {
    const std::int64_t tokens = 3, width = 7;
    auto a = random("a", tokens, width), residual = random("residual", tokens, width);
    auto gamma = random("gamma", 1, width), beta = random("beta", 1, width), dy = random("dy", tokens, width);
    const Dropout dropout{0.3f, {1, 2, 3}};
    Tensor sum("sum", DType::kF64, tokens, width), y("y", DType::kF64, tokens, width);
    Tensor stats("stats", DType::kF64, tokens, 2);
    const auto loss = [&] {
        backend->residual_norm_forward({a->view(), residual->view(), dropout, gamma->view(), beta->view(),
                                        1e-5f, sum.view(), y.view(), stats.view()});
        return weighted(y, *dy);
    };
    loss();
    Tensor dsum("dsum", DType::kF64, tokens, width), da("da", DType::kF64, tokens, width);
    Tensor dgamma("dgamma", DType::kF64, 1, width), dbeta("dbeta", DType::kF64, 1, width);
    backend->residual_norm_backward({dy->view(), sum.view(), stats.view(), gamma->view(), dropout,
                                     dsum.view(), da.view(), dgamma.view(), dbeta.view(), false});
    check_gradient(*a, da, loss);
    check_gradient(*residual, dsum, loss);
    check_gradient(*gamma, dgamma, loss);
    check_gradient(*beta, dbeta, loss);
    int dropped = 0;
    for (std::int64_t r = 0; r < tokens; ++r)
        for (std::int64_t c = 0; c < width; ++c) dropped += da(r, c) == 0;
    EXPECT_GT(dropped, 0);
}

TEST_F(ReferenceGradients, Attention) {
    const std::int64_t width = 6, heads = 2;
    const auto offsets = offsets_of({1, 0, 4, 3});
    const std::int64_t tokens = offsets.back();
    auto qkv = random("qkv", tokens, 3 * width), dcontext = random("dcontext", tokens, width);
    Tensor context("context", DType::kF64, tokens, width), lse("lse", DType::kF64, tokens, heads);
    for (const float p : {0.0f, 0.4f}) {
        const Dropout dropout{p, {4, 5, 6}};
        const auto loss = [&] {
            backend->attention_forward({qkv->view(), offsets, heads, dropout, context.view(), lse.view()});
            return weighted(context, *dcontext);
        };
        loss();
        Tensor dqkv("dqkv", DType::kF64, tokens, 3 * width);
        backend->attention_backward({dcontext->view(), qkv->view(), context.view(), lse.view(), offsets,
                                     heads, dropout, dqkv.view()});
        check_gradient(*qkv, dqkv, loss);
    }
}

// A text of one token attends only to itself; texts do not see each other.
TEST_F(ReferenceGradients, AttentionStaysInsideTheText) {
    const std::int64_t width = 4;
    const auto offsets = offsets_of({1, 2});
    auto qkv = random("qkv", 3, 3 * width);
    Tensor context("context", DType::kF64, 3, width);
    backend->attention_forward({qkv->view(), offsets, 2, {}, context.view(), {}});
    for (std::int64_t d = 0; d < width; ++d) EXPECT_DOUBLE_EQ(context(0, d), (*qkv)(0, 2 * width + d));
    const double before = context(0, 1);
    qkv->set(1, 2 * width + 1, 100);
    backend->attention_forward({qkv->view(), offsets, 2, {}, context.view(), {}});
    EXPECT_EQ(context(0, 1), before);
    EXPECT_GT(context(2, 1), 1);
}

TEST_F(ReferenceGradients, Embedding) {
    const std::int64_t width = 3, vocab = 5, positions = 7;
    const auto offsets = offsets_of({2, 0, 3, 1});
    const std::vector<std::int32_t> tokens = {4, 1, 1, 1, 0, 4};
    auto word = random("word", vocab, width), position = random("position", positions, width);
    auto type = random("type", 1, width), dout = random("dout", 6, width);
    Tensor out("out", DType::kF64, 6, width);
    const auto loss = [&] {
        backend->embed_forward(
            {tokens, offsets, word->view(), position->view(), type->view(), 2, out.view()});
        return weighted(out, *dout);
    };
    Tensor dword("dword", DType::kF64, vocab, width), dposition("dposition", DType::kF64, positions, width);
    Tensor dtype("dtype", DType::kF64, 1, width);
    backend->embed_backward(
        {dout->view(), tokens, offsets, dword.view(), dposition.view(), dtype.view(), 2, false});
    check_gradient(*word, dword, loss);
    check_gradient(*position, dposition, loss);
    check_gradient(*type, dtype, loss);
}

TEST_F(ReferenceGradients, PoolingAndBag) {
    const std::int64_t width = 5, vocab = 4;
    const auto offsets = offsets_of({3, 0, 1, 2});
    const std::vector<std::int32_t> tokens = {3, 3, 0, 2, 1, 3};
    auto x = random("x", 6, width), word = random("word", vocab, width), dout = random("dout", 4, width);
    Tensor out("out", DType::kF64, 4, width);
    for (const Pooling pooling : {Pooling::kMean, Pooling::kCls}) {
        const Dropout dropout{0.5f, {7, 8, 9}};
        const auto loss = [&] {
            backend->pool_forward({x->view(), offsets, pooling, dropout, out.view()});
            return weighted(out, *dout);
        };
        Tensor dx("dx", DType::kF64, 6, width);
        backend->pool_backward({dout->view(), offsets, pooling, dropout, dx.view()});
        check_gradient(*x, dx, loss);
        for (std::int64_t d = 0; d < width; ++d) EXPECT_EQ(out(1, d), 0);
    }
    const auto loss = [&] {
        backend->bag_forward({tokens, offsets, word->view(), out.view()});
        return weighted(out, *dout);
    };
    Tensor dword("dword", DType::kF64, vocab, width);
    backend->bag_backward({dout->view(), tokens, offsets, dword.view(), false});
    check_gradient(*word, dword, loss);
}

// The head has no gradient of W to look at: with lr = 1 and F64 weights the update is its negative.
TEST_F(ReferenceGradients, Head) {
    const std::int64_t batch = 3, width = 4, labels = 5;
    auto x = random("x", batch, width), w = random("w", labels, width);
    PositiveList positives = {{0, 1}, {0, 2}, {3, 0}};
    positives.weigh(std::vector<float>{3, 1, 1, 0.25f, 1});
    Tensor dx("dx", DType::kF64, batch, width), scratch("scratch", DType::kF64, batch, width);
    const auto step = [&](float lr, View dx_BD, View w_LD) {
        HeadStep op;
        op.x_BD = x->view();
        op.w_LD = w_LD;
        op.positives = positives;
        op.lr = lr;
        op.dx_BD = dx_BD;
        op.want_loss = true;
        return backend->head_step(op).loss_sum;
    };
    const auto loss = [&] { return step(0, scratch.view(), w->view()); };
    Tensor after("after", DType::kF64, labels, width), dw("dw", DType::kF64, labels, width);
    after.copy(*w);
    step(1, dx.view(), after.view());
    dw.fill([&](auto r, auto c) { return (*w)(r, c) - after(r, c); });
    check_gradient(*x, dx, loss);
    check_gradient(*w, dw, loss);
}

}  // namespace
}  // namespace elmo::testing_ops::reference_gradients_test
