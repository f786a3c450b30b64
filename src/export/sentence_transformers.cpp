// The encoder as a folder that SentenceTransformer(FOLDER) loads: a transformer and its pooling. Weights are
// float32, which holds those of every run exactly: libraries compute in the type that they find, and in
// bfloat16 their vectors would be other ones than elmo's.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "export/exported_run.h"
#include "formats/safetensors_writer.h"
#include "io/atomic_file.h"
#include "model/encoder/hf_config.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

void write_json(const fs::path& file, const Json& json) {
    write_file_atomically(file, json.dump(2) + "\n");
}

void write_weights(const ExportedRun& run, const fs::path& file) {
    std::vector<TensorSpec> tensors;
    for (const StoredTensor& tensor : encoder_tensors(run.encoder))
        tensors.push_back({tensor.name, "F32", tensor.shape});
    SafeTensorsWriter writer(file, tensors, {{"format", "pt"}});
    read_encoder_tensors(run, [&](const EncoderTensor& tensor) {
        writer.write(tensor.name, std::span<const float>(tensor.values));
    });
    writer.commit();
}

constexpr const char* kEncoderReadme = R"md(# The encoder of {name}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(FOLDER)  # this folder
vectors = model.encode(["a text to label"])  # {width} numbers per text, as elmo's text vectors, not normalised
```

Texts are cut at {length} tokens. The vectors are those that the run's classifier scores: with the files of `elmo export --to numpy`, `vectors @ np.load("labels.npy").T` are the scores of all labels. elmo itself rounds text vectors to BF16{inside}.
{notes})md";

}  // namespace

void export_sentence_transformers(const Context&, ExportedRun& run, const fs::path& folder,
                                  ExportResult& result) {
    require_transformer(run, result.to);
    take_one_window(run, result, "sentence-transformers cuts them there");
    write_weights(run, folder / "model.safetensors");
    EncoderSpec plain = run.encoder;
    plain.dtype = DType::kF32;
    plain.window = 0;
    write_file_atomically(folder / "config.json", model_config_text(plain));
    copy_files(run, {"tokenizer.json", "tokenizer_config.json"}, folder);
    Json modules = Json::array();
    for (const auto& [name, path] : {std::pair{"Transformer", ""}, std::pair{"Pooling", "1_Pooling"}}) {
        const auto index = modules.size();
        modules.push_back(Json::object({{"idx", index},
                                        {"name", std::to_string(index)},
                                        {"path", path},
                                        {"type", fmt::format("sentence_transformers.models.{}", name)}}));
    }
    write_json(folder / "modules.json", modules);
    Json module = Json::object({{"max_seq_length", run.max_length}, {"do_lower_case", false}});
    // The run has no pooler, which transformers would fill with random weights and report.
    if (run.encoder.family != "distilbert")
        module["model_args"] = Json::object({{"add_pooling_layer", false}});
    write_json(folder / "sentence_bert_config.json", module);
    write_json(folder / "config_sentence_transformers.json", Json::object({{"similarity_fn_name", "dot"}}));
    fs::create_directory(folder / "1_Pooling");
    const bool cls = run.encoder.pooling == Pooling::kCls;
    write_json(folder / "1_Pooling" / "config.json",
               Json::object({{"word_embedding_dimension", result.width},
                             {"pooling_mode_cls_token", cls},
                             {"pooling_mode_mean_tokens", !cls},
                             {"pooling_mode_max_tokens", false},
                             {"pooling_mode_mean_sqrt_len_tokens", false}}));
    write_file_atomically(
        folder / "README.md",
        fmt::format(fmt::runtime(kEncoderReadme), fmt::arg("name", run.name), fmt::arg("width", result.width),
                    fmt::arg("length", run.max_length), fmt::arg("notes", notes_text(result)),
                    fmt::arg("inside", run.encoder.dtype == DType::kBf16
                                           ? ", and computes this run's encoder in BF16 throughout, so its "
                                             "numbers have two to three digits in common with these"
                                           : "")));
}

}  // namespace elmo
