// The head by itself against the engine that training runs: equal bits, and what is refused.
#include "elmo/vector_head.h"

#include <gtest/gtest.h>

#include "elmo/error.h"
#include "engine/train_step.h"
#include "numerics/bf16.h"
#include "quiet.h"
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

TEST(VectorHead, Refuses) {
    EXPECT_THROW(VectorHead(quiet(), head_config("auto"), {kLabels, kWidth, kBatch}), ConfigError);
    EXPECT_THROW(VectorHead(quiet(), head_config("bf16"), {0, kWidth, kBatch}), ConfigError);
    Config cuda = head_config("bf16");
    cuda.device = "cuda";
    EXPECT_THROW(VectorHead(quiet(), cuda, {kLabels, kWidth, kBatch}), ConfigError);
    VectorHead head(quiet(), head_config("bf16"), {kLabels, kWidth, kBatch, 10});
    Step step(1);
    std::vector<float> gradient(kBatch * kWidth), short_one(3);
    EXPECT_THROW(head.step(step.vectors(), step.truth(), 0.1, 0, short_one), DataError);
    EXPECT_THROW(head.step(step.vectors(), step.truth(), NAN, 0, gradient), ConfigError);
    EXPECT_THROW(head.step({step.values.data(), kBatch + 1}, step.truth(), 0.1, 0, gradient), DataError);
    EXPECT_THROW(head.topk(step.vectors(), 11), ConfigError);
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
