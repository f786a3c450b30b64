// Gradients against finite differences in FP64 on the reference, with every dropout on: the backward must
// meet the same masks as the forward.
#include "harness.h"

namespace elmo {
namespace {

using namespace test;

// Checks d(sum of pooled * r) for elements of every parameter. Central differences with step h are wrong by
// h^2 (third derivative) and by roundoff / h: at h = 1e-5 both are near 1e-10 of the tensor's largest.
void check_gradients(Model& model, const Texts& texts, std::int64_t stride) {
    const std::int64_t B = texts.batch().size(), D = model.encoder->spec().width;
    std::vector<double> r(static_cast<std::size_t>(B * D));
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = std::sin(static_cast<double>(i) + 1.0);
    const auto objective = [&] {
        const std::vector<double> pooled = model.values(model.encoder->forward(texts.batch(), true, 5, 17));
        double sum = 0;
        for (std::size_t i = 0; i < r.size(); ++i) sum += pooled[i] * r[i];
        return sum;
    };
    const View dpooled = model.dx_BD.first(B);
    model.set(dpooled, r);
    model.encoder->forward(texts.batch(), true, 5, 17);
    model.encoder->backward(texts.batch(), dpooled, false);
    const double h = 1e-5;
    for (const Parameter& p : model.encoder->parameters()) {
        const std::vector<double> gradient = model.values(p.grad);
        const double scale = std::max(max_abs(gradient), 1e-3);
        for (std::int64_t i = 0; i < p.w.size(); i += stride) {
            double& w = p.w.as<double>()[i];
            const double before = w;
            w = before + h;
            const double up = objective();
            w = before - h;
            const double down = objective();
            w = before;
            ASSERT_NEAR((up - down) / (2 * h), gradient[static_cast<std::size_t>(i)], 1e-7 * scale)
                << p.name << " element " << i;
        }
    }
}

EncoderSpec bag_spec() {
    EncoderSpec spec;
    spec.family = "bag";
    spec.vocab = 13;
    spec.width = 7;
    spec.intermediate = 9;
    spec.norm_epsilon = 1e-6f;
    spec.initializer_range = 0.5f;
    spec.dtype = DType::kF64;
    return spec;
}

// Gains and biases away from their constants: with zero biases an empty text has nothing to normalise, and
// there the derivatives of a norm are too large for differences.
void disturb(Model& model) {
    for (const Parameter& p : model.encoder->parameters())
        if (p.sigma == 0)
            for (std::int64_t i = 0; i < p.w.size(); ++i)
                p.w.as<double>()[i] += 0.5 * std::sin(3.0 * static_cast<double>(i) + 1);
}

const Texts kBagTexts = pack({{3, 5, 5, 12}, {0}, {}, {7, 1, 2}});

TEST(Gradient, Bag) {
    Model model(make_reference_backend(), bag_spec(), 5, 12);
    model.encoder->initialise(3);
    disturb(model);
    check_gradients(model, kBagTexts, 1);
}

TEST(Gradient, BagWithDropout) {
    EncoderSpec spec = bag_spec();
    spec.hidden_dropout = 0.3f;
    spec.pooled_dropout = 0.4f;
    Model model(make_reference_backend(), spec, 5, 12);
    model.encoder->initialise(3);
    disturb(model);
    check_gradients(model, kBagTexts, 1);
}

class FamilyGradient : public testing::TestWithParam<std::string> {};

TEST_P(FamilyGradient, WithEveryDropout) {
    const fs::path folder = fs::path(ELMO_SOURCE_DIR) / "tests/model/golden" / GetParam();
    EncoderSpec spec = read_encoder_spec(folder);
    spec.dtype = DType::kF64;
    spec.hidden_dropout = 0.2f;
    spec.attention_dropout = 0.3f;
    spec.pooled_dropout = 0.4f;
    Model model(make_reference_backend(), spec, 3, 16);
    model.encoder->initialise(3);
    check_gradients(model, pack({{3, 5, 5, 12}, {}, {7, 6, 2, 9, 20, 21, 4}}), 29);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGradient, testing::Values("bert", "distilbert", "roberta", "mpnet"));

}  // namespace
}  // namespace elmo
