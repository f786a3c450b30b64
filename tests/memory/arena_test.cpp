// The arena: the dry run plans exactly what the real run takes.
#include "memory/arena.h"
#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "elmo/error.h"

namespace elmo {
namespace {

// One shape of a run: something that stays, then two phases that overlay.
struct StepMemory {
    View weights, small, large, last;
};

StepMemory allocate_run(Arena& arena) {
    StepMemory run;
    run.weights = arena.allocate("weights", DType::kBf16, 3, 5);
    {
        const Arena::Scope phase(arena);
        run.small = arena.allocate("small phase", DType::kF32, 1, 1000);
    }
    {
        const Arena::Scope phase(arena);
        run.large = arena.allocate("large phase", DType::kF64, 7, 1000);
        arena.allocate("nothing", DType::kF32, 0, 100);
    }
    run.last = arena.allocate("last", DType::kE4M3, 1, 1);
    return run;
}

std::int64_t rounded(std::int64_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

// What is dead in a phase has its place taken, by less or by more than there was.
TEST(Arena, AScopeMayBeginAtAMark) {
    for (const std::int64_t last : {256, 4096}) {
        Arena arena(allocate_host_block(1 << 20));
        const View kept = arena.allocate("kept", DType::kU8, 1, 256);
        const Arena::Mark mark = arena.mark();
        const View dead = arena.allocate("dead", DType::kU8, 1, 512);
        {
            const Arena::Scope phase(arena);
            arena.allocate("phase", DType::kU8, 1, 1024);
            const Arena::Scope over(arena, mark);
            EXPECT_EQ(arena.allocate("over", DType::kU8, 1, last).data, dead.data);
        }
        EXPECT_EQ(static_cast<char*>(arena.allocate("next", DType::kU8, 1, 256).data),
                  static_cast<char*>(dead.data) + 512);
        EXPECT_EQ(static_cast<char*>(dead.data), static_cast<char*>(kept.data) + 256);
        EXPECT_EQ(arena.peak_bytes(), 256 + std::max<std::int64_t>(512 + 1024, last));
        std::int64_t at_peak = 0;
        for (const Segment& segment : arena.segments()) at_peak += segment.at_peak ? segment.bytes : 0;
        EXPECT_EQ(at_peak, arena.peak_bytes());
    }
}

TEST(Arena, DryRunPlansTheRealRun) {
    Arena dry;
    EXPECT_TRUE(dry.dry());
    const StepMemory plan = allocate_run(dry);
    EXPECT_EQ(plan.weights.data, nullptr);
    EXPECT_TRUE(plan.weights.empty());
    EXPECT_EQ(plan.weights.rows, 3);
    EXPECT_EQ(dry.peak_bytes(), rounded(30) + rounded(56000));

    Arena real(allocate_host_block(dry.peak_bytes()));
    EXPECT_FALSE(real.dry());
    const StepMemory run = allocate_run(real);
    EXPECT_EQ(real.peak_bytes(), dry.peak_bytes());
    ASSERT_EQ(real.segments().size(), dry.segments().size());
    std::int64_t at_peak = 0;
    for (std::size_t i = 0; i < real.segments().size(); ++i) {
        const Segment planned = dry.segments()[i], taken = real.segments()[i];
        EXPECT_EQ(planned.name, taken.name);
        EXPECT_EQ(planned.bytes, taken.bytes);
        EXPECT_EQ(planned.at_peak, taken.at_peak);
        if (taken.at_peak) at_peak += taken.bytes;
    }
    EXPECT_EQ(at_peak, real.peak_bytes());
    EXPECT_NE(run.weights.data, nullptr);
}

TEST(Arena, ScopesLieOverOneAnother) {
    Arena arena(allocate_host_block(1 << 20));
    const StepMemory run = allocate_run(arena);
    const auto* base = static_cast<const char*>(run.weights.data);
    EXPECT_EQ(static_cast<const char*>(run.small.data), base + rounded(30));
    EXPECT_EQ(run.small.data, run.large.data);
    EXPECT_EQ(run.last.data, run.large.data);  // both phases are gone
}

TEST(Arena, NestedScopesReleaseInOrder) {
    Arena arena;
    {
        const Arena::Scope outer(arena);
        arena.allocate("a", DType::kU8, 1, 256);
        {
            const Arena::Scope inner(arena);
            arena.allocate("b", DType::kU8, 1, 512);
        }
        arena.allocate("c", DType::kU8, 1, 256);
        EXPECT_EQ(arena.peak_bytes(), 768);
    }
    arena.allocate("d", DType::kU8, 1, 769);
    EXPECT_EQ(arena.peak_bytes(), 1024);
}

TEST(Arena, MarksWhatIsAliveAtThePeak) {
    Arena arena;
    allocate_run(arena);
    for (const Segment& segment : arena.segments()) {
        const bool expected = segment.name == "weights" || segment.name == "large phase";
        if (segment.bytes > 0) {
            EXPECT_EQ(segment.at_peak, expected) << segment.name;
        }
    }
}

TEST(Arena, MemoryIsAlignedAndZero) {
    Arena arena(allocate_host_block(4096));
    for (const std::int64_t cols : {1, 255, 256, 257}) {
        const View view = arena.allocate("x", DType::kU8, 1, cols);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % Arena::kAlignment, 0u);
        for (std::int64_t i = 0; i < cols; ++i) EXPECT_EQ(view.codes()[i], 0);
    }
}

TEST(Arena, OutOfMemoryNamesTheTensor) {
    Arena arena(allocate_host_block(1024));
    arena.allocate("fits", DType::kU8, 1, 1024);
    try {
        arena.allocate("head.weight of 9 labels", DType::kU8, 1, 1);
        FAIL();
    } catch (const OutOfMemory& error) {
        EXPECT_NE(std::string(error.what()).find("head.weight of 9 labels"), std::string::npos);
    }
    // What was there is as it was.
    EXPECT_EQ(arena.peak_bytes(), 1024);
    EXPECT_EQ(arena.segments().size(), 1u);
}

TEST(Arena, SizesBeyondAnyMemoryAreErrors) {
    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    Arena arena;
    arena.allocate("first", DType::kU8, 1, 300);
    const auto fails = [&](DType dtype, std::int64_t rows, std::int64_t cols) {
        try {
            arena.allocate("too large", dtype, rows, cols);
            ADD_FAILURE() << rows << " x " << cols;
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("too large"), std::string::npos);
        }
    };
    fails(DType::kU8, huge, 1);
    fails(DType::kU8, huge, 2);
    fails(DType::kF64, huge / 4, 1);
    fails(DType::kF32, std::int64_t{1} << 32, std::int64_t{1} << 32);
    fails(DType::kU8, -1, 1);
    fails(DType::kU8, 1, -1);
    fails(DType::kU8, -1, -1);
    EXPECT_EQ(arena.peak_bytes(), 512);
    // Ten million labels are not: sizes are 64-bit.
    EXPECT_NO_THROW(arena.allocate("large", DType::kF32, 10'000'000, 4096));
    EXPECT_EQ(arena.peak_bytes(), 512 + std::int64_t{10'000'000} * 4096 * 4);
}

TEST(HostBlock, RefusalIsOutOfMemory) {
    EXPECT_THROW(allocate_host_block(std::int64_t{1} << 60), OutOfMemory);
    const auto empty = allocate_host_block(0);
    EXPECT_NE(empty->data(), nullptr);
}

TEST(ProcessMemory, SystemFigures) {
    EXPECT_GT(available_memory_bytes(), 0);
    EXPECT_GT(resident_bytes(), 0);
    EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
    const std::int64_t before = resident_bytes();
    const auto block = allocate_host_block(64 << 20);
    std::memset(block->data(), 1, 64 << 20);
    EXPECT_GE(resident_bytes() - before, 60 << 20);
}

TEST(MemoryReport, ShowsEverySegment) {
    Arena arena;
    allocate_run(arena);
    MemoryReport report;
    report.segments = arena.segments();
    report.arena_bytes = arena.peak_bytes();
    const std::string text = report.describe();
    for (const Segment& segment : report.segments) EXPECT_NE(text.find(segment.name), std::string::npos);
}

TEST(MemoryReport, AdvisesAboutWhatTakesMost) {
    MemoryReport report;
    const auto advice_with = [&](std::int64_t head, std::int64_t encoder, std::int64_t step) {
        report.segments = {{"head/weights", head, true},
                           {"encoder/first_moments", encoder, true},
                           {"encoder/layer.0/qkv", step, true},
                           {"encoder/gradients", 1000, false}};
        return report.advice();
    };
    EXPECT_EQ(advice_with(100, 10, 20), "store the head in fewer bits (precision), or lower width");
    EXPECT_EQ(advice_with(10, 100, 20), "lower vocab_size or width");
    EXPECT_EQ(advice_with(10, 20, 100), "lower batch_size, max_length or width");
    report.fixed_width = true;  // of a transformer
    EXPECT_EQ(advice_with(100, 10, 20),
              "store the head in fewer bits (precision), or take an encoder of less width");
    EXPECT_EQ(advice_with(10, 100, 20), "take a smaller encoder");
    EXPECT_EQ(advice_with(10, 20, 100), "lower batch_size or max_length");
    report.arena_bytes = 130;
    report.max_bytes = 120;  // 10 too many, of which the step has 20
    EXPECT_EQ(advice_with(10, 100, 20), "lower batch_size or max_length, or take a smaller encoder");
    report.segments.push_back({"scratch/shared", 1000, true});  // as large for any batch
    report.segments[2].bytes = 5;
    EXPECT_EQ(report.advice(), "take a smaller encoder");
    report.fixed_model = true;
    EXPECT_EQ(advice_with(10, 100, 20), "lower batch_size, or raise max_memory");
    EXPECT_EQ(advice_with(10, 100, 5), "raise max_memory");
    report.program_bytes = 80 << 20;
    report.max_bytes = 70 << 20;
    EXPECT_EQ(report.advice(), "raise max_memory: the program and mapped files alone take 80.0 MiB");
}

}  // namespace
}  // namespace elmo
