// A real pretrained encoder against the embeddings that the sentence-transformers library gives.
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "harness.h"

namespace elmo {
namespace {

using namespace test;

double least_cosine(DType dtype, const fs::path& folder) {
    const auto reference = nlohmann::json::parse(read_file(folder / "reference_embeddings.json"));
    const auto texts = pack(reference.at("ids").get<std::vector<std::vector<std::int32_t>>>());
    const auto expected = reference.at("mean_pooled_l2_normalised").get<std::vector<std::vector<double>>>();
    EncoderSpec spec = read_encoder_spec(folder);
    spec.dtype = dtype;
    Model model(make_device_backend(), spec, texts.batch().size(), texts.batch().num_tokens(), false);
    model.encoder->initialise(1);
    const View pooled = model.encoder->forward(texts.batch(), false, 1, 1);
    double least = 1;
    for (std::int64_t b = 0; b < pooled.rows; ++b) {
        const std::vector<double> found = model.values(pooled.slice(b, b + 1));
        double dot = 0, aa = 0, bb = 0;
        for (std::size_t i = 0; i < found.size(); ++i) {
            dot += found[i] * expected[static_cast<std::size_t>(b)][i];
            aa += found[i] * found[i];
            bb += expected[static_cast<std::size_t>(b)][i] * expected[static_cast<std::size_t>(b)][i];
        }
        const double cosine = dot / std::sqrt(aa * bb);
        if (!(cosine >= least)) least = cosine;
    }
    return least;
}

TEST(MiniLm, EmbeddingsEqualTheReference) {
    const fs::path folder = shared_folder() / "models/all-MiniLM-L6-v2";
    if (!fs::exists(folder / "model.safetensors")) GTEST_SKIP() << folder << " is not here";
    const double fp32 = least_cosine(DType::kF32, folder), bf16 = least_cosine(DType::kBf16, folder);
    std::printf("least cosine: %.7f in FP32, %.7f in BF16\n", fp32, bf16);
    EXPECT_GE(fp32, 0.9999);
    EXPECT_GE(bf16, 0.999);
}

}  // namespace
}  // namespace elmo
