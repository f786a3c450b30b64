// What the backward computes again has the bits that the forward had: in every mode, gradients and
// weights are the same, and the memory of a layer is what the mode promises. Where pre-activations, or
// queries, keys and values too, are kept as codes, gradients are close to that, whatever the other layers do.
#include "elmo/error.h"
#include "harness.h"
#include "model/encoder/bert_encoder.h"

namespace elmo::recompute_test {
namespace {

using namespace test;

constexpr Recompute kNone = Recompute::kNone, kCheap = Recompute::kCheap,
                    kCompressed = Recompute::kCompressed, kCompact = Recompute::kCompact,
                    kWide = Recompute::kWide, kCompactWide = Recompute::kCompactWide,
                    kWider = Recompute::kWider, kCompressedWider = Recompute::kCompressedWider,
                    kCompactWider = Recompute::kCompactWider, kLayer = Recompute::kLayer,
                    kCompressedLayer = Recompute::kCompressedLayer;

struct Modes {
    const char* name;
    std::vector<Recompute> layers;
};
const Modes kModes[] = {{"cheap", {kCheap, kCheap, kCheap, kCheap}},
                        {"wide", {kWide, kWide, kWide, kWide}},
                        {"wide for one", {kWide, kCheap, kCheap, kCheap}},
                        {"wide below none", {kWide, kLayer, kWide, kNone}},
                        {"wider", {kWider, kWider, kWider, kWider}},
                        {"wider among others", {kWider, kLayer, kWider, kCheap}},
                        {"wider below none", {kNone, kWider, kWide, kNone}},
                        {"layers", {kLayer, kLayer, kLayer, kLayer}},
                        {"layers below wide", {kLayer, kLayer, kWide, kCheap}},
                        {"layers for one", {kLayer, kCheap, kCheap, kCheap}},
                        {"layers for three", {kLayer, kLayer, kLayer, kCheap}},
                        {"cheap below layers", {kCheap, kLayer, kNone, kLayer}},
                        {"none below cheap", {kNone, kCheap, kCheap, kNone}}};

EncoderSpec four_layers(const std::string& family, DType dtype) {
    EncoderSpec spec = read_encoder_spec(fs::path(ELMO_SOURCE_DIR) / "tests/model/golden" / family);
    spec.weights_folder = {};
    spec.initializer_range = 0.2f;  // so that layers differ from their inputs
    spec.layers = 4;
    spec.dtype = dtype;
    spec.hidden_dropout = 0.2f;
    spec.attention_dropout = 0.3f;
    spec.pooled_dropout = 0.1f;
    return spec;
}

// Batches of several sizes, one of them without a token.
const std::vector<Texts> kBatches = {pack({{3, 5, 5, 12}, {7}, {7, 1, 2, 8, 22, 6, 4}}), pack({{9, 4}, {}}),
                                     pack(std::vector<std::vector<std::int32_t>>{{}}),
                                     pack({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})};

// Trains both on all batches and compares after each; between them, an evaluation uses the buffers.
void expect_same_training(Model& plain, Model& other, std::int64_t accumulate,
                          const std::vector<Texts>& batches = kBatches) {
    for (Model* model : {&plain, &other}) model->encoder->initialise(1);
    std::int64_t step = 0;
    AdamWSettings settings;
    settings.lr = 1e-2f;
    settings.seed = 9;
    settings.t = 0;
    for (const Texts& texts : batches) {
        ++step;
        const bool updates = step % accumulate == 0;
        settings.t += updates ? 1 : 0;
        std::vector<std::string> pooled;
        for (Model* model : {&plain, &other}) {
            model->encoder->forward(batches[0].batch(), false, 0, 0);
            pooled.push_back(model->bytes(
                model->encoder->forward(texts.batch(), true, 9, static_cast<std::uint64_t>(step))));
            const View dx = model->dx_BD.first(texts.batch().size());
            std::vector<double> values(static_cast<std::size_t>(dx.size()));
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = std::cos(static_cast<double>(i) + static_cast<double>(step));
            model->set(dx, values);
            model->encoder->backward(texts.batch(), dx, accumulate > 1 && step % accumulate != 1);
            if (updates) model->encoder->update(settings);
        }
        EXPECT_EQ(pooled[0], pooled[1]);
        for (std::size_t i = 0; i < plain.encoder->parameters().size(); ++i) {
            const Parameter &a = plain.encoder->parameters()[i], &b = other.encoder->parameters()[i];
            EXPECT_EQ(plain.bytes(a.grad), other.bytes(b.grad)) << "gradient of " << a.name;
            EXPECT_EQ(plain.bytes(a.w), other.bytes(b.w)) << a.name;
        }
        if (testing::Test::HasFailure()) return;
    }
}

class EveryTransformer : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, EveryTransformer,
                         testing::Values("bert", "distilbert", "roberta", "mpnet"));

TEST_P(EveryTransformer, RecomputationDoesNotChangeABit) {
    for (const std::string device : {kTestedDevice, "reference"})
        for (const DType dtype : {DType::kBf16, DType::kF32})
            for (const std::int64_t accumulate : {1, 2})
                for (const Modes& modes : kModes) {
                    SCOPED_TRACE(device + " " + std::string(name_of(dtype)) + " " + modes.name);
                    EncoderSpec spec = four_layers(GetParam(), dtype);
                    spec.accumulate = accumulate;
                    Model plain(make_backend(device), spec, 3, 12);
                    Model other(make_backend(device), spec, 3, 12, true, 11, DType::kF32, modes.layers);
                    expect_same_training(plain, other, accumulate);
                    if (HasFailure()) return;
                }
}

TEST_P(EveryTransformer, RecomputationWithFp8AndFp16ProductsDoesNotChangeABit) {
    for (const std::string device : {kTestedDevice, "reference"})
        for (const bool fp8 : {true, false})
            for (const Modes& modes : kModes) {
                SCOPED_TRACE(device + (fp8 ? " fp8 " : " fp16 ") + modes.name);
                EncoderSpec spec = four_layers(GetParam(), fp8 ? DType::kBf16 : DType::kF32);
                spec.fp8 = fp8;
                spec.fp16 = !fp8;
                Model plain(make_backend(device), spec, 3, 12);
                Model other(make_backend(device), spec, 3, 12, true, 11, DType::kF32, modes.layers);
                expect_same_training(plain, other, 1);
                if (HasFailure()) return;
            }
}

TEST_P(EveryTransformer, RecomputationWithoutDropoutDoesNotChangeABit) {
    for (const Modes& modes : kModes) {
        SCOPED_TRACE(modes.name);
        EncoderSpec spec = four_layers(GetParam(), DType::kBf16);
        spec.hidden_dropout = spec.attention_dropout = spec.pooled_dropout = 0;
        Model plain(make_device_backend(), spec, 3, 12);
        Model other(make_device_backend(), spec, 3, 12, true, 11, DType::kF32, modes.layers);
        expect_same_training(plain, other, 1);
    }
}

// Where texts may be longer than kCheapAttention, more is kept.
TEST_P(EveryTransformer, RecomputationForLongTextsDoesNotChangeABit) {
    for (const std::string device : {kTestedDevice, "reference"})
        for (const Modes& modes : kModes) {
            SCOPED_TRACE(device + " " + modes.name);
            const EncoderSpec spec = four_layers(GetParam(), DType::kBf16);
            Model plain(make_backend(device), spec, 3, 12);
            Model other(make_backend(device), spec, 3, 12, true, 11, DType::kF32, modes.layers,
                        kCheapAttention + 1);
            expect_same_training(plain, other, 1);
            if (HasFailure()) return;
        }
}

// Batches of texts with so many tokens, up to 150 of them.
std::vector<Texts> texts_of(const std::vector<std::vector<std::size_t>>& lengths) {
    std::vector<Texts> batches;
    for (const std::vector<std::size_t>& batch : lengths) {
        std::vector<std::vector<std::int32_t>> texts;
        for (const std::size_t length : batch) {
            std::vector<std::int32_t>& text = texts.emplace_back(length);
            for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<std::int32_t>(i * i % 23);
        }
        batches.push_back(pack(texts));
    }
    return batches;
}
// Heads of 64 or 32, as a GPU's fast kernels take them.
EncoderSpec with_usual_heads(const std::string& family, std::int64_t heads) {
    EncoderSpec spec = four_layers(family, DType::kBf16);
    spec.width = spec.intermediate = 64;
    spec.heads = heads;
    spec.positions = spec.position_base + 150;
    return spec;
}

// Texts of such a length, in such heads. One batch has only short ones.
TEST_P(EveryTransformer, RecomputationOfLongTextsDoesNotChangeABit) {
    const std::vector<Texts> batches = texts_of({{90, 150}, {40, 7}, {131, 65, 70}});
    const EncoderSpec spec = with_usual_heads(GetParam(), 2);
    for (const Modes& modes : kModes) {
        SCOPED_TRACE(modes.name);
        Model plain(make_device_backend(), spec, 3, 270, true, 11, DType::kF32, {}, 150);
        Model other(make_device_backend(), spec, 3, 270, true, 11, DType::kF32, modes.layers, 150);
        expect_same_training(plain, other, 1, batches);
        if (HasFailure()) return;
    }
}

// With codes of the same layers, gradients do not depend on the modes of the others, nor on how long texts
// may be.
void expect_same_beside_others(const std::string& family, Recompute mode, Recompute more, Recompute most,
                               bool fp8 = false) {
    const std::vector<Recompute> plain_modes = {mode, kNone, mode, kNone};
    const Modes all[] = {{"cheap", {mode, kCheap, mode, kCheap}},
                         {"wide", {mode, kWide, mode, kCheap}},
                         {"wider", {mode, kWider, mode, kNone}},
                         {"layers", {mode, kLayer, mode, kCheap}},
                         {"more themselves", {more, kCheap, more, kCheap}},
                         {"most themselves", {most, kWider, most, kCheap}},
                         {"each", {most, kLayer, more, kNone}}};
    for (const std::string device : {kTestedDevice, "reference"})
        for (const DType dtype : {DType::kBf16, DType::kF32})
            for (const std::int64_t accumulate : {1, 2})
                for (const std::int64_t longest : {0, 129})
                    for (const Modes& modes : all) {
                        if (fp8 && dtype == DType::kF32) continue;
                        SCOPED_TRACE(device + " " + std::string(name_of(dtype)) + " beside " + modes.name);
                        EncoderSpec spec = four_layers(family, dtype);
                        spec.accumulate = accumulate;
                        spec.fp8 = fp8;
                        Model plain(make_backend(device), spec, 3, 12, true, 11, DType::kF32, plain_modes, 0);
                        Model other(make_backend(device), spec, 3, 12, true, 11, DType::kF32, modes.layers,
                                    longest);
                        expect_same_training(plain, other, accumulate);
                        if (testing::Test::HasFailure()) return;
                    }
}
TEST_P(EveryTransformer, CompressedLayersGiveTheSameBitsBesideAnyOthers) {
    expect_same_beside_others(GetParam(), kCompressed, kCompressedWider, kCompressedLayer);
}
TEST_P(EveryTransformer, CompactLayersGiveTheSameBitsBesideAnyOthers) {
    expect_same_beside_others(GetParam(), kCompact, kCompactWide, kCompactWider);
}
TEST_P(EveryTransformer, CompactLayersWithFp8ProductsGiveTheSameBitsBesideAnyOthers) {
    expect_same_beside_others(GetParam(), kCompact, kCompactWide, kCompactWider, true);
}

TEST_P(EveryTransformer, CompactLayersOfUsualHeadsGiveTheSameBits) {
    const std::vector<Texts> batches = texts_of({{90, 150}, {40, 7}, {128, 65, 1}, {31}});
    for (const bool fp8 : {false, true})
        for (const std::int64_t heads : {1, 2}) {
            EncoderSpec spec = with_usual_heads(GetParam(), heads);
            spec.fp8 = fp8;
            for (const std::vector<Recompute>& modes :
                 {std::vector{kCompactWide, kCompactWider, kCompactWide, kCheap},
                  std::vector{kCompactWider, kCompact, kCompactWider, kNone}}) {
                Model plain(make_device_backend(), spec, 3, 270, true, 11, DType::kF32,
                            std::vector(4, kCompact), 150);
                Model other(make_device_backend(), spec, 3, 270, true, 11, DType::kF32, modes, 150);
                expect_same_training(plain, other, 1, batches);
                if (HasFailure()) return;
            }
        }
}

// FP8 products have codes of their own.
TEST_P(EveryTransformer, CompressedWithFp8ProductsIsNothingElse) {
    EncoderSpec spec = four_layers(GetParam(), DType::kBf16);
    spec.fp8 = true;
    const std::pair<Recompute, Recompute> modes[] = {
        {kCheap, kCompressed}, {kWider, kCompressedWider}, {kLayer, kCompressedLayer}};
    for (const auto& [mode, compressed] : modes) {
        Model plain(make_device_backend(), spec, 3, 12, true, 11, DType::kF32, std::vector(4, mode));
        Model other(make_device_backend(), spec, 3, 12, true, 11, DType::kF32, std::vector(4, compressed));
        EXPECT_EQ(plain.planned_bytes, other.planned_bytes);
        expect_same_training(plain, other, 1);
    }
}

// The forward has the same bits, and so has the backward of the last layer, which has no codes, up to the
// second norm of the layer below it. Codes are off by a share of at most 1/32, and by at most 1/128 where
// that is more; the derivative of GELU changes by at most 0.8 of the difference, which is at most 0.75 % of
// what it is for large inputs, and GELU by at most 1.13 of it. So a layer's gradients are off by a share of
// about 1/32 at most, and by that for each layer above it that has codes. Compact, queries, keys and values
// are off by at most 1/127 of the largest of their vector: of up to nine numbers, by at most 1/42 of the
// vector's length, and by half of that where they are not all at their worst. Two of them are off in a score,
// and as small as scores are here (below 2), weights are off by a share of about as much; gradients have a
// third one as a factor: another 1/16.
TEST_P(EveryTransformer, GradientsOfCodesAreClose) {
    for (const auto& [mode, of_layer] :
         {std::pair{kCompressed, 1.0 / 32}, std::pair{kCompact, 1.0 / 32 + 1.0 / 16}})
        for (const std::string device : {kTestedDevice, "reference"})
            for (const DType dtype : {DType::kBf16, DType::kF32}) {
                SCOPED_TRACE(device + " " + std::string(name_of(dtype)));
                const EncoderSpec spec = four_layers(GetParam(), dtype);
                Model plain(make_backend(device), spec, 3, 12);
                Model other(make_backend(device), spec, 3, 12, true, 11, DType::kF32, std::vector(4, mode));
                const Texts& texts = kBatches[0];
                std::vector<std::string> pooled;
                for (Model* model : {&plain, &other}) {
                    model->encoder->initialise(1);
                    pooled.push_back(model->bytes(model->encoder->forward(texts.batch(), true, 9, 1)));
                    const View dx = model->dx_BD.first(texts.batch().size());
                    std::vector<double> values(static_cast<std::size_t>(dx.size()));
                    for (std::size_t i = 0; i < values.size(); ++i)
                        values[i] = std::cos(static_cast<double>(i));
                    model->set(dx, values);
                    model->encoder->backward(texts.batch(), dx, false);
                }
                EXPECT_EQ(pooled[0], pooled[1]);
                std::int64_t different = 0;
                for (std::size_t group = 0; group < plain.encoder->num_groups(); ++group) {
                    // Group 4 is the last layer.
                    const double share = (4.0 - static_cast<double>(group)) * of_layer;
                    for (std::size_t i = 0; i < plain.encoder->group(group).size(); ++i) {
                        const Parameter &a = plain.encoder->group(group)[i],
                                        &b = other.encoder->group(group)[i];
                        const std::vector<double> exact = plain.values(a.grad), found = other.values(b.grad);
                        double error = 0, size = 0;
                        for (std::size_t j = 0; j < exact.size(); ++j) {
                            error += (exact[j] - found[j]) * (exact[j] - found[j]);
                            size += exact[j] * exact[j];
                        }
                        EXPECT_LE(std::sqrt(error), share * std::sqrt(size)) << a.name;
                        different += error > 0;
                    }
                }
                EXPECT_GT(different, 0);
            }
}

std::int64_t bytes_under(const Model& model, const std::string& prefix) {
    std::int64_t bytes = 0;
    for (const Segment& segment : model.segments)
        if (segment.name.starts_with(prefix)) bytes += segment.bytes;
    return bytes;
}

TEST(Recompute, ALayerKeepsWhatItsModeSays) {
    const std::int64_t T = 1024;  // a multiple of what the arena rounds to
    const EncoderSpec spec = four_layers("bert", DType::kBf16);
    const std::int64_t D = spec.width, I = spec.intermediate, H = spec.heads;
    std::int64_t longest = kCheapAttention;
    const auto planned = [&](Recompute mode) {
        return std::make_unique<Model>(make_device_backend(), spec, 3, T, true, 11, DType::kF32,
                                       std::vector<Recompute>(4, mode), longest);
    };
    const auto none = planned(kNone), cheap = planned(kCheap), compressed = planned(kCompressed),
               compact = planned(kCompact), wide = planned(kWide), wider = planned(kWider),
               layers = planned(kLayer);
    EXPECT_EQ(bytes_under(*none, "encoder/layer.1/"), T * (2 * (8 * D + 2 * I) + 4 * H + 16));
    EXPECT_EQ(bytes_under(*cheap, "encoder/layer.1/"), T * (2 * (5 * D + I) + 16));
    EXPECT_EQ(bytes_under(*compressed, "encoder/layer.1/"), T * (2 * 5 * D + I + 16));
    EXPECT_EQ(bytes_under(*compact, "encoder/layer.1/"), T * (2 * 2 * D + 3 * D + 3 * H + I + 16));
    EXPECT_EQ(bytes_under(*wide, "encoder/layer.1/"), T * (2 * 5 * D + 16));
    EXPECT_EQ(bytes_under(*wider, "encoder/layer.1/"), T * (2 * 2 * D + 16));
    EXPECT_EQ(bytes_under(*layers, "encoder/layer.1/"), T * (2 * D + 8));
    // The last layer's output is pooled at once, and the others compute in the place of what it keeps.
    EXPECT_EQ(bytes_under(*none, "encoder/layer.3/"), T * (2 * (7 * D + 2 * I) + 4 * H + 16));
    for (const Model* model :
         {cheap.get(), compressed.get(), compact.get(), wide.get(), wider.get(), layers.get()})
        EXPECT_EQ(bytes_under(*model, "encoder/layer.3/"), T * (2 * (5 * D + I) + 16));
    EXPECT_LT(cheap->planned_bytes, none->planned_bytes);
    EXPECT_EQ(compressed->planned_bytes, cheap->planned_bytes - 3 * T * I);
    EXPECT_EQ(compact->planned_bytes, compressed->planned_bytes - 3 * T * (3 * D - 3 * H));
    EXPECT_EQ(wide->planned_bytes, compressed->planned_bytes - 3 * T * I);
    EXPECT_EQ(planned(kCompactWide)->planned_bytes, compact->planned_bytes - 3 * T * I);
    EXPECT_EQ(planned(kCompactWider)->planned_bytes, wider->planned_bytes);
    EXPECT_EQ(planned(kCompressedWider)->planned_bytes, wider->planned_bytes + 3 * T * I);
    EXPECT_EQ(planned(kCompressedLayer)->planned_bytes, layers->planned_bytes + 3 * T * I);
    EXPECT_LT(wider->planned_bytes, wide->planned_bytes);
    EXPECT_LT(layers->planned_bytes, wider->planned_bytes);
    // Of longer texts, the context too, and on a GPU the mask of its dropout.
    longest = kCheapAttention + 1;
    const std::int64_t texts = 3 + T / longest, key_tiles = (longest + 63) / 64;
    const std::int64_t mask_bytes = kTestsGpu ? (T / 16 + texts) * H * key_tiles * 128 : 0;
    const std::int64_t mask = (mask_bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    const std::int64_t context = T * (2 * D + 4 * H) + mask;
    for (const char* layer : {"encoder/layer.1/", "encoder/layer.3/"}) {
        EXPECT_EQ(bytes_under(*planned(kNone), layer), bytes_under(*none, layer) + mask);
        EXPECT_EQ(bytes_under(*planned(kCheap), layer), bytes_under(*cheap, layer) + context);
    }
    EXPECT_EQ(bytes_under(*planned(kWide), "encoder/layer.1/"),
              bytes_under(*wide, "encoder/layer.1/") + context);
    EXPECT_EQ(bytes_under(*planned(kCompact), "encoder/layer.1/"), bytes_under(*compact, "encoder/layer.1/"));
    EXPECT_EQ(bytes_under(*planned(kWider), "encoder/layer.1/"), bytes_under(*wider, "encoder/layer.1/"));
    EXPECT_EQ(bytes_under(*planned(kLayer), "encoder/layer.1/"), bytes_under(*layers, "encoder/layer.1/"));
}

// FP8 products take codes: a byte per element of their inputs and of the gelu's slope.
TEST(Recompute, WithFp8ProductsALayerKeepsCodes) {
    const std::int64_t T = 1024;
    EncoderSpec spec = four_layers("bert", DType::kBf16);
    const auto planned = [&](bool fp8, Recompute mode) {
        spec.fp8 = fp8;
        return std::make_unique<Model>(make_device_backend(), spec, 3, T, true, 11, DType::kF32,
                                       std::vector<Recompute>(4, mode), kCheapAttention);
    };
    const std::int64_t D = spec.width, I = spec.intermediate, H = spec.heads;
    const auto none = planned(true, kNone);
    EXPECT_EQ(bytes_under(*none, "encoder/layer.1/"), T * (2 * 6 * D + 2 * D + 2 * I + 4 * H + 16));
    EXPECT_EQ(bytes_under(*planned(true, kCheap), "encoder/layer.1/"), T * (2 * 5 * D + 2 * I + 16));
    EXPECT_EQ(bytes_under(*planned(true, kCompact), "encoder/layer.1/"),
              T * (2 * 2 * D + 3 * D + 3 * H + I + 16));
    for (const Recompute mode : {kWide, kWider, kLayer})
        EXPECT_EQ(bytes_under(*planned(true, mode), "encoder/layer.1/"),
                  bytes_under(*planned(false, mode), "encoder/layer.1/"));
    EXPECT_LT(none->planned_bytes, planned(false, kNone)->planned_bytes);
}

TEST(Recompute, OneModeALayer) {
    const auto backend = make_device_backend();
    const auto encoder = make_encoder(four_layers("bert", DType::kBf16), *backend);
    EXPECT_THROW(encoder->set_recompute({kNone, kCheap}), Error);
}

}  // namespace
}  // namespace elmo::recompute_test
