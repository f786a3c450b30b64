// Gradients consumed as they appear: the weights and the optimiser's state are those of a backward and an
// update, bit for bit, in the memory of the largest group.
#include <algorithm>

#include "elmo/error.h"
#include "harness.h"

namespace elmo {
namespace {

using namespace test;

// Started from scratch, with three layers and dropout everywhere.
EncoderSpec training_spec(const std::string& family, DType dtype) {
    EncoderSpec spec = spec_of(family, dtype);
    if (family != "bag") {
        spec.weights_folder = {};
        spec.initializer_range = 0.2f;
        spec.layers = 3;
    }
    spec.hidden_dropout = spec.attention_dropout = spec.pooled_dropout = 0.2f;
    return spec;
}

const std::vector<Texts> kBatches = {pack({{3, 5, 5, 12}, {7}, {7, 1, 2, 8, 22, 6, 4}}), pack({{9, 4}, {}}),
                                     pack(std::vector<std::vector<std::int32_t>>{{}}),
                                     pack({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})};

View forward(Model& model, std::size_t step) {
    const TextBatch batch = kBatches[step].batch();
    model.encoder->forward(batch, true, 9, step);
    const View dx = model.dx_BD.first(batch.size());
    std::vector<double> values(static_cast<std::size_t>(dx.size()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::cos(static_cast<double>(i + step));
    model.set(dx, values);
    return dx;
}

AdamWSettings settings_of(std::size_t step) {
    AdamWSettings settings;
    settings.lr = 1e-2f;
    settings.seed = 9;
    settings.t = static_cast<std::int64_t>(step) + 1;
    return settings;
}

void expect_same_state(Model& a, Model& b) {
    for (std::size_t i = 0; i < a.encoder->parameters().size(); ++i) {
        const Parameter &x = a.encoder->parameters()[i], &y = b.encoder->parameters()[i];
        for (View Parameter::*part :
             {&Parameter::w, &Parameter::m, &Parameter::v, &Parameter::c, &Parameter::exponents}) {
            if ((x.*part).empty()) continue;
            ASSERT_EQ(a.bytes(x.*part), b.bytes(y.*part)) << x.name;
        }
    }
}

class ConsumedGradients : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, ConsumedGradients,
                         testing::Values("bag", "bert", "distilbert", "roberta", "mpnet"));

TEST_P(ConsumedGradients, GiveTheSameBits) {
    for (const char* device : {"cpu", "reference"})
        for (const DType dtype : {DType::kBf16, DType::kF32})
            for (const Recompute mode : {Recompute::kNone, Recompute::kCheap, Recompute::kLayer}) {
                EncoderSpec spec = training_spec(GetParam(), dtype);
                spec.state_in_bytes = mode == Recompute::kCheap;
                const std::vector<Recompute> modes(static_cast<std::size_t>(spec.layers), mode);
                Model kept(make_backend(device), spec, 3, 12);
                spec.consume_gradients = true;
                Model consumed(make_backend(device), spec, 3, 12, true, 11, DType::kF32, modes);
                for (Model* model : {&kept, &consumed}) model->encoder->initialise(1);
                for (std::size_t step = 0; step < kBatches.size(); ++step) {
                    SCOPED_TRACE(std::string(device) + " " + std::string(name_of(dtype)) + " step " +
                                 std::to_string(step));
                    kept.encoder->backward(kBatches[step].batch(), forward(kept, step), false);
                    kept.encoder->update(settings_of(step));
                    consumed.encoder->backward_and_update(kBatches[step].batch(), forward(consumed, step),
                                                          settings_of(step));
                    expect_same_state(kept, consumed);
                    if (HasFailure()) return;
                }
            }
}

// The check sees every parameter once, with the gradient that the backward gives and the weight from before.
TEST_P(ConsumedGradients, AreCheckedBeforeTheUpdate) {
    EncoderSpec spec = training_spec(GetParam(), DType::kBf16);
    Model kept(make_backend("cpu"), spec, 3, 12);
    spec.consume_gradients = true;
    Model consumed(make_backend("cpu"), spec, 3, 12);
    for (Model* model : {&kept, &consumed}) model->encoder->initialise(1);
    kept.encoder->backward(kBatches[0].batch(), forward(kept, 0), false);
    std::vector<std::string> seen;
    consumed.encoder->backward_and_update(
        kBatches[0].batch(), forward(consumed, 0), settings_of(0), [&](const Parameter& p) {
            seen.push_back(p.name);
            EXPECT_EQ(consumed.bytes(p.grad), kept.bytes(kept.parameter(p.name).grad)) << p.name;
            EXPECT_EQ(consumed.bytes(p.w), kept.bytes(kept.parameter(p.name).w)) << p.name;
        });
    std::vector<std::string> expected;
    for (const Parameter& p : kept.encoder->parameters()) expected.push_back(p.name);
    std::sort(seen.begin(), seen.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(seen, expected);

    // What the check throws stops before the group's update.
    const std::string last = consumed.bytes(consumed.encoder->parameters().back().w);
    const View dx = forward(consumed, 1);
    EXPECT_THROW(consumed.encoder->backward_and_update(kBatches[1].batch(), dx, settings_of(1),
                                                       [](const Parameter&) { throw NumericError("stop"); }),
                 NumericError);
    EXPECT_EQ(consumed.bytes(consumed.encoder->parameters().back().w), last);
    EXPECT_THROW(consumed.encoder->backward(kBatches[1].batch(), dx, false), Error);
}

TEST_P(ConsumedGradients, TakeTheMemoryOfTheLargestGroup) {
    EncoderSpec spec = training_spec(GetParam(), DType::kF32);
    spec.consume_gradients = true;
    Model model(make_backend("cpu"), spec, 3, 12);
    std::int64_t all = 0, embeddings = 0, layer = 0, at_peak = 0;
    for (const Segment& segment : model.segments) {
        if (!segment.name.starts_with("encoder/gradients/")) continue;
        all += segment.bytes;
        at_peak += segment.at_peak ? segment.bytes : 0;
        const bool table = GetParam() == "bag" ? segment.name.ends_with("embeddings.weight")
                                               : segment.name.find("/embeddings.") != std::string::npos ||
                                                     segment.name.find("relative") != std::string::npos;
        if (table)
            embeddings += segment.bytes;
        else if (GetParam() == "bag" || segment.name.find(".layer.1.") != std::string::npos)
            layer += segment.bytes;
    }
    EXPECT_GT(layer, 0);
    EXPECT_EQ(at_peak, std::max(embeddings, layer));
    EXPECT_EQ(all, embeddings + layer * std::max<std::int64_t>(spec.layers, 1));
}

}  // namespace
}  // namespace elmo
