// What the planner lets the backward compute again where memory is not limited.
#include "engine/recompute.h"

#include <gtest/gtest.h>

#include "elmo/config.h"

namespace elmo {
namespace {

struct Asked {
    std::int64_t tokens, longest = 128, layers = 6;
    bool fp8 = false, may_compress = false;
    DType dtype = DType::kBf16;
    const char* family = "bert";
    std::int64_t labels = 0;
};
std::string chosen(const Asked& asked) {
    EncoderSpec spec;
    spec.family = asked.family;
    spec.layers = asked.layers;
    spec.heads = 12;
    spec.width = 768;
    spec.intermediate = 3072;
    spec.dtype = asked.dtype;
    spec.fp8 = asked.fp8;
    Workload workload;
    workload.tokens = asked.tokens;
    workload.longest = asked.longest;
    workload.labels = asked.labels;
    workload.batch = 128;
    EngineOptions options{Config()};
    options.may_compress = asked.may_compress;
    const auto choices = recompute_choices(options, spec, workload, false);
    EXPECT_EQ(choices.size(), 1u);
    return describe_recompute(choices.front());
}

TEST(RecomputeChoices, ContextsOfLongTextsTakeFromPreActivations) {
    // A layer's pre-activations take 96 MiB, its context 24.
    EXPECT_EQ(chosen({16384, 128}), "wide for the first 2 of 6, cheap for the others");
    EXPECT_EQ(chosen({16384, 129}), "wide for the first 4 of 6, cheap for the others");
    EXPECT_EQ(chosen({65536, 128}), "wide");
    EXPECT_EQ(chosen({65536, 512}), "wide");  // contexts alone are above 400 MiB
    EXPECT_EQ(chosen({4096, 512}), "none");
}

constexpr std::int64_t kManyLabels = 100'000'000;  // their products outweigh those of any encoder here

// 432 MiB are 18 sums that norms see, of which every layer but the last has two; then queries, keys and
// values, each like a sum, and the context of long texts. Beside fewer labels they are 26.
TEST(RecomputeChoices, Fp8ProductsKeepSumsFirst) {
    const auto fp8 = [](std::int64_t longest, std::int64_t layers, std::int64_t labels = kManyLabels) {
        return chosen({.tokens = 16384, .longest = longest, .layers = layers, .fp8 = true, .labels = labels});
    };
    EXPECT_EQ(fp8(128, 6), "wider for the first 3 of 6, wide for the next 2, cheap for the others");
    EXPECT_EQ(fp8(512, 5), "wider for the first 2 of 5, wide for the next 2, cheap for the others");
    EXPECT_EQ(fp8(128, 5), "wider for the first 1 of 5, wide for the next 3, cheap for the others");
    EXPECT_EQ(fp8(128, 10), "wider");
    EXPECT_EQ(fp8(128, 12), "layers for the first 4 of 12, wider for the next 7, cheap for the others");
    EXPECT_EQ(fp8(128, 24), "layers");
    EXPECT_EQ(fp8(128, 6, 0), "wide");
    EXPECT_EQ(fp8(128, 12, 0), "wider for the first 10 of 12, wide for the next 1, cheap for the others");
}

// Codes of all layers but the last, where that takes no more memory than the pre-activations of some.
TEST(RecomputeChoices, CodesWhereTheyTakeNoMoreMemory) {
    const auto may = [](std::int64_t tokens, std::int64_t longest, std::int64_t layers) {
        return chosen({.tokens = tokens, .longest = longest, .layers = layers, .may_compress = true});
    };
    EXPECT_EQ(may(16384, 128, 6), "compact");
    EXPECT_EQ(may(8192, 128, 12), "compact");
    // Of long texts queries, keys and values stay as they are. 400 MiB less the contexts are the
    // pre-activations of two layers, and codes of five and one of these would be 3.5; then of five, and 4.5.
    EXPECT_EQ(may(16384, 129, 6), "wide for the first 4 of 6, cheap for the others");
    EXPECT_EQ(may(9216, 512, 8), "compressed");
    // In units of a token's width in BF16: pre-activations 4, codes of them 2, queries, keys and values 3,
    // codes of these a little more than 1.5. Kept are 4 * 4 + 12 * 3 = 52; codes are 11 * 3.5 + 7 = 45.9.
    EXPECT_EQ(may(16384, 128, 12), "compact");
    // 32 layers: 4 * 4 + 32 * 3 = 112, 31 * 3.5 + 7 = 116.
    EXPECT_EQ(may(16384, 128, 32), "wide for the first 28 of 32, cheap for the others");
    // Attention with a bias.
    EXPECT_EQ(chosen({.tokens = 16384, .may_compress = true, .family = "mpnet"}), "compressed");
    // Nothing would be computed again.
    EXPECT_EQ(may(8192, 128, 6), chosen({8192}));
    EXPECT_EQ(may(4096, 128, 6), "none");
    EXPECT_EQ(chosen({.tokens = 8192, .may_compress = true, .dtype = DType::kF32}),
              chosen({.tokens = 8192, .dtype = DType::kF32}));
}

// Codes of 8,484 bytes per token and layer, and 768 more in one, up to 768 MiB.
TEST(RecomputeChoices, Fp8ProductsKeepCodesWhereTheyAreMostOfTheStep) {
    const auto chosen_for = [](Asked asked) {
        asked.fp8 = asked.may_compress = true;
        return chosen(asked);
    };
    EXPECT_EQ(chosen_for({16384, 128, 6}), "compact");                                            // 675 MiB
    EXPECT_EQ(chosen_for({8192, 128, 12}), "compact");                                            // 735 MiB
    EXPECT_EQ(chosen_for({16384, 128, 7}), chosen({.tokens = 16384, .layers = 7, .fp8 = true}));  // 808 MiB
    EXPECT_EQ(chosen_for({16384, 129, 6}), chosen({.tokens = 16384, .longest = 129, .fp8 = true}));
    Asked with_bias{16384};
    with_bias.family = "mpnet";
    EXPECT_EQ(chosen_for(with_bias), chosen({.tokens = 16384, .fp8 = true}));
    // 6 layers with 7.1 million weights each and 16,384 tokens; labels with 768 and 128 texts.
    Asked large{16384};
    large.labels = 7'000'000;
    EXPECT_EQ(chosen_for(large), "compact");
    large.labels = 7'200'000;
    EXPECT_EQ(chosen_for(large), chosen({.tokens = 16384, .fp8 = true, .labels = kManyLabels}));
}

}  // namespace
}  // namespace elmo
