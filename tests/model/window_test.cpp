// A text of several windows: each is a sequence with its own positions, the text vector is the mean over all
// tokens, and gradients are those of that. Without long texts nothing changes by a bit.
#include "elmo/config.h"
#include "elmo/error.h"
#include "harness.h"
#include "model/encoder/hf_config.h"

namespace elmo {
namespace {

using namespace test;

const std::vector<std::vector<std::int32_t>> kLong = {
    {3, 5, 5, 12, 7, 9, 8, 11, 4, 6}, {7, 6}, {9, 20, 21, 4, 2}};

class Windows : public testing::TestWithParam<std::string> {
  protected:
    static EncoderSpec spec(std::int64_t window, DType dtype = DType::kF64) {
        EncoderSpec spec = spec_of(GetParam(), dtype);
        spec.pooling = Pooling::kMean;
        spec.window = window;
        return spec;
    }
};
INSTANTIATE_TEST_SUITE_P(Families, Windows, testing::Values("bert", "roberta", "mpnet"));

TEST_P(Windows, AreSequencesOfTheirOwn) {
    const std::int64_t D = spec(4).width;
    Model windowed(make_reference_backend(), spec(4), 3, 20), plain(make_reference_backend(), spec(0), 7, 20);
    for (Model* model : {&windowed, &plain}) model->encoder->initialise(1);
    const auto found = windowed.values(windowed.encoder->forward(pack(kLong).batch(), false, 1, 1));
    ASSERT_EQ(found.size(), static_cast<std::size_t>(3 * D));
    const Texts cut = pack({{3, 5, 5, 12}, {7, 9, 8, 11}, {4, 6}, {7, 6}, {9, 20, 21, 4}, {2}});
    const auto parts = plain.values(plain.encoder->forward(cut.batch(), false, 1, 1));
    const std::vector<std::vector<std::pair<int, double>>> made_of = {
        {{0, 0.4}, {1, 0.4}, {2, 0.2}}, {{3, 1.0}}, {{4, 0.8}, {5, 0.2}}};
    for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t d = 0; d < D; ++d) {
            double expected = 0;
            for (const auto& [part, share] : made_of[static_cast<std::size_t>(b)])
                expected += share * parts[static_cast<std::size_t>(part * D + d)];
            EXPECT_NEAR(found[static_cast<std::size_t>(b * D + d)], expected, 1e-12);
        }
}

// Within what the storage of sums in another order may differ by.
void expect_same_gradients(Model& windowed, Model& plain, double bound) {
    for (Model* model : {&windowed, &plain}) model->encoder->initialise(1);
    const std::int64_t D = windowed.encoder->spec().width;
    const Texts whole = pack(kLong),
                cut = pack({{3, 5, 5, 12}, {7, 9, 8, 11}, {4, 6}, {7, 6}, {9, 20, 21, 4}, {2}});
    std::vector<double> dx, dparts;
    for (std::int64_t i = 0; i < 3 * D; ++i) dx.push_back(std::sin(static_cast<double>(i)));
    const std::pair<int, double> of[] = {{0, 0.4}, {0, 0.4}, {0, 0.2}, {1, 1.0}, {2, 0.8}, {2, 0.2}};
    for (const auto& [text, share] : of)
        for (std::int64_t d = 0; d < D; ++d)
            dparts.push_back(share * dx[static_cast<std::size_t>(text * D + d)]);
    windowed.encoder->forward(whole.batch(), true, 1, 1);
    windowed.set(windowed.dx_BD.first(3), dx);
    windowed.encoder->backward(whole.batch(), windowed.dx_BD.first(3), false);
    plain.encoder->forward(cut.batch(), true, 1, 1);
    plain.set(plain.dx_BD.first(6), dparts);
    plain.encoder->backward(cut.batch(), plain.dx_BD.first(6), false);
    for (std::size_t i = 0; i < plain.encoder->parameters().size(); ++i) {
        const Parameter &a = windowed.encoder->parameters()[i], &b = plain.encoder->parameters()[i];
        EXPECT_LE(relative_error(windowed.values(a.grad), plain.values(b.grad)), bound) << a.name;
    }
}

TEST_P(Windows, GiveTheGradientsOfTheirMean) {
    Model windowed(make_reference_backend(), spec(4), 3, 20), plain(make_reference_backend(), spec(0), 6, 20);
    expect_same_gradients(windowed, plain, 1e-11);
}

TEST_P(Windows, GiveTheGradientsOfTheirMeanOnTheDevice) {
    Model windowed(make_backend("cpu"), spec(4, DType::kF32), 3, 20),
        plain(make_backend("cpu"), spec(0, DType::kF32), 6, 20);
    expect_same_gradients(windowed, plain, 1e-4);
}

TEST_P(Windows, ShortTextsHaveTheSameBits) {
    const Texts texts = pack({{3, 5, 5, 12}, {7, 6}, {9}});
    std::vector<std::string> bits;
    for (const std::int64_t window : {0, 4}) {
        EncoderSpec small = spec(window);
        small.dtype = DType::kBf16;
        Model model(make_backend("cpu"), small, 3, 20);
        model.encoder->initialise(1);
        bits.push_back(model.bytes(model.encoder->forward(texts.batch(), false, 1, 1)));
    }
    EXPECT_EQ(bits[0], bits[1]);
}

TEST_P(Windows, AttentionIsPlannedForAWindow) {
    Model windowed(make_backend("cpu"), spec(4), 3, 20), plain(make_backend("cpu"), spec(0), 3, 20);
    EXPECT_EQ(windowed.workload.longest, 4);
    EXPECT_EQ(plain.workload.longest, 20);
}

TEST(WindowSpec, IsTheLengthThatTextsAreCutAt) {
    Config config;
    config.encoder = std::string(ELMO_SOURCE_DIR) + "/tests/model/golden/roberta";  // 7 positions
    config.windows = 3;
    config.max_length = 5;
    EXPECT_EQ(make_encoder_spec(config, 9).window, 5);
    config.max_length = 100;
    const EncoderSpec spec = make_encoder_spec(config, 9);
    EXPECT_EQ(spec.window, 7);
    // A checkpoint says so too, and a run that is made of it need not have windows.
    EXPECT_EQ(parse_model_config(model_config_text(spec), "c").window, 7);
    config.windows = 1;
    EXPECT_EQ(make_encoder_spec(config, 9).window, 0);
    EXPECT_EQ(model_config_text(make_encoder_spec(config, 9)).find("elmo_window"), std::string::npos);
    config.windows = 2;
    config.pooling = "cls";
    EXPECT_THROW(make_encoder_spec(config, 9), ConfigError);
    config.pooling = "mean";
    config.encoder = "bag";
    EXPECT_THROW(make_encoder_spec(config, 9), ConfigError);
}

}  // namespace
}  // namespace elmo
