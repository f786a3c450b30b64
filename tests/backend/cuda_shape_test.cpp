// What the CUDA backend decides on the host, where no card is needed to ask: slices of dx, and whether a
// card finds machine code among what was compiled.
#include <gtest/gtest.h>

#include "backend/cuda/device/architectures.h"
#include "backend/cuda/head/shape.h"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kLabels = 1'000'000;

// The order of sums on the cards that have 132 multiprocessors is fixed: runs of an H200 are continued.
TEST(CudaShape, SlicesOfTheLargeHopperCards) {
    for (const int multiprocessors : {132, 144}) {
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 128, 768, multiprocessors), 33);
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 512, 768, multiprocessors), 8);
        EXPECT_EQ(hopper::slices_for(DType::kBf16, kLabels, 128, 768, multiprocessors), 44);
        EXPECT_EQ(hopper::slices_for(DType::kBf16, kLabels, 256, 512, multiprocessors), 16);
        EXPECT_EQ(hopper::slices_for(DType::kU8, kLabels, 256, 384, multiprocessors), 33);
        EXPECT_EQ(hopper::slices_for(DType::kU8, 300, 256, 384, multiprocessors), 3);
    }
    EXPECT_EQ(slices_for(kLabels, 128, 768), 33);
    EXPECT_EQ(slices_for(kLabels, 512, 1024), 6);
}

// A block fills a multiprocessor: one more block than there are of them takes as long as twice as many.
TEST(CudaShape, SlicesFitTheCardAndThePlan) {
    for (const int multiprocessors : {16, 78, 114, 132})
        for (const DType storage : {DType::kBf16, DType::kE4M3})
            for (std::int64_t batch = 128; batch <= 512; batch += 128)
                for (std::int64_t width = 128; width <= 768; width += 128) {
                    const bool joined = storage == DType::kBf16 && hopper::joins(width, batch);
                    const std::int64_t columns = joined ? 256 : width % 192 == 0 ? 192 : 128;
                    const std::int64_t blocks = batch / 128 * (width / columns);
                    const std::int64_t slices =
                        hopper::slices_for(storage, kLabels, batch, width, multiprocessors);
                    EXPECT_TRUE(slices == 1 || slices * blocks <= multiprocessors);
                    EXPECT_TRUE(slices == kMostSlices || (slices + 1) * blocks > multiprocessors);
                    EXPECT_LE(slices,
                              hopper::slices_for(storage, kLabels, batch, width, hopper::kMultiprocessors));
                }
}

// Where one slice has many blocks, slices fill the large cards, within the memory of a few.
TEST(CudaShape, SlicesOfLargeBatches) {
    for (const int multiprocessors : {16, 114, 132}) {
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 1024, 768, multiprocessors), 4);
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 1536, 768, multiprocessors), 5);
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 2048, 768, multiprocessors), 2);
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 2560, 768, multiprocessors), 3);
        EXPECT_EQ(hopper::slices_for(DType::kE4M3, kLabels, 4096, 768, multiprocessors), 1);
    }
}

TEST(CudaShape, MachineCodeOfACard) {
    constexpr const char* kUsual = "80,90a-real";
    EXPECT_TRUE(has_machine_code(kUsual, 8, 0));
    EXPECT_TRUE(has_machine_code(kUsual, 8, 9));
    EXPECT_TRUE(has_machine_code(kUsual, 9, 0));
    EXPECT_FALSE(has_machine_code(kUsual, 10, 0));
    EXPECT_FALSE(has_machine_code(kUsual, 12, 0));
    EXPECT_FALSE(has_machine_code("80-virtual", 8, 0));
    EXPECT_FALSE(has_machine_code("89-real", 8, 6));
    EXPECT_FALSE(has_machine_code("80", 9, 0));
    EXPECT_FALSE(has_machine_code("100a-real", 10, 3));
    EXPECT_TRUE(has_machine_code("80-real,120-real", 12, 1));
    EXPECT_FALSE(has_machine_code("", 8, 0));
}

}  // namespace
}  // namespace elmo::cuda
