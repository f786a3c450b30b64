// The loss scale of the baseline: when it falls, when it rises, and that its state is kept.
#include "model/head/renee_head.h"

#include <limits>

#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "harness.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

using test::set_values, test::values_of;

// A head of 3 labels and width 2 with a batch of 2, in its own memory.
struct Small {
    std::unique_ptr<Backend> backend = make_device_backend();
    ReneeHead head;
    std::unique_ptr<Arena> arena;
    View w, x, dx;

    explicit Small(float loss_scale = 4096) : head(3, 2, {loss_scale, 0.9f}, *backend) {
        Workload workload;
        workload.batch = workload.width = workload.positives = 2;
        workload.labels = 3;
        workload.head_dtype = DType::kF32;
        workload.renee = true;
        arena = test::taken_arena(*backend, [&](Arena& to) {
            w = to.allocate("w", DType::kF32, 3, 2);
            x = to.allocate("x", DType::kF32, 2, 2);
            dx = to.allocate("dx", DType::kF32, 2, 2);
            head.allocate(to, 2);
            backend->reserve(to, workload);
            backend->reserve_head(to, workload);
            head.allocate_step(to);
        });
        set_values(*backend, w, {-0.2, -0.1, 0, 0.1, 0.2, 0.3});
        set_values(*backend, x, {0.5, 0.25, 0, -0.25});
    }
    ReneeStepResult step(std::uint64_t number, float lr = 0.01f) {
        const PositiveList positives = {{0, 1}, {2, 0}};
        return head.step(w, {x, positives, lr, 0, 0, number, false, dx});
    }
    std::vector<double> weights() const { return values_of(*backend, w); }
    std::vector<double> momentum() const { return values_of(*backend, head.momentum()); }
};

TEST(ReneeHead, AnOverflowHalvesTheScaleAndTheHeadStepsAllTheSame) {
    Small small(0x1p24f), other(1);
    std::uint64_t steps = 0;
    float expected = 0x1p24f;
    while (small.step(++steps).skipped) {
        EXPECT_FALSE(other.step(steps).skipped);
        EXPECT_EQ(small.weights(), other.weights());
        EXPECT_EQ(small.momentum(), other.momentum());
        expected /= 2;
        EXPECT_EQ(small.head.scale(), expected);
        EXPECT_EQ(small.head.skipped_steps(), static_cast<std::int64_t>(steps));
        ASSERT_LT(steps, 20u);
    }
    EXPECT_GT(steps, 2u);
    EXPECT_EQ(small.head.scale(), expected);
}

TEST(ReneeHead, TheScaleDoublesAfterEnoughGoodSteps) {
    Small small(4);
    for (std::int64_t i = 1; i <= ReneeHead::kGrowthSteps; ++i) {
        EXPECT_EQ(small.head.scale(), 4);
        EXPECT_FALSE(small.step(static_cast<std::uint64_t>(i), 1e-6f).skipped);
    }
    EXPECT_EQ(small.head.scale(), 8);
    EXPECT_EQ(small.head.skipped_steps(), 0);
}

TEST(ReneeHead, ANaNIsAnErrorAndNotAnEndlessRunOfSkippedSteps) {
    Small small;
    set_values(*small.backend, small.x, {std::numeric_limits<double>::quiet_NaN(), 0, 0, 0});
    EXPECT_THROW(
        {
            for (std::uint64_t i = 1; i < 100; ++i) small.step(i);
        },
        NumericError);
}

TEST(ReneeHead, MomentumAndScaleAreSavedAndLoadedExactly) {
    const TempFolder folder;
    Small whole(0x1p22f), resumed;
    for (std::uint64_t i = 1; i <= 20; ++i) whole.step(i);
    ASSERT_GT(whole.head.skipped_steps(), 0);
    whole.head.save(folder.path() / "momentum.safetensors");
    resumed.head.load(MappedFile(folder.path() / "momentum.safetensors"));
    set_values(*resumed.backend, resumed.w, whole.weights());
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
    EXPECT_THROW(small.head.load(MappedFile(file)), DataError);  // none there
    write(3, good);
    small.head.load(MappedFile(file));
    EXPECT_EQ(small.head.scale(), 64);
    write(4, good);
    EXPECT_THROW(small.head.load(MappedFile(file)), DataError);
    for (const auto& [key, value] : {std::pair("loss_scale", "0"),
                                     {"loss_scale", "nan"},
                                     {"loss_scale", "64x"},
                                     {"skipped_steps", "-1"}}) {
        auto bad = good;
        bad[key] = value;
        write(3, bad);
        EXPECT_THROW(small.head.load(MappedFile(file)), DataError) << key << " " << value;
    }
}

}  // namespace
}  // namespace elmo
