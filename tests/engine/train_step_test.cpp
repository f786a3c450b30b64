// An engine stages what a verb needs, and one step serves all training.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "elmo/config.h"
#include "engine/full_length.h"
#include "engine/train_step.h"
#include "quiet.h"
#include "ranks/thread_ranks.h"
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

    Staged(const Config& given, bool encoder, bool head, const RankShare& share = {},
           const Context& context = quiet())
        : config(given),
          spec(spec_without_data(config)),
          shape(shared_shape(full_length_shape(quiet(), config, spec), share, config.labels)),
          engine(context, config, parts(encoder, head, share), shape) {
        engine.allocate();
        engine.initialise(5);
    }
    EngineParts parts(bool encoder, bool head, const RankShare& share) const {
        EngineParts parts = training_parts(config, spec, config.labels, share);
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

// Gradients that overflow inside an encoder with FP16 products, of a dx that FP16 holds.
TEST(TrainStep, AnOverflowInTheEncoderSkipsItsStepAndNotTheHeads) {
    Config config = small_config();
    config.precision = "renee";
    config.encoder_precision = "fp16";
    const SmallBatch batch;
    int overflows = 0, fitting = 0;
    for (int power = 0; power < 24; ++power) {
        config.loss_scale = std::ldexp(1.0, power);
        Staged staged(config, true, true);
        for (const Parameter& p : staged.engine.encoder().parameters())  // the last gain, by which dx grows
            if (p.name == "output_norm.weight") {
                const std::vector<float> gain(static_cast<std::size_t>(p.w.size()), 256.0f);
                staged.engine.backend().upload(p.w, gain.data());
            }
        const std::string encoder = staged.encoder_bytes(), head = staged.head_bytes();
        const StepResult done = train_step(staged.engine, batch.step(1));
        const ReneeHead& renee = *staged.engine.head().renee();
        SCOPED_TRACE(power);
        EXPECT_NE(staged.head_bytes(), head);
        EXPECT_EQ(done.updated, staged.encoder_bytes() != encoder);
        EXPECT_EQ(renee.scale(), static_cast<float>(config.loss_scale) / (done.updated ? 1 : 2));
        EXPECT_EQ(renee.skipped_steps(), done.updated ? 0 : 1);
        EXPECT_FALSE(done.head.skipped && done.updated);
        overflows += !done.head.skipped && !done.updated;
        fitting += done.updated;
    }
    EXPECT_GT(overflows, 3);
    EXPECT_GT(fitting, 3);
}

// The scale is taken out again: other powers of two give nearly the same step, of which FP16 rounds other
// bits.
TEST(TrainStep, TheLossScaleIsNotPartOfTheEncodersStep) {
    Config config = small_config();
    config.precision = "renee";
    std::vector<std::string> weights;
    for (const auto& [encoder, power] : {std::pair("fp16", 4), {"fp16", 8}, {"fp32", 4}}) {
        config.encoder_precision = encoder;
        config.loss_scale = std::ldexp(1.0, power);
        Staged staged(config, true, true);
        const SmallBatch batch;
        for (std::uint64_t number = 1; number <= 3; ++number) {
            StepInput in = batch.step(number);
            in.head_lr = 0.01f;
            EXPECT_TRUE(train_step(staged.engine, in).updated);
        }
        weights.push_back(staged.encoder_bytes());
    }
    const auto distance = [&](std::size_t a, std::size_t b) {
        const auto count = weights[a].size() / sizeof(float);
        std::vector<float> x(count), y(count);
        std::memcpy(x.data(), weights[a].data(), weights[a].size());
        std::memcpy(y.data(), weights[b].data(), weights[b].size());
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += std::abs(static_cast<double>(x[i]) - y[i]);
        return sum / static_cast<double>(count);
    };
    // Three steps of Adam move a weight by up to 3 lr = 0.03.
    EXPECT_LT(distance(0, 1), 1e-3);
    EXPECT_LT(distance(0, 2), 1e-3);
    EXPECT_NE(weights[0], weights[2]);
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

// A rank that lets the first exchange which travels beside its work end only once a second was asked for.
class HeldRanks : public ThreadRanks {
  public:
    using ThreadRanks::ThreadRanks;
    bool any_thread() const override {  // asked for each exchange that travels
        const std::lock_guard lock(mutex_);
        ++asked_;
        changed_.notify_all();
        return true;
    }
    void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) override {
        {
            std::unique_lock lock(mutex_);
            if (asked_ > 0 && !went_on)
                went_on = changed_.wait_for(lock, std::chrono::seconds(60), [this] { return asked_ > 1; });
        }
        ThreadRanks::exchange(send, receive);
    }
    bool went_on = false;

  private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable int asked_ = 0;
};

// The gradients of a bag's layers are on their way while those of its word vectors are computed, and every
// bit is that of one process.
TEST(TrainStep, OfRanksExchangesGradientsBesideTheBackward) {
    if (std::string(kTestedDevice) == "cuda") GTEST_SKIP() << "threads on one GPU";
    Config config = small_config();
    config.labels = 600;
    config.threads = 1;
    const SmallBatch batch;
    Staged one(config, true, true, {0, 1, 2, 2});
    for (std::uint64_t number = 1; number <= 3; ++number) train_step(one.engine, batch.step(number));

    ThreadQueues queues;
    std::string encoders[2], heads[2];
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
        threads.emplace_back([&, r] {
            const auto ranks = std::make_shared<HeldRanks>(queues, r, 2);
            const Context context({.threads = 1, .sinks = silent(), .ranks = ranks});
            const RankShare share{r, 2, 2, 2};
            Staged staged(config, true, true, share, context);
            const ShareRange own = share.own_labels(config.labels);
            PositiveList positives;
            for (const auto& [label, text] : {std::pair<std::int64_t, int>{0, 1}, {17, 0}, {17, 2}, {299, 2}})
                if (own.first <= label && label < own.last) positives.push_back(label - own.first, text);
            for (std::uint64_t number = 1; number <= 3; ++number) {
                StepInput in = batch.step(number);
                in.positives = positives;
                train_step(staged.engine, in);
            }
            EXPECT_TRUE(ranks->went_on);
            encoders[r] = staged.encoder_bytes();
            heads[r] = staged.head_bytes();
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(encoders[0], one.encoder_bytes());
    EXPECT_EQ(encoders[1], one.encoder_bytes());
    EXPECT_EQ(heads[0] + heads[1], one.head_bytes());
}

}  // namespace
}  // namespace elmo
