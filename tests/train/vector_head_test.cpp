// The head by itself against the engine that training runs: equal bits, and what is refused.
#include "elmo/vector_head.h"

#include <gtest/gtest.h>

#include "elmo/error.h"
#include "elmo/evaluation.h"
#include "elmo/predictor.h"
#include "elmo/resolve.h"
#include "elmo/run.h"
#include "engine/train_step.h"
#include "numerics/bf16.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

constexpr std::int64_t kLabels = 300, kWidth = 24, kBatch = 6;

Config head_config(const std::string& precision) {
    Config config;
    config.precision = precision;
    config.threads = 1;
    config.seed = 5;
    return config;
}

// The vectors and labels of a step: offsets by one number make the memory unaligned.
struct Step {
    explicit Step(int seed, std::size_t shift = 0) : values(kBatch * kWidth + shift), first(shift) {
        for (std::size_t i = 0; i < kBatch * kWidth; ++i)
            values[i + shift] = to_bf16(std::sin(static_cast<float>(i) + 10 * static_cast<float>(seed))).bits;
        for (std::int64_t row = 0; row < kBatch; ++row) {
            labels.push_back((row * 37 + seed) % kLabels);
            labels.push_back((row * 91 + 5) % kLabels);
            offsets.push_back(2 * (row + 1));
        }
    }
    VectorBatch vectors() const { return {values.data() + first, kBatch}; }
    BatchLabels truth() const { return {offsets, labels}; }

    std::vector<std::uint16_t> values;
    std::size_t first;
    std::vector<std::int64_t> offsets = {0}, labels;
};

TEST(VectorHead, IsTheHeadOfTraining) {
    for (const char* precision : {"fp32", "bf16", "fp8", "e3m4", "e2m5", "e2m3"}) {
        const Config config = head_config(precision);
        VectorHead head(quiet(), config, {kLabels, kWidth, kBatch, 10});
        RunShape shape;
        shape.batch = kBatch;
        shape.top_k = 10;
        Engine engine(quiet().with_threads(1), config, {std::nullopt, plain_head(config, kLabels, kWidth)},
                      shape);
        engine.allocate();
        engine.initialise(config.seed);
        std::vector<float> gradient(kBatch * kWidth), expected(kBatch * kWidth);
        double first_loss = 0, last_loss = 0;
        for (int number = 1; number <= 4; ++number) {
            const Step step(1, static_cast<std::size_t>(number % 2));
            last_loss = head.step(step.vectors(), step.truth(), 0.1, 0.01, gradient).loss;
            if (number == 1) first_loss = last_loss;
            PositiveList positives;
            for (std::size_t i = 0; i < step.labels.size(); ++i)
                positives.push_back(step.labels[i], static_cast<std::int32_t>(i / 2));
            positives.sort();
            StepInput in;
            in.x_BD = engine.text_vectors(kBatch);
            engine.backend().upload(in.x_BD, step.vectors().values);
            in.positives = positives;
            in.seed = config.seed;
            in.step = static_cast<std::uint64_t>(number);
            in.head_lr = 0.1f;
            in.head_weight_decay = 0.01f;
            in.new_head = number == 1;
            in.want_loss = true;
            train_step(engine, in);
            engine.backend().download(expected.data(), engine.head_grad(kBatch));
            EXPECT_EQ(gradient, expected) << precision << " " << number;
        }
        EXPECT_LT(last_loss, first_loss) << precision;
        EXPECT_EQ(head.steps(), 4);
        const Step step(1);
        const RankedLabels ranked = head.topk(step.vectors(), 10);
        const auto best = engine.head().topk(engine.text_vectors(kBatch), 10);
        for (std::int64_t row = 0; row < kBatch; ++row)
            for (std::int64_t i = 0; i < 10; ++i) {
                const auto place = static_cast<std::size_t>(row * 10 + i);
                const ScoredLabel wanted =
                    best[static_cast<std::size_t>(row)].sorted()[static_cast<std::size_t>(i)];
                EXPECT_EQ((ScoredLabel{ranked.scores[place], ranked.labels[place]}), wanted) << precision;
            }
    }
}

TEST(VectorHead, NewWeightsHaveRoomForTheFirstUpdate) {
    const TempFolder temp;
    const Step step(1);
    std::vector<float> gradient(kBatch * kWidth);
    VectorHead head(quiet(), head_config("e2m5"), {kLabels, kWidth, kBatch, 10});
    VectorHead loaded(quiet(), head_config("e2m5"), {kLabels, kWidth, kBatch, 10});
    head.save(temp / "start");
    loaded.load(temp / "start");
    EXPECT_EQ(head.step(step.vectors(), step.truth(), 4, 0, gradient).saturations, 0);
    // Weights from a file stay as they are, and their update is clipped.
    EXPECT_GT(loaded.step(step.vectors(), step.truth(), 4, 0, gradient).saturations, 0);
}

TEST(VectorHead, ContinuesFromItsFiles) {
    const TempFolder temp;
    const Config config = head_config("e2m5");
    const VectorHeadShape shape{kLabels, kWidth, kBatch};
    VectorHead head(quiet(), config, shape), other(quiet(), config, shape);
    std::vector<float> gradient(kBatch * kWidth), expected(kBatch * kWidth);
    head.step(Step(1).vectors(), Step(1).truth(), 0.1, 0, gradient);
    head.save(temp / "head");
    other.load(temp / "head");
    other.set_steps(head.steps());
    for (int number = 2; number < 4; ++number) {
        const Step step(number);
        head.step(step.vectors(), step.truth(), 0.1, 0, expected);
        other.step(step.vectors(), step.truth(), 0.1, 0, gradient);
        EXPECT_EQ(gradient, expected);
    }
    VectorHead wider(quiet(), config, {kLabels, kWidth + 8, kBatch});
    EXPECT_THROW(wider.load(temp / "head"), DataError);
}

TEST(VectorHead, IsARunThatAnswersVectors) {
    for (const char* precision : {"bf16", "e2m5"}) {
        const TempFolder temp;
        const Config config = head_config(precision);
        const VectorHeadShape shape{kLabels, kWidth, kBatch};
        VectorHead head(quiet(), config, shape), other(quiet(), config, shape);
        std::vector<float> gradient(kBatch * kWidth), expected(kBatch * kWidth);
        const Step step(1);
        head.step(step.vectors(), step.truth(), 0.1, 0, gradient);
        std::vector<std::string> names;
        for (std::int64_t l = 0; l < kLabels; ++l) names.push_back("kind " + std::to_string(l));
        head.save_run(temp / "run", names);
        const RankedLabels ranked = head.topk(step.vectors(), 5);

        Config asking;
        asking.device = "cpu";
        asking.threads = 1;
        Predictor predictor(quiet(), temp / "run", resolve_for_run(temp / "run", asking));
        EXPECT_FALSE(predictor.takes_texts());
        EXPECT_FALSE(predictor.has_vectors());
        Embeddings vectors{kBatch, kWidth, {}};
        for (const std::uint16_t bits : step.values) vectors.values.push_back(to_float(Bf16{bits}));
        const auto answers = predictor.predict_vectors(vectors);
        ASSERT_EQ(answers.size(), static_cast<std::size_t>(kBatch));
        for (std::size_t i = 0; i < answers.size(); ++i)
            for (std::size_t j = 0; j < 5; ++j) {
                EXPECT_EQ(answers[i][j].label, ranked.labels[5 * i + j]) << precision;
                EXPECT_EQ(answers[i][j].score, ranked.scores[5 * i + j]) << precision;
                EXPECT_EQ(answers[i][j].name, names[static_cast<std::size_t>(answers[i][j].label)]);
            }
        Question among;
        among.top = 2;
        among.labels = {3, 40, 111};
        EXPECT_EQ(predictor.predict_vectors(vectors, among)[0].size(), 2u);
        EXPECT_EQ(predictor.nearest_labels(7, 3).size(), 3u);
        EXPECT_NE(
            message_of<ConfigError>([&] { predictor.predict({"a text"}); }).find("prediction needs texts"),
            std::string::npos);
        vectors.values[3] = NAN;
        EXPECT_NE(message_of<DataError>([&] { predictor.predict_vectors(vectors); }).find("vectors[0]"),
                  std::string::npos);
        EXPECT_NE(message_of<DataError>([&] {
                      predictor.predict_vectors(Embeddings{1, 3, {1, 2, 3}});
                  }).find("expected a width of 24, found 3"),
                  std::string::npos);
        EXPECT_NE(message_of<ConfigError>([&] {
                      evaluate(quiet(), temp / "run", asking);
                  }).find("scoring needs texts"),
                  std::string::npos);
        asking.data = temp / "data";
        write_tiny_data(asking.data);
        EXPECT_NE(message_of<ConfigError>([&] {
                      evaluate(quiet(), temp / "run", resolve_for_run(temp / "run", asking));
                  }).find("scoring needs texts"),
                  std::string::npos);

        const std::string facts = to_json(inspect(quiet(), temp / "run", asking));
        EXPECT_NE(facts.find("\"train_rows\":null"), std::string::npos) << facts;

        other.load(temp / "run");
        EXPECT_EQ(other.steps(), 1);
        head.step(step.vectors(), step.truth(), 0.1, 0, expected);
        other.step(step.vectors(), step.truth(), 0.1, 0, gradient);
        EXPECT_EQ(gradient, expected);
        other.save_run(temp / "run", {});  // again, without names
        EXPECT_EQ(Checkpoint(temp / "run", "best").state().step, 2);
        EXPECT_THROW(other.save_run(temp / "run", {"one"}), ConfigError);
        write_text(temp / "other/best/mine.txt", "not a checkpoint");
        EXPECT_THROW(other.save_run(temp / "other", {}), DataError);
    }
}

TEST(VectorHead, ARunThatWasTrainedOnTextsIsNotReplaced) {
    const TempFolder temp;
    write_tiny_data(temp / "data");
    Config config = tiny_config(temp);
    config.device = "cpu";
    config.steps = 2;
    train(quiet(), config);
    const VectorHead head(quiet(), head_config("bf16"), {37, 16, kBatch});
    EXPECT_NE(message_of<ConfigError>([&] { head.save_run(temp / "run", {}); }).find("trained on texts"),
              std::string::npos);
    config.encoder = "vectors";
    config.out = temp / "other";
    EXPECT_NE(message_of<ConfigError>([&] { train(quiet(), config); }).find("elmo.torch.Head"),
              std::string::npos);
}

TEST(VectorHead, AStepWithoutItsLossIsTheSameStep) {
    VectorHead first(quiet(), head_config("fp8"), {kLabels, kWidth, kBatch, 10}),
        second(quiet(), head_config("fp8"), {kLabels, kWidth, kBatch, 10});
    std::vector<float> gradient(kBatch * kWidth), silent(kBatch * kWidth);
    for (int number = 1; number <= 3; ++number) {
        const Step step(number);
        EXPECT_TRUE(std::isfinite(first.step(step.vectors(), step.truth(), 0.1, 0.01, gradient).loss));
        EXPECT_TRUE(std::isnan(second.step(step.vectors(), step.truth(), 0.1, 0.01, silent, false).loss));
        EXPECT_EQ(gradient, silent);
    }
    const Step step(4);
    EXPECT_EQ(first.topk(step.vectors(), 10).scores, second.topk(step.vectors(), 10).scores);
}

TEST(VectorHead, Refuses) {
    EXPECT_THROW(VectorHead(quiet(), head_config("auto"), {kLabels, kWidth, kBatch}), ConfigError);
    EXPECT_THROW(VectorHead(quiet(), head_config("bf16"), {0, kWidth, kBatch}), ConfigError);
    VectorHead head(quiet(), head_config("bf16"), {kLabels, kWidth, kBatch, 10});
    Step step(1);
    std::vector<float> gradient(kBatch * kWidth), short_one(3);
    EXPECT_THROW(head.step(step.vectors(), step.truth(), 0.1, 0, short_one), DataError);
    EXPECT_THROW(head.step(step.vectors(), step.truth(), NAN, 0, gradient), ConfigError);
    EXPECT_THROW(head.step({step.values.data(), kBatch + 1}, step.truth(), 0.1, 0, gradient), DataError);
    EXPECT_THROW(head.topk(step.vectors(), 11), ConfigError);
    VectorBatch on_gpu = step.vectors();
    on_gpu.on_device = true;
    EXPECT_THROW(head.step(on_gpu, step.truth(), 0.1, 0, gradient), DataError);
    step.labels[3] = kLabels;
    EXPECT_THROW(head.step(step.vectors(), step.truth(), 0.1, 0, gradient), DataError);
    step.labels.pop_back();
    EXPECT_THROW(head.step(step.vectors(), step.truth(), 0.1, 0, gradient), DataError);
    Step broken(2);
    broken.values[7] = to_bf16(NAN).bits;
    EXPECT_THROW(head.step(broken.vectors(), broken.truth(), 0.1, 0, gradient), NumericError);
    EXPECT_EQ(head.steps(), 0);
}

}  // namespace
}  // namespace elmo
