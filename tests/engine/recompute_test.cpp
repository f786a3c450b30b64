// What the planner lets the backward compute again where memory is not limited.
#include "engine/recompute.h"

#include <gtest/gtest.h>

#include "elmo/config.h"

namespace elmo {
namespace {

std::string chosen(std::int64_t tokens, std::int64_t longest, bool fp8 = false) {
    EncoderSpec spec;
    spec.family = "bert";
    spec.layers = 6;
    spec.heads = 12;
    spec.width = 768;
    spec.intermediate = 3072;
    spec.dtype = DType::kBf16;
    spec.fp8 = fp8;
    Workload workload;
    workload.tokens = tokens;
    workload.longest = longest;
    const auto choices = recompute_choices(EngineOptions(Config{}), spec, workload, false);
    EXPECT_EQ(choices.size(), 1u);
    return describe_recompute(choices.front());
}

TEST(RecomputeChoices, ContextsOfLongTextsTakeFromPreActivations) {
    // A layer's pre-activations take 96 MiB, its context 24.
    EXPECT_EQ(chosen(16384, 128), "wide for the first 2 of 6, cheap for the others");
    EXPECT_EQ(chosen(16384, 129), "wide for the first 4 of 6, cheap for the others");
    EXPECT_EQ(chosen(65536, 128), "wide");
    EXPECT_EQ(chosen(65536, 512), "wide");  // contexts alone are above 400 MiB
    EXPECT_EQ(chosen(4096, 512), "none");
    EXPECT_EQ(chosen(16384, 512, true), chosen(16384, 128, true));
}

}  // namespace
}  // namespace elmo
