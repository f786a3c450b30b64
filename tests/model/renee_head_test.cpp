// The loss scale of the baseline: when it falls, when it rises, and that its state is kept.
#include "model/renee_head.h"

#include <gtest/gtest.h>

#include <limits>

#include "elmo/error.h"
#include "io/safetensors_writer.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

// A head of 3 labels and width 2 with a batch of 2, in memory of its own.
struct Small {
    std::unique_ptr<Backend> backend = make_reference_backend();
    ReneeHead head{3, 2, 2, *backend};
    std::unique_ptr<Arena> arena;
    View w, x, dx;

    Small() {
        const auto lay_out = [&](Arena& to) {
            w = to.allocate("w", DType::kF32, 3, 2);
            x = to.allocate("x", DType::kF32, 2, 2);
            dx = to.allocate("dx", DType::kF32, 2, 2);
            head.allocate(to);
            head.allocate_step(to);
        };
        Arena dry;
        lay_out(dry);
        arena = std::make_unique<Arena>(backend->allocate(dry.peak_bytes()));
        lay_out(*arena);
        for (int i = 0; i < 6; ++i) w.as<float>()[i] = 0.1f * static_cast<float>(i) - 0.2f;
        for (int i = 0; i < 4; ++i) x.as<float>()[i] = 0.5f - 0.25f * static_cast<float>(i);
    }
    ReneeStepResult step(std::uint64_t number, float lr = 0.01f) {
        const Positive positives[] = {{0, 1}, {2, 0}};
        return head.step(w, x, positives, lr, 0, number, false, dx);
    }
    std::vector<float> weights() const { return {w.as<float>(), w.as<float>() + 6}; }
};

TEST(ReneeHead, AnOverflowHalvesTheScaleAndChangesNothingElse) {
    Small small;
    small.head.set_start(0x1p19f, 0.9f);
    const std::vector<float> before = small.weights();
    std::uint64_t steps = 0;
    float expected = 0x1p19f;
    while (small.step(++steps).skipped) {
        EXPECT_EQ(small.weights(), before);
        expected /= 2;
        EXPECT_EQ(small.head.scale(), expected);
        EXPECT_EQ(small.head.skipped_steps(), static_cast<std::int64_t>(steps));
        ASSERT_LT(steps, 20u);
    }
    EXPECT_GT(steps, 2u);
    EXPECT_EQ(small.head.scale(), expected);
    EXPECT_NE(small.weights(), before);
}

TEST(ReneeHead, TheScaleDoublesAfterEnoughGoodSteps) {
    Small small;
    small.head.set_start(4, 0.9f);
    for (std::int64_t i = 1; i <= ReneeHead::kGrowthSteps; ++i) {
        EXPECT_EQ(small.head.scale(), 4);
        EXPECT_FALSE(small.step(static_cast<std::uint64_t>(i), 1e-6f).skipped);
    }
    EXPECT_EQ(small.head.scale(), 8);
    EXPECT_EQ(small.head.skipped_steps(), 0);
}

TEST(ReneeHead, ANaNIsAnErrorAndNotAnEndlessRunOfSkippedSteps) {
    Small small;
    small.x.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(
        {
            for (std::uint64_t i = 1; i < 100; ++i) small.step(i);
        },
        NumericError);
}

TEST(ReneeHead, MomentumAndScaleAreSavedAndLoadedExactly) {
    const TempFolder folder;
    Small whole, resumed;
    whole.head.set_start(0x1p18f, 0.9f);
    for (std::uint64_t i = 1; i <= 20; ++i) whole.step(i);
    ASSERT_GT(whole.head.skipped_steps(), 0);
    whole.head.save(folder.path() / "momentum.safetensors");
    resumed.head.load(folder.path() / "momentum.safetensors");
    resumed.backend->upload(resumed.w, whole.w.data);
    EXPECT_EQ(resumed.head.scale(), whole.head.scale());
    EXPECT_EQ(resumed.head.skipped_steps(), whole.head.skipped_steps());
    for (std::uint64_t i = 21; i <= 40; ++i) {
        whole.step(i);
        resumed.step(i);
    }
    EXPECT_EQ(whole.weights(), resumed.weights());
}

TEST(ReneeHead, AFileThatDoesNotFitIsRefused) {
    const TempFolder folder;
    const auto file = folder.path() / "momentum.safetensors";
    const std::map<std::string, std::string> good = {
        {"loss_scale", "64"}, {"good_steps", "1"}, {"skipped_steps", "2"}};
    const auto write = [&](std::int64_t labels, const std::map<std::string, std::string>& metadata) {
        const std::vector<float> zeros(static_cast<std::size_t>(labels * 2), 0.0f);
        SafeTensorsWriter writer(file, {{"momentum", "F32", {labels, 2}}}, metadata);
        writer.write("momentum", std::span<const float>(zeros));
        writer.commit();
    };
    Small small;
    EXPECT_THROW(small.head.load(file), DataError);  // none there
    write(3, good);
    small.head.load(file);
    EXPECT_EQ(small.head.scale(), 64);
    write(4, good);
    EXPECT_THROW(small.head.load(file), DataError);
    for (const auto& [key, value] : {std::pair("loss_scale", "0"),
                                     {"loss_scale", "nan"},
                                     {"loss_scale", "64x"},
                                     {"skipped_steps", "-1"}}) {
        auto bad = good;
        bad[key] = value;
        write(3, bad);
        EXPECT_THROW(small.head.load(file), DataError) << key << " " << value;
    }
}

}  // namespace
}  // namespace elmo
