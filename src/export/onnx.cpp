// A run as an ONNX model: token ids in, the best labels and their scores out. Encoder and pooling in float32;
// the text vector is rounded as elmo rounds it, and ties go to the lower label, as in elmo.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "backend/ops/attention.h"
#include "data/tokenizer_files.h"
#include "export/exported_run.h"
#include "export/onnx_model.h"
#include "io/atomic_file.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Names = std::vector<std::string>;

constexpr const char* kIds = "input_ids";
constexpr const char* kMask = "attention_mask";

// The parts of the transformer. Names of weights are those of transformers; matrices are transposed, [in,
// out], as MatMul takes them.
class BertGraph {
  public:
    BertGraph(OnnxModel& model, const EncoderSpec& spec) : model_(model), spec_(spec) {}

    void add_weights(const ExportedRun& run) {
        read_encoder_tensors(run, [&](const EncoderTensor& tensor) { add(tensor); });
        const std::vector<std::int64_t> heads = {0, 0, spec_.heads, spec_.width / spec_.heads},
                                        joined = {0, 0, spec_.width};
        model_.constant("shape_heads", {4}, heads);
        model_.constant("shape_joined", {3}, joined);
        model_.constant("score_scale", 1.0f / std::sqrt(static_cast<float>(spec_.width / spec_.heads)));
        model_.constant("one", 1.0f);
        model_.constant("half", 0.5f);
        model_.constant("root_half", std::sqrt(0.5f));
        model_.constant("masked", -1e9f);
        number("zero", {}, 0);
        number("first", {}, 1);
        number("position_base", {}, spec_.position_base);
        number("axes_1", {1}, 1);
        number("axes_1_2", {2}, 1, 2);
        number("axes_2", {1}, 2);
    }

    // The text vectors [batch, width].
    std::string run() {
        const std::string length = model_.node("Gather", {model_.node("Shape", {kIds}), "first"});
        positions_ = model_.node("Range", {"zero", length, "first"});
        mask_ = model_.node("Cast", {kMask}, {{"to", static_cast<std::int64_t>(OnnxType::kFloat)}});
        bias_ = model_.node("Unsqueeze",
                            {model_.node("Mul", {model_.node("Sub", {"one", mask_}), "masked"}), "axes_1_2"});
        if (spec_.has_relative_bias()) bias_ = model_.node("Add", {bias_, relative_bias()});
        std::string x = embed();
        for (const Layer& layer : layers_) x = run_layer(layer, x);
        return pool(x);
    }

  private:
    // Weights of a layer in the order of the forward.
    struct Layer {
        std::string query, key, value, out, attention_norm, up, down, output_norm;
    };

    void number(const char* name, const OnnxModel::Shape& shape, std::int64_t a, std::int64_t b = -1) {
        const std::vector<std::int64_t> values = b < 0 ? std::vector{a} : std::vector{a, b};
        model_.constant(name, shape, values);
    }

    void add(const EncoderTensor& tensor) {
        note_layer(tensor.name);
        const bool table = tensor.name.starts_with("embeddings.");
        if (tensor.name == "embeddings.token_type_embeddings.weight") {  // elmo's texts are of type 0
            model_.weights("type_0", {spec_.width},
                           std::span(tensor.values).first(static_cast<std::size_t>(spec_.width)));
        } else if (tensor.name == "encoder.relative_attention_bias.weight") {
            add_relative_bias(tensor);
        } else if (tensor.shape.size() == 2 && !table) {
            const std::int64_t rows = tensor.shape[0], cols = tensor.shape[1];
            std::vector<float> turned(tensor.values.size());
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < cols; ++c)
                    turned[static_cast<std::size_t>(c * rows + r)] =
                        tensor.values[static_cast<std::size_t>(r * cols + c)];
            model_.weights(tensor.name, {cols, rows}, turned);
        } else {
            model_.weights(tensor.name, tensor.shape, tensor.values);
        }
    }

    // Of each layer the tensors come in the order of Layer's members, the weight before its bias.
    void note_layer(const std::string& name) {
        const std::size_t at = name.find("layer.");
        if (at == std::string::npos || !name.ends_with(".weight")) return;
        constexpr std::string Layer::*kOrder[] = {
            &Layer::query,          &Layer::key, &Layer::value, &Layer::out,
            &Layer::attention_norm, &Layer::up,  &Layer::down,  &Layer::output_norm};
        if (noted_ % std::size(kOrder) == 0) layers_.emplace_back();
        layers_.back().*kOrder[noted_++ % std::size(kOrder)] = name.substr(0, name.rfind('.'));
    }

    // A row per distance, from the farthest key in front of the query to the farthest behind it.
    void add_relative_bias(const EncoderTensor& tensor) {
        const std::int64_t reach = spec_.longest_text() - 1;
        std::vector<float> rows;
        for (std::int64_t distance = -reach; distance <= reach; ++distance)
            for (std::int64_t head = 0; head < spec_.heads; ++head)
                rows.push_back(
                    tensor.values[static_cast<std::size_t>(relative_bucket(distance) * spec_.heads + head)]);
        model_.weights("relative_bias", {2 * reach + 1, spec_.heads}, rows);
        number("reach", {}, reach);
        number("axes_0", {1}, 0);
    }
    std::string relative_bias() {
        const std::string keys = model_.node("Unsqueeze", {positions_, "axes_0"});
        const std::string queries = model_.node("Unsqueeze", {positions_, "axes_1"});
        const std::string row = model_.node("Add", {model_.node("Sub", {keys, queries}), "reach"});
        const std::string by_head =
            model_.node("Transpose", {model_.node("Gather", {"relative_bias", row})}, {{"perm", {2, 0, 1}}});
        return model_.node("Unsqueeze", {by_head, "axes_0"});
    }

    std::string norm(const std::string& name, const std::string& x) {
        return model_.node("LayerNormalization", {x, name + ".weight", name + ".bias"},
                           {{"axis", std::int64_t{-1}}, {"epsilon", spec_.norm_epsilon}});
    }
    std::string linear(const std::string& name, const std::string& x) {
        return model_.node("Add", {model_.node("MatMul", {x, name + ".weight"}), name + ".bias"});
    }
    std::string heads(const std::string& x, std::initializer_list<std::int64_t> order) {
        return model_.node("Transpose", {model_.node("Reshape", {x, "shape_heads"})}, {{"perm", order}});
    }

    std::string embed() {
        std::string x = model_.node("Gather", {"embeddings.word_embeddings.weight", kIds});
        if (spec_.types > 0) x = model_.node("Add", {x, "type_0"});
        const std::string at = model_.node("Add", {positions_, "position_base"});
        x = model_.node("Add", {x, model_.node("Gather", {"embeddings.position_embeddings.weight", at})});
        return norm("embeddings.LayerNorm", x);
    }

    std::string run_layer(const Layer& layer, const std::string& x) {
        const std::string q = heads(linear(layer.query, x), {0, 2, 1, 3});
        const std::string k = heads(linear(layer.key, x), {0, 2, 3, 1});
        const std::string v = heads(linear(layer.value, x), {0, 2, 1, 3});
        const std::string scores = model_.node("Mul", {model_.node("MatMul", {q, k}), "score_scale"});
        const std::string shares =
            model_.node("Softmax", {model_.node("Add", {scores, bias_})}, {{"axis", std::int64_t{-1}}});
        const std::string context =
            model_.node("Transpose", {model_.node("MatMul", {shares, v})}, {{"perm", {0, 2, 1, 3}}});
        const std::string joined = model_.node("Reshape", {context, "shape_joined"});
        const std::string attended =
            norm(layer.attention_norm, model_.node("Add", {linear(layer.out, joined), x}));
        const std::string down = linear(layer.down, gelu(linear(layer.up, attended)));
        return norm(layer.output_norm, model_.node("Add", {down, attended}));
    }
    std::string gelu(const std::string& x) {
        const std::string erf = model_.node("Erf", {model_.node("Mul", {x, "root_half"})});
        return model_.node("Mul", {model_.node("Mul", {x, model_.node("Add", {erf, "one"})}), "half"});
    }

    std::string pool(const std::string& x) {
        if (spec_.pooling == Pooling::kCls)
            return model_.node("Gather", {x, "zero"}, {{"axis", std::int64_t{1}}});
        const std::string mask = model_.node("Unsqueeze", {mask_, "axes_2"});
        const std::string sum = model_.node("ReduceSum", {model_.node("Mul", {x, mask}), "axes_1"},
                                            {{"keepdims", std::int64_t{0}}});
        const std::string count = model_.node("ReduceSum", {mask, "axes_1"}, {{"keepdims", std::int64_t{0}}});
        return model_.node("Div", {sum, model_.node("Max", {count, "one"})});
    }

    OnnxModel& model_;
    const EncoderSpec& spec_;
    std::vector<Layer> layers_;
    std::size_t noted_ = 0;
    std::string positions_, mask_, bias_;
};

std::string rounded(OnnxModel& model, const std::string& x, OnnxType type) {
    const std::string narrow = model.node("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}});
    return model.node("Cast", {narrow}, {{"to", static_cast<std::int64_t>(OnnxType::kFloat)}});
}

constexpr const char* kOnnxReadme = R"md(# {name} as an ONNX model

| | name | type and shape |
|---|---|---|
| in | `input_ids`, `attention_mask` | int64 [batch, sequence]; texts are padded at their end |
| in | `k` | int64 [1]: labels per text; {top} when left out |
| out | `scores`, `labels` | float32 and int64 [batch, k], best first |
| out | `text_vectors` | float32 [batch, {width}] |

The raw probability of a label is the sigmoid of its score. `labels.txt` has the name of each label; the weights are in `model.onnx.data`, which must lie beside `model.onnx`.

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({length})
tokenizer.enable_padding(pad_id={pad})
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
with open("labels.txt", encoding="utf-8", newline="\n") as file:
    names = [line.rstrip("\n") for line in file]
texts = ["a text to label"]
tokens = tokenizer.encode_batch(texts)
inputs = dict(input_ids=np.array([t.ids for t in tokens]), attention_mask=np.array([t.attention_mask for t in tokens]))
scores, labels = session.run(["scores", "labels"], inputs)
print([[names[label] for label in row] for row in labels])
```
{notes})md";

}  // namespace

void export_onnx(const Context& context, ExportedRun& run, const fs::path& folder, ExportResult& result) {
    require_transformer(run, result.to);
    take_one_window(run, result, "the ONNX model takes one window");
    const bool fp8 = run.head.format.dtype == DType::kE4M3;
    const std::int64_t top = std::min(run.top, result.labels);
    const std::string width = std::to_string(result.width);
    OnnxModel model(folder / "model.onnx.data");
    for (const char* name : {kIds, kMask}) model.input(name, OnnxType::kInt64, {"batch", "sequence"});
    model.input("k", OnnxType::kInt64, {"1"});
    model.output("scores", OnnxType::kFloat, {"batch", "k"});
    model.output("labels", OnnxType::kInt64, {"batch", "k"});
    model.output("text_vectors", OnnxType::kFloat, {"batch", width});
    model.constant("k", {1}, std::span(&top, 1));

    BertGraph graph(model, run.encoder);
    graph.add_weights(run);
    const std::string vectors = rounded(model, graph.run(), OnnxType::kBf16);
    model.named_node("Identity", {vectors}, {"text_vectors"});
    model.weights("label_vectors", {result.labels, result.width},
                  [&](const OnnxModel::Write& write) { read_label_vectors(context, run, write); });
    const std::string scores =
        model.node("Gemm", {fp8 ? rounded(model, vectors, OnnxType::kE4M3) : vectors, "label_vectors"},
                   {{"transB", std::int64_t{1}}});
    model.named_node("TopK", {scores, "k"}, {"scores", "labels"}, {{"axis", std::int64_t{-1}}});
    model.commit(folder / "model.onnx", fp8 ? 19 : 17, "elmo");

    copy_files(run, {"tokenizer.json", "tokenizer_config.json"}, folder);
    write_label_names(run, folder / "labels.txt");
    write_file_atomically(
        folder / "README.md",
        fmt::format(fmt::runtime(kOnnxReadme), fmt::arg("name", run.name), fmt::arg("top", top),
                    fmt::arg("width", width), fmt::arg("length", run.max_length),
                    fmt::arg("notes", notes_text(result)),
                    fmt::arg("pad", std::max(stored_tokenizer(run.checkpoint.content())->pad_id(), 0))));
}

}  // namespace elmo
