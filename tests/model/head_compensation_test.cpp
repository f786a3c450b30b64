// The head's compensation: its file, what is refused, and that a head steps with what was loaded.
#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "harness.h"

namespace elmo {
namespace {

using namespace test;

constexpr std::int64_t kLabels = 37, kWidth = 12, kRows = 5, kBatch = 3;
const std::vector<std::int64_t> kChosen = {0, 3, 4, 20, 36};

struct CompensatedHead {
    std::unique_ptr<Backend> backend = make_device_backend();
    Head head;
    std::unique_ptr<Arena> arena;
    View x_BD, dx_BD;
    std::uint64_t steps = 0;

    explicit CompensatedHead(float weight_dropout = 0)
        : head({LabelLayout::range(0, kLabels), kWidth, DType::kE3M4,
                HeadExtras{.compensated_rows = kRows, .weight_dropout = weight_dropout, .renee = {}}},
               *backend) {
        Workload workload;
        workload.batch = kBatch;
        workload.width = kWidth;
        workload.labels = kLabels;
        workload.positives = kBatch * kLabels;
        workload.head_dtype = DType::kE3M4;
        const auto allocate = [&](Arena& in) {
            head.allocate(in, workload);
            x_BD = in.allocate("x", DType::kBf16, kBatch, kWidth);
            dx_BD = in.allocate("dx", DType::kF32, kBatch, kWidth);
            backend->reserve(in, workload);
            backend->reserve_head(in, workload);
        };
        arena = taken_arena(*backend, allocate);
        head.initialise(11);
        backend->fill_normal({x_BD, 1.0f, {3, 0, 100}, {3, 0, 101}, 0});
    }
    void step() { head.step({x_BD, {}, 0.01f, 0.1f, 1, ++steps, false, dx_BD}); }
    std::string weights() { return bytes_of(*backend, head.weights()); }
    std::string values() { return bytes_of(*backend, head.compensation().values()); }
};

TEST(HeadCompensation, RoundTripContinuesTheRun) {
    const TemporaryFolder folder;
    CompensatedHead model, other;
    model.head.compensation().start(kChosen);
    for (int i = 0; i < 3; ++i) model.step();
    EXPECT_NE(model.values(), std::string(model.values().size(), '\0'));
    model.head.save(folder.path);
    model.head.compensation().save(folder.path / "c.safetensors");

    other.head.load(folder.path);
    other.head.compensation().load(MappedFile(folder.path / "c.safetensors"));
    other.steps = model.steps;
    EXPECT_EQ(other.values(), model.values());
    EXPECT_EQ(bytes_of(*other.backend, other.head.compensation().marks()),
              bytes_of(*model.backend, model.head.compensation().marks()));
    for (int i = 0; i < 3; ++i) model.step(), other.step();
    EXPECT_EQ(other.weights(), model.weights());
    EXPECT_EQ(other.values(), model.values());

    // From zero the same steps end elsewhere.
    other.head.load(folder.path);
    other.head.compensation().start(kChosen);
    other.steps -= 3;
    for (int i = 0; i < 3; ++i) other.step();
    EXPECT_NE(other.values(), model.values());
}

// No label has one before it is set.
TEST(HeadCompensation, IsIdleUntilStarted) {
    CompensatedHead model, other;
    EXPECT_TRUE(model.head.compensation().values().empty());
    model.step();
    other.head.compensation().start(kChosen);
    other.step();
    EXPECT_NE(model.weights(), other.weights());
}

TEST(HeadCompensation, WeightDropoutIsTheHeads) {
    CompensatedHead plain, dropped(0.5f), again(0.5f);
    for (CompensatedHead* model : {&plain, &dropped, &again}) model->step();
    EXPECT_NE(plain.weights(), dropped.weights());
    EXPECT_EQ(again.weights(), dropped.weights());
}

TEST(HeadCompensation, RefusesWhatIsNotItsOwn) {
    const TemporaryFolder folder;
    const fs::path file = folder.path / "c.safetensors";
    CompensatedHead model;
    const auto refused = [&](const std::vector<std::int64_t>& labels, std::int64_t width,
                             const std::string& dtype = "BF16") {
        const auto rows = static_cast<std::int64_t>(labels.size());
        {
            SafeTensorsWriter writer(file,
                                     {{"labels", "I64", {rows}}, {"compensation", dtype, {rows, width}}});
            writer.write("labels", std::span<const std::int64_t>(labels));
            const std::vector<std::byte> zeros(
                static_cast<std::size_t>(rows * width * safetensors_element_bytes(dtype)));
            writer.write("compensation", std::span<const std::byte>(zeros));
            writer.commit();
        }
        try {
            model.head.compensation().load(MappedFile(file));
        } catch (const DataError& error) {
            EXPECT_NE(std::string(error.what()).find("c.safetensors"), std::string::npos) << error.what();
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused(kChosen, kWidth));
    EXPECT_TRUE(refused({0, 3, 4, 20}, kWidth));
    EXPECT_TRUE(refused({0, 3, 4, 20, 36}, kWidth + 1));
    EXPECT_TRUE(refused({0, 3, 4, 20, 37}, kWidth));
    EXPECT_TRUE(refused({-1, 3, 4, 20, 36}, kWidth));
    EXPECT_TRUE(refused({0, 3, 3, 20, 36}, kWidth));
    EXPECT_TRUE(refused({0, 4, 3, 20, 36}, kWidth));
    EXPECT_TRUE(refused(kChosen, kWidth, "F32"));
    fs::remove(file);
    EXPECT_THROW(model.head.compensation().load(MappedFile(file)), DataError);
    EXPECT_THROW(
        Head({LabelLayout::range(0, 9), 4, DType::kF32, HeadExtras{.compensated_rows = 1, .renee = {}}},
             *model.backend),
        ConfigError);
}

}  // namespace
}  // namespace elmo
