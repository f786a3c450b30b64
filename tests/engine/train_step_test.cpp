// An engine stages what a verb needs, and one step serves all training.
#include <gtest/gtest.h>

#include "elmo/config.h"
#include "engine/full_length.h"
#include "engine/train_step.h"
#include "quiet.h"
#include "tested_device.h"

namespace elmo {
namespace {

Config small_config() {
    Config config;
    config.device = kTestedDevice;
    config.encoder = "bag";
    config.labels = 300;
    config.width = 32;
    config.vocab_size = 50;
    config.batch_size = 3;
    config.max_length = 4;
    config.precision = "e3m4";
    config.head_kahan = "0";
    return config;
}

struct Staged {
    const Config config;
    const EncoderSpec spec;
    const RunShape shape;
    Engine engine;

    Staged(const Config& given, bool encoder, bool head)
        : config(given),
          spec(spec_without_data(config)),
          shape(full_length_shape(quiet(), config, spec)),
          engine(quiet(), config, parts(encoder, head), shape) {
        engine.allocate();
        engine.initialise(5);
    }
    EngineParts parts(bool encoder, bool head) const {
        EngineParts parts = training_parts(config, spec, config.labels);
        if (!encoder) parts.encoder.reset();
        if (!head) parts.head.reset();
        return parts;
    }
    std::string bytes(View view) const {
        std::string bytes(static_cast<std::size_t>(view.bytes()), '\0');
        engine.backend().download(bytes.data(), view);
        return bytes;
    }
    std::string encoder_bytes() const {
        std::string all;
        for (const Parameter& p : engine.encoder().parameters()) all += bytes(p.w);
        return all;
    }
    std::string head_bytes() const { return bytes(engine.head().weights()); }
};

struct SmallBatch {
    std::vector<std::int32_t> tokens = {3, 7, 7, 12, 40, 2}, offsets = {0, 2, 3, 6};
    PositiveList positives = {{0, 1}, {17, 0}, {17, 2}, {299, 2}};
    StepInput step(std::uint64_t number) const {
        StepInput in;
        in.texts = {tokens, offsets};
        in.positives = positives;
        in.seed = 5;
        in.step = number;
        in.head_lr = 0.5f;
        in.encoder.adamw.lr = 0.01f;
        in.encoder.adamw.t = static_cast<std::int64_t>(number);
        return in;
    }
};

bool has_segment(const MemoryReport& plan, const std::string& prefix) {
    return std::any_of(plan.segments.begin(), plan.segments.end(),
                       [&](const Segment& segment) { return segment.name.rfind(prefix, 0) == 0; });
}

TEST(Engine, StagesWhatIsAskedForAndNoMore) {
    const Staged both(small_config(), true, true), encoder(small_config(), true, false),
        head(small_config(), false, true);
    for (const auto& [staged, has_encoder, has_head] :
         {std::tuple(&both, true, true), {&encoder, true, false}, {&head, false, true}}) {
        const MemoryReport& plan = staged->engine.plan();
        EXPECT_EQ(staged->engine.staged_encoder() != nullptr, has_encoder);
        EXPECT_EQ(staged->engine.staged_head() != nullptr, has_head);
        EXPECT_EQ(has_segment(plan, "encoder/"), has_encoder);
        EXPECT_EQ(has_segment(plan, "head/"), has_head);
        EXPECT_LE(plan.arena_bytes, both.engine.plan().arena_bytes);
    }
    EXPECT_EQ(encoder.encoder_bytes(), both.encoder_bytes());
    EXPECT_EQ(head.head_bytes(), both.head_bytes());
}

// Forward, head, backward, update, in this order: the head is about to begin when x is there, and the encoder
// has not changed when the head is done.
TEST(TrainStep, RunsItsPartsInOrder) {
    Staged staged(small_config(), true, true);
    const SmallBatch batch;
    for (std::uint64_t number = 1; number <= 3; ++number) {
        const std::string encoder = staged.encoder_bytes(), head = staged.head_bytes();
        std::vector<std::string> seen;
        StepInput in = batch.step(number);
        in.before_head = [&](View x_BD) {
            EXPECT_EQ(x_BD.rows, 3);
            EXPECT_EQ(staged.head_bytes(), head);
            seen.push_back("forward");
        };
        in.after_head = [&](const HeadStepResult& result) {
            EXPECT_FALSE(result.skipped);
            EXPECT_NE(staged.head_bytes(), head);
            EXPECT_EQ(staged.encoder_bytes(), encoder);
            seen.push_back("head");
        };
        EXPECT_TRUE(train_step(staged.engine, in).updated);
        EXPECT_EQ(seen, (std::vector<std::string>{"forward", "head"}));
        EXPECT_NE(staged.encoder_bytes(), encoder);
    }
}

// What refinement and new labels rely on: a head that is given the vectors, and one beside a frozen encoder,
// take the step of the head in a whole run.
TEST(TrainStep, AHeadLearnsTheSameWithAndWithoutAnEncoder) {
    Staged whole(small_config(), true, true), alone(small_config(), false, true);
    Config frozen_config = small_config();
    frozen_config.freeze_encoder = true;
    Staged frozen(frozen_config, true, true);
    const SmallBatch batch;
    const std::string encoder = frozen.encoder_bytes(), start = whole.head_bytes();
    StepInput in = batch.step(1);
    std::string x;
    in.before_head = [&](View x_BD) { x = whole.bytes(x_BD); };
    train_step(whole.engine, in);
    EXPECT_NE(whole.head_bytes(), start);

    EXPECT_FALSE(train_step(frozen.engine, batch.step(1)).updated);
    EXPECT_EQ(frozen.head_bytes(), whole.head_bytes());
    EXPECT_EQ(frozen.encoder_bytes(), encoder);

    in = batch.step(1);
    in.x_BD = alone.engine.text_vectors(3);
    alone.engine.backend().upload(in.x_BD, x.data());
    EXPECT_FALSE(train_step(alone.engine, in).updated);
    EXPECT_EQ(alone.head_bytes(), whole.head_bytes());
}

}  // namespace
}  // namespace elmo
