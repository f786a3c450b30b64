// One training step against PyTorch in FP64 (tools/make_golden.py wrote the files).
#include <algorithm>
#include <tuple>

#include "harness.h"

namespace elmo {
namespace {

using namespace test;

struct Golden {
    fs::path folder;
    SafeTensors file;
    Texts texts;
    PositiveList positives;
    explicit Golden(const std::string& family)
        : folder(fs::path(ELMO_SOURCE_DIR) / "tests/model/golden" / family),
          file(SafeTensors::open(folder / "golden.safetensors")) {
        texts.tokens = tensor_integers<std::int32_t>(file.at("tokens"));
        texts.offsets = tensor_integers<std::int32_t>(file.at("offsets"));
        const auto pairs = tensor_integers<std::int64_t>(file.at("positives"));
        for (std::size_t i = 0; i < pairs.size(); i += 2)
            positives.push_back(pairs[i], static_cast<std::int32_t>(pairs[i + 1]));
    }
    std::vector<double> values(const std::string& name) const { return tensor_values(file.at(name)); }
    // The gradient of a parameter: that of its stored tensors one after another.
    std::vector<double> gradient(const Parameter& p) const {
        std::vector<double> all;
        for (const StoredTensor& stored : p.stored) {
            const std::vector<double> part = values("grad." + stored.name);
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }
};

// What one number may be wrong by, as a share of the largest of its tensor: the roundings on the longest path
// from a weight through the network and back, of one unit roundoff of the storage each, independent of one
// another and so added in quadrature; plus one unit roundoff of the accumulation for each term of the sums on
// the way. The norms and the softmax magnify what they are given by up to 1 / deviation of their input, here
// below 4.
double tolerance(const EncoderSpec& spec, std::int64_t tokens, double storage, double accumulation) {
    const double layers = static_cast<double>(spec.layers);
    // Views written forward and backward; a GPU also rounds attention weights (twice) and gradients of
    // scores.
    const double stored = layers * (9 + 9 + (kTestsGpu ? 3 : 0));
    const double terms =
        layers * 2.0 * static_cast<double>(6 * spec.width + 2 * spec.intermediate + 2 * tokens);
    return 4 * (std::sqrt(stored) * storage + terms * accumulation);
}

class GoldenStep : public testing::TestWithParam<std::tuple<std::string, std::string, DType>> {};

TEST_P(GoldenStep, AgreesWithPyTorch) {
    const auto& [backend, family, dtype] = GetParam();
    const Golden golden(family);
    EncoderSpec spec = read_encoder_spec(golden.folder);
    spec.dtype = dtype;
    spec.hidden_dropout = spec.attention_dropout = 0;
    const std::int64_t B = golden.texts.batch().size(), T = golden.texts.batch().num_tokens();
    const DType head_dtype = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    // Memory for more than the batch: buffers are used from their beginning.
    Model model(make_backend(backend), spec, B + 2, T + 5, true, golden.file.at("head").shape[0], head_dtype);
    model.encoder->initialise(1);
    model.set(model.head->weights(), golden.values("head"));

    const View pooled = model.encoder->forward(golden.texts.batch(), true, 1, 1);
    ASSERT_EQ(pooled.rows, B);
    ASSERT_EQ(pooled.dtype, dtype == DType::kF64 ? DType::kF64 : DType::kBf16);
    const View dx = model.dx_BD.first(B);
    const HeadStepResult step = model.head->step({pooled, golden.positives, 0.125f, 0.0625f, 1, 1, true, dx});
    const double storage = dtype == DType::kF64 ? 0x1p-53 : dtype == DType::kF32 ? 0x1p-24 : 0x1p-9;
    const double accumulation = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
    const double bound = tolerance(spec, T, storage, accumulation);
    // Pooled vectors and the head's gradients pass through BF16 unless everything is FP64: three roundings.
    const double head_bound = bound + (dtype == DType::kF64 ? 0 : 3 * 0x1p-9);
    EXPECT_LE(relative_error(model.values(pooled), golden.values("pooled")), head_bound);
    EXPECT_LE(std::abs(step.loss_sum / golden.values("loss")[0] - 1), head_bound);
    EXPECT_LE(relative_error(model.values(dx), golden.values("dpooled")), head_bound);
    EXPECT_LE(relative_error(model.values(model.head->weights()), golden.values("head_after")), head_bound);

    // The encoder's backward from the true gradient, so that it is judged by its own precision.
    if (dtype != DType::kF64) model.set(dx, golden.values("dpooled"));
    model.encoder->backward(golden.texts.batch(), dx, false);
    for (const Parameter& p : model.encoder->parameters())
        EXPECT_LE(relative_error(model.values(p.grad), golden.gradient(p)), bound) << p.name;

    // Accumulation adds the same again.
    if (dtype == DType::kF64) {
        model.encoder->forward(golden.texts.batch(), true, 1, 1);
        model.encoder->backward(golden.texts.batch(), dx, true);
        for (const Parameter& p : model.encoder->parameters()) {
            std::vector<double> twice = golden.gradient(p);
            for (double& value : twice) value *= 2;
            EXPECT_LE(relative_error(model.values(p.grad), twice), bound) << p.name;
        }
    }
}

std::string case_name(const testing::TestParamInfo<GoldenStep::ParamType>& param_info) {
    std::string name = std::get<1>(param_info.param);
    std::replace(name.begin(), name.end(), '-', '_');
    return name + "_" + std::string(name_of(std::get<2>(param_info.param)));
}
INSTANTIATE_TEST_SUITE_P(Reference, GoldenStep,
                         testing::Combine(testing::Values("reference"),
                                          testing::Values("bert", "distilbert", "roberta", "xlm-roberta",
                                                          "mpnet"),
                                          testing::Values(DType::kF64, DType::kF32, DType::kBf16)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Device, GoldenStep,
                         testing::Combine(testing::Values(kTestedDevice),
                                          testing::Values("bert", "distilbert", "roberta", "xlm-roberta",
                                                          "mpnet"),
                                          testing::Values(DType::kF32, DType::kBf16)),
                         case_name);

}  // namespace
}  // namespace elmo
