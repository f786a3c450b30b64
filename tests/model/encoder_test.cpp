// What holds for every encoder: memory, files, updates, and refusal of what does not fit.

#include <fstream>

#include "backend/reference/reference_backend.h"
#include "base/parallel.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "harness.h"

namespace elmo {
namespace {

using namespace test;

const Texts kTexts = pack({{3, 5, 5, 12}, {7}, {7, 1, 2, 8, 22, 6, 4}});

// One training step: forward, a made-up gradient, backward, update.
void train_step(Model& model, std::int64_t t, bool accumulate = false, bool update = true) {
    const View pooled = model.encoder->forward(kTexts.batch(), true, 9, static_cast<std::uint64_t>(t));
    const View dx = model.dx_BD.first(pooled.rows);
    std::vector<double> values(static_cast<std::size_t>(dx.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::cos(static_cast<double>(i) + static_cast<double>(t));
    model.set(dx, values);
    model.encoder->backward(kTexts.batch(), dx, accumulate);
    AdamWSettings settings;
    settings.lr = 1e-2f;
    settings.t = t;
    settings.seed = 9;
    if (update) model.encoder->update(settings);
}

void expect_same_weights(Model& a, Model& b) {
    const std::vector<Parameter>&of_a = a.encoder->parameters(), &of_b = b.encoder->parameters();
    ASSERT_EQ(of_a.size(), of_b.size());
    for (std::size_t i = 0; i < of_a.size(); ++i)
        EXPECT_EQ(a.bytes(of_a[i].w), b.bytes(of_b[i].w)) << of_a[i].name;
}

class EveryEncoder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, EveryEncoder,
                         testing::Values("bag", "bert", "distilbert", "roberta", "mpnet"));

// Keeps the batches that it was given.
class AnnouncedBackend : public ReferenceBackend {
  public:
    void begin_batch(std::span<const std::int32_t> tokens, Offsets offsets) override {
        announced.push_back({tokens, offsets});
    }
    std::vector<TextBatch> announced;
};

// A device sends the texts of an announced batch once: whoever runs an encoder, to train, to evaluate or to
// predict, announces each batch by that.
TEST_P(EveryEncoder, AForwardAnnouncesItsBatchOnce) {
    for (const bool training : {true, false}) {
        auto given = std::make_unique<AnnouncedBackend>();
        const std::vector<TextBatch>& announced = given->announced;
        Model model(std::move(given), spec_of(GetParam()), 3, 12, training);
        model.encoder->initialise(1);
        EXPECT_TRUE(announced.empty());
        const TextBatch batch = kTexts.batch();
        model.encoder->forward(batch, training, 9, 1);
        ASSERT_EQ(announced.size(), 1u);
        EXPECT_EQ(announced[0].tokens.data(), batch.tokens.data());
        EXPECT_EQ(announced[0].tokens.size(), batch.tokens.size());
        EXPECT_EQ(announced[0].offsets.data(), batch.offsets.data());
        EXPECT_EQ(announced[0].offsets.size(), batch.offsets.size());
        if (training) model.encoder->backward(batch, model.dx_BD.first(batch.size()), false);
        EXPECT_EQ(announced.size(), 1u);
    }
}

TEST_P(EveryEncoder, SavesAndReloadsBitForBit) {
    const TemporaryFolder folder;
    for (const DType dtype : {DType::kBf16, DType::kF32}) {
        Model model(make_device_backend(), spec_of(GetParam(), dtype), 3, 12);
        model.encoder->initialise(1);
        train_step(model, 1);
        model.encoder->save_weights(folder.path);
        const EncoderSpec saved = read_encoder_spec(folder.path);
        EXPECT_EQ(saved.dtype, dtype);
        EXPECT_EQ(saved.family, GetParam());
        EXPECT_EQ(saved.pooling, model.encoder->spec().pooling);
        EXPECT_EQ(saved.norm_epsilon, model.encoder->spec().norm_epsilon);
        Model other(make_device_backend(), saved, 3, 12, false);
        other.encoder->initialise(2);
        expect_same_weights(model, other);
        // And again from the copy: the saved files are a fixed point.
        const std::string first =
            read_file(folder.path / "model.safetensors") + read_file(folder.path / "config.json");
        other.encoder->save_weights(folder.path);
        EXPECT_EQ(first,
                  read_file(folder.path / "model.safetensors") + read_file(folder.path / "config.json"));
    }
}

TEST_P(EveryEncoder, ResumesExactlyFromSavedState) {
    for (const auto& [accumulate, bytes] : {std::pair(1, false), {2, false}, {1, true}, {2, true}}) {
        const TemporaryFolder folder;
        EncoderSpec spec = spec_of(GetParam());
        spec.state_in_bytes = bytes;
        spec.hidden_dropout = 0.1f;
        spec.pooled_dropout = 0.3f;
        spec.accumulate = accumulate;
        Model model(make_device_backend(), spec, 3, 12);
        model.encoder->initialise(1);
        train_step(model, 1);
        if (accumulate > 1) train_step(model, 2, false, false);  // half of an accumulation
        model.encoder->save_weights(folder.path);
        model.encoder->save_state(folder.path / "optimizer.safetensors");
        spec.weights_folder = folder.path;
        Model other(make_device_backend(), spec, 3, 12);
        other.encoder->initialise(7);
        other.encoder->load_state(MappedFile(folder.path / "optimizer.safetensors"));
        for (Model* m : {&model, &other}) {
            train_step(*m, 3, accumulate > 1);
            train_step(*m, 4);
        }
        expect_same_weights(model, other);
    }
}

TEST_P(EveryEncoder, ThreadsDoNotChangeResults) {
    EncoderSpec spec = spec_of(GetParam());
    spec.pooled_dropout = 0.3f;
    std::vector<std::unique_ptr<Model>> models;
    for (const int threads : {1, 3}) {
        models.push_back(std::make_unique<Model>(make_device_backend(threads), spec, 3, 12));
        models.back()->encoder->initialise(1);
        train_step(*models.back(), 1);
        train_step(*models.back(), 2);
    }
    expect_same_weights(*models[0], *models[1]);
}

TEST_P(EveryEncoder, PredictionNeedsLessMemoryAndGivesTheSame) {
    const EncoderSpec spec = spec_of(GetParam());
    Model training(make_device_backend(), spec, 3, 12), prediction(make_device_backend(), spec, 3, 12, false);
    training.encoder->initialise(4);
    prediction.encoder->initialise(4);
    EXPECT_LT(prediction.planned_bytes, training.planned_bytes);
    EXPECT_EQ(training.bytes(training.encoder->forward(kTexts.batch(), false, 1, 1)),
              prediction.bytes(prediction.encoder->forward(kTexts.batch(), false, 1, 1)));
}

TEST_P(EveryEncoder, MultipliesInFp8InTrainingAlone) {
    EncoderSpec plain_spec = spec_of(GetParam());
    plain_spec.hidden_dropout = plain_spec.attention_dropout = plain_spec.pooled_dropout = 0;
    EncoderSpec fp8_spec = plain_spec, frozen_spec = plain_spec;
    fp8_spec.fp8 = frozen_spec.fp8 = frozen_spec.frozen = true;
    Model plain(make_device_backend(), plain_spec, 3, 12), fp8(make_device_backend(), fp8_spec, 3, 12);
    Model frozen(make_device_backend(), frozen_spec, 3, 12);
    for (Model* model : {&plain, &fp8, &frozen}) model->encoder->initialise(4);
    const auto forward = [&](Model& model, bool training) {
        return model.bytes(model.encoder->forward(kTexts.batch(), training, 1, 1));
    };
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(forward(plain, false), forward(fp8, false));
        EXPECT_EQ(forward(plain, true), forward(frozen, true));
        const std::string trained = forward(plain, true);
        EXPECT_EQ(trained, forward(plain, false));
        EXPECT_NE(trained, forward(fp8, true));
    }
    // Gradients of FP8 products: of the same signs and sizes, and others.
    const std::int64_t rows = kTexts.batch().size();
    for (Model* model : {&plain, &fp8}) {
        std::vector<double> values(static_cast<std::size_t>(rows * plain_spec.width));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<double>(i));
        model->set(model->dx_BD.first(rows), values);
        model->encoder->forward(kTexts.batch(), true, 1, 1);
        model->encoder->backward(kTexts.batch(), model->dx_BD.first(rows), false);
    }
    for (std::size_t i = 0; i < plain.encoder->parameters().size(); ++i) {
        const Parameter &a = plain.encoder->parameters()[i], &b = fp8.encoder->parameters()[i];
        if (a.w.rows == 1 || a.name.find("embeddings") != std::string::npos) continue;
        const std::vector<double> expected = plain.values(a.grad), found = fp8.values(b.grad);
        double along = 0, length = 0;
        for (std::size_t j = 0; j < found.size(); ++j) {
            along += found[j] * expected[j];
            length += expected[j] * expected[j];
        }
        EXPECT_NE(plain.bytes(a.grad), fp8.bytes(b.grad)) << a.name;
        EXPECT_GT(along, 0.5 * length) << a.name;
        EXPECT_LT(along, 1.5 * length) << a.name;
    }
}

TEST_P(EveryEncoder, MultipliesInFp16InTrainingAlone) {
    EncoderSpec plain_spec = spec_of(GetParam(), DType::kF32);
    plain_spec.hidden_dropout = plain_spec.attention_dropout = plain_spec.pooled_dropout = 0;
    EncoderSpec fp16_spec = plain_spec;
    fp16_spec.fp16 = true;
    Model plain(make_device_backend(), plain_spec, 3, 12), fp16(make_device_backend(), fp16_spec, 3, 12);
    for (Model* model : {&plain, &fp16}) model->encoder->initialise(4);
    const std::int64_t rows = kTexts.batch().size();
    const auto go_back = [&](Model& model, double size) {
        std::vector<double> values(static_cast<std::size_t>(rows * plain_spec.width));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = size * std::cos(static_cast<double>(i));
        model.set(model.dx_BD.first(rows), values);
        const View x = model.encoder->forward(kTexts.batch(), true, 1, 1);
        EXPECT_EQ(x.dtype, &model == &fp16 ? DType::kF32 : DType::kBf16);
        const std::vector<double> vectors = model.values(x);
        model.encoder->backward(kTexts.batch(), model.dx_BD.first(rows), false);
        return vectors;
    };
    const std::vector<double> x = go_back(plain, 1), x16 = go_back(fp16, 1);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x16[i], x[i], 0.02 * (1 + std::abs(x[i])));
    EXPECT_EQ(plain.bytes(plain.encoder->forward(kTexts.batch(), false, 1, 1)),
              fp16.bytes(fp16.encoder->forward(kTexts.batch(), false, 1, 1)));

    EXPECT_TRUE(fp16.encoder->finish_fp16_gradients());
    for (std::size_t i = 0; i < plain.encoder->parameters().size(); ++i) {
        const Parameter &a = plain.encoder->parameters()[i], &b = fp16.encoder->parameters()[i];
        const bool norm =
            a.name.find("Norm") != std::string::npos || a.name.find("norm") != std::string::npos;
        EXPECT_EQ(b.of_linear, !norm && a.name.find("embeddings") == std::string::npos &&
                                   a.name.find("relative") == std::string::npos)
            << a.name;
        const std::vector<double> expected = plain.values(a.grad), found = fp16.values(b.grad);
        double along = 0, length = 0;
        for (std::size_t j = 0; j < found.size(); ++j) {
            along += found[j] * expected[j];
            length += expected[j] * expected[j];
            if (!b.of_linear) continue;
            EXPECT_EQ(found[j], round_fp16(static_cast<float>(found[j]))) << a.name;
        }
        if (!b.of_linear || a.w.rows == 1) continue;
        EXPECT_NE(plain.bytes(a.grad), fp16.bytes(b.grad)) << a.name;
        EXPECT_GT(along, 0.9 * length) << a.name;
        EXPECT_LT(along, 1.1 * length) << a.name;
    }
    // A gradient that is finite itself makes others that FP16 cannot hold.
    go_back(fp16, 0x1p40);
    EXPECT_FALSE(fp16.encoder->finish_fp16_gradients());
    go_back(fp16, 1);
    EXPECT_TRUE(fp16.encoder->finish_fp16_gradients());
}

TEST_P(EveryEncoder, AFrozenEncoderKeepsNothingButDropsOutItsResult) {
    EncoderSpec spec = spec_of(GetParam());
    spec.hidden_dropout = spec.attention_dropout = 0.5f;
    spec.pooled_dropout = 0.5f;
    spec.frozen = true;
    Model frozen(make_device_backend(), spec, 3, 12);
    frozen.encoder->initialise(4);
    const std::vector<double> plain = frozen.values(frozen.encoder->forward(kTexts.batch(), false, 1, 1));
    const std::vector<double> dropped = frozen.values(frozen.encoder->forward(kTexts.batch(), true, 1, 1));
    std::int64_t zeros = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        if (dropped[i] == 0)
            ++zeros;
        else
            EXPECT_NEAR(dropped[i], 2 * plain[i], std::abs(plain[i]) * 0x1p-7);
    }
    EXPECT_GT(zeros, 0);
    EXPECT_LT(zeros, static_cast<std::int64_t>(plain.size()));
    EXPECT_THROW(frozen.encoder->backward(kTexts.batch(), frozen.dx_BD, false), Error);
}

TEST_P(EveryEncoder, BatchesDoNotInfluenceOneAnother) {
    Model model(make_device_backend(), spec_of(GetParam()), 3, 12, false);
    model.encoder->initialise(4);
    const std::vector<double> together = model.values(model.encoder->forward(kTexts.batch(), false, 1, 1));
    const Texts alone = pack({{7, 1, 2, 8, 22, 6, 4}});
    const std::vector<double> last = model.values(model.encoder->forward(alone.batch(), false, 1, 1));
    for (std::size_t i = 0; i < last.size(); ++i)
        EXPECT_NEAR(last[i], together[together.size() - last.size() + i], max_abs(last) * 0x1p-7);
}

TEST_P(EveryEncoder, EmptyTextsAndEmptyBatchesOfTokens) {
    Model model(make_device_backend(), spec_of(GetParam()), 3, 12);
    model.encoder->initialise(4);
    const Texts empty = pack(std::vector<std::vector<std::int32_t>>{{}, {}});
    const View pooled = model.encoder->forward(empty.batch(), true, 1, 1);
    ASSERT_EQ(pooled.rows, 2);
    for (const double value : model.values(pooled)) EXPECT_TRUE(std::isfinite(value));
    model.set(model.dx_BD, std::vector<double>(static_cast<std::size_t>(model.dx_BD.size()), 1.0));
    model.encoder->backward(empty.batch(), model.dx_BD.first(2), false);
    EXPECT_EQ(max_abs(model.values(model.encoder->parameters().front().grad)), 0.0);
}

TEST_P(EveryEncoder, RefusesWhatDoesNotFit) {
    Model model(make_device_backend(), spec_of(GetParam()), 3, 40);
    model.encoder->initialise(4);
    const auto forward = [&](const Texts& texts) {
        return message_of([&] { model.encoder->forward(texts.batch(), false, 1, 1); });
    };
    const std::string vocab = std::to_string(model.encoder->spec().vocab);
    expect_mentions(forward(pack({{1, std::stoi(vocab)}})), {"token id " + vocab, "vocabulary of " + vocab});
    expect_mentions(forward(pack({{-1}})), {"token id -1"});
    const std::int64_t longest = model.encoder->spec().longest_text();
    if (longest > 0) {
        const std::vector<std::int32_t> text(static_cast<std::size_t>(longest), 2);
        EXPECT_EQ(forward(pack({text})), "nothing was thrown");
        std::vector<std::int32_t> longer = text;
        longer.push_back(2);
        expect_mentions(forward(pack({{2}, longer})),
                        {"text 1", std::to_string(longest + 1) + " tokens", "max_length"});
    }
    expect_mentions(forward(pack({{1}, {1}, {1}, {1}})), {"4 texts", "planned for 3"});
}

TEST_P(EveryEncoder, BiasesAndNormsDoNotDecay) {
    Model model(make_device_backend(), spec_of(GetParam(), DType::kF32), 3, 12);
    model.encoder->initialise(4);
    std::vector<std::vector<double>> before;
    for (const Parameter& p : model.encoder->parameters()) before.push_back(model.values(p.w));
    AdamWSettings settings;  // gradients are zero: only decay moves weights
    settings.lr = 0.5f;
    settings.weight_decay = 0.25f;
    model.encoder->update(settings);
    for (std::size_t i = 0; i < before.size(); ++i) {
        const Parameter& p = model.encoder->parameters()[i];
        const bool matrix = p.stored.front().shape.size() == 2;
        const std::vector<double> after = model.values(p.w);
        for (std::size_t j = 0; j < after.size(); ++j)
            ASSERT_NEAR(after[j], before[i][j] * (matrix ? 0.875 : 1.0), std::abs(before[i][j]) * 0x1p-23)
                << p.name;
    }
}

TEST_P(EveryEncoder, StartsFromScratchByItsSeedAlone) {
    EncoderSpec spec = spec_of(GetParam(), DType::kF32);
    spec.weights_folder = {};
    Model a(make_reference_backend(), spec, 3, 12), b(make_device_backend(), spec, 3, 12),
        c(make_reference_backend(), spec, 3, 12);
    a.encoder->initialise(4);
    b.encoder->initialise(4);
    c.encoder->initialise(5);
    expect_same_weights(a, b);
    EXPECT_NE(a.bytes(a.encoder->parameters()[0].w), c.bytes(c.encoder->parameters()[0].w));
    const std::vector<double> word = a.values(a.encoder->parameters()[0].w);
    double sum = 0;
    for (const double w : word) sum += w * w;
    const double n = static_cast<double>(word.size());
    // Five standard errors of a sample deviation.
    EXPECT_NEAR(std::sqrt(sum / n) / 0.02, 1.0, 5 / std::sqrt(2 * n));
}

// Copies a golden model, changing its tensors.
using Change = std::function<void(TensorInfo&)>;
void copy_weights(const fs::path& from, const fs::path& to, const Change& change) {
    fs::copy_file(from / "config.json", to / "config.json", fs::copy_options::overwrite_existing);
    const SafeTensors source = SafeTensors::open(from / "model.safetensors");
    std::vector<TensorInfo> tensors = source.tensors();
    std::vector<TensorSpec> specs;
    for (TensorInfo& tensor : tensors) {
        change(tensor);
        if (!tensor.name.empty()) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    SafeTensorsWriter writer(to / "model.safetensors", specs);
    for (const TensorInfo& tensor : tensors)
        if (!tensor.name.empty()) writer.write(tensor.name, tensor.data);
    writer.commit();
}

TEST(EncoderFiles, OldNormNamesAndPrefixesLoad) {
    const TemporaryFolder folder;
    const EncoderSpec spec = spec_of("bert");
    copy_weights(spec.weights_folder.path(), folder.path, [](TensorInfo& t) {
        if (t.name.ends_with("LayerNorm.weight")) t.name = t.name.substr(0, t.name.size() - 6) + "gamma";
        if (t.name.ends_with("LayerNorm.bias")) t.name = t.name.substr(0, t.name.size() - 4) + "beta";
        if (t.name.starts_with("bert.encoder.layer.1.")) t.name = t.name.substr(5);
    });
    EncoderSpec copied = read_encoder_spec(folder.path);
    copied.dtype = spec.dtype;
    Model a(make_reference_backend(), spec, 1, 4), b(make_reference_backend(), copied, 1, 4);
    a.encoder->initialise(1);
    b.encoder->initialise(1);
    expect_same_weights(a, b);
}

TEST(EncoderFiles, MissingAndWronglyShapedTensorsAreNamed) {
    const TemporaryFolder folder;
    const EncoderSpec spec = spec_of("bert");
    const std::string name = "bert.encoder.layer.1.output.dense.weight";
    const auto load = [&](const Change& change) {
        copy_weights(spec.weights_folder.path(), folder.path, change);
        Model model(make_reference_backend(), spec, 1, 4);
        return message_of([&] { model.encoder->load_weights(folder.path); });
    };
    expect_mentions(load([&](TensorInfo& t) {
                        if (t.name == name) t.name.clear();
                    }),
                    {folder.path.string(), "encoder.layer.1.output.dense.weight", "missing", "[16, 24]"});
    expect_mentions(load([&](TensorInfo& t) {
                        if (t.name == name) t.shape = {24, 16};
                    }),
                    {folder.path.string(), name, "expected shape [16, 24]", "found [24, 16]"});
    expect_mentions(load([&](TensorInfo& t) {
                        if (t.name == name) t.dtype = "I32";
                    }),
                    {name, "I32"});
}

// 5 instead of 8 bytes per BF16 weight and its state, and two exponents for 128 columns of a row.
TEST(EncoderState, BytesTakeLessThanBf16) {
    for (const char* family : {"bag", "bert"}) {
        EncoderSpec spec = spec_of(family);
        spec.state_in_bytes = true;
        Model bytes(make_reference_backend(), spec, 3, 12),
            full(make_reference_backend(), spec_of(family), 3, 12);
        for (std::size_t i = 0; i < bytes.encoder->parameters().size(); ++i) {
            const Parameter &b = bytes.encoder->parameters()[i], &f = full.encoder->parameters()[i];
            for (const View* part : {&b.m, &b.v, &b.c}) EXPECT_EQ(2 * part->bytes(), f.m.bytes()) << b.name;
            EXPECT_EQ(b.exponents.bytes(), 2 * b.w.rows * ((b.w.cols + 127) / 128)) << b.name;
            EXPECT_EQ(f.exponents.bytes(), 0) << b.name;
        }
    }
    EncoderSpec wide = spec_of("bag", DType::kF32);
    wide.state_in_bytes = true;
    Model f32(make_reference_backend(), wide, 3, 12);
    EXPECT_EQ(f32.encoder->parameters()[0].m.dtype, DType::kF32);
}

// Exponents of other widths, or of another type.
TEST(EncoderState, DamagedBytesAreRefused) {
    const TemporaryFolder folder;
    EncoderSpec spec = spec_of("bag");
    spec.state_in_bytes = true;
    Model model(make_reference_backend(), spec, 3, 12);
    model.encoder->save_state(folder.path / "state");
    const std::string good = read_file(folder.path / "state");
    const Parameter& p = model.encoder->parameters()[0];
    const std::string name = "\"" + p.name + ".exponents\"";
    for (const auto& [was, now] :
         {std::pair<std::string, std::string>{"\"U8\"", "\"I8\""}, {".exponents", ".exponentz"}}) {
        std::string bad = good;
        const std::size_t entry = bad.find(name), at = bad.find(was, entry);
        ASSERT_NE(entry, std::string::npos);
        ASSERT_NE(at, std::string::npos);
        bad.replace(at, was.size(), now);
        std::ofstream(folder.path / "bad", std::ios::binary) << bad;
        expect_mentions(message_of([&] { model.encoder->load_state(MappedFile(folder.path / "bad")); }),
                        {"bad", p.name + ".exponents"});
    }
    // Of an encoder whose rows have more blocks.
    spec.width = 200;
    Model wide(make_reference_backend(), spec, 3, 12);
    expect_mentions(message_of([&] { wide.encoder->load_state(MappedFile(folder.path / "state")); }),
                    {"state", "expected"});
}

TEST(EncoderFiles, StateOfAnotherEncoderIsRefused) {
    const TemporaryFolder folder;
    Model bert(make_reference_backend(), spec_of("bert"), 3, 12),
        wide(make_reference_backend(), spec_of("bert", DType::kF32), 3, 12);
    bert.encoder->save_state(folder.path / "state");
    expect_mentions(message_of([&] { wide.encoder->load_state(MappedFile(folder.path / "state")); }),
                    {"state", "F32", "BF16"});
    EncoderSpec in_bytes = spec_of("bert");
    in_bytes.state_in_bytes = true;
    Model bytes(make_reference_backend(), in_bytes, 3, 12);
    expect_mentions(message_of([&] { bytes.encoder->load_state(MappedFile(folder.path / "state")); }),
                    {"state", "U8", "BF16"});
    bytes.encoder->save_state(folder.path / "bytes");
    expect_mentions(message_of([&] { bert.encoder->load_state(MappedFile(folder.path / "bytes")); }),
                    {"bytes", "BF16", "U8"});
    Model roberta(make_reference_backend(), spec_of("roberta"), 3, 12);
    expect_mentions(message_of([&] { roberta.encoder->load_state(MappedFile(folder.path / "state")); }),
                    {"state", "expected"});
}

}  // namespace
}  // namespace elmo
