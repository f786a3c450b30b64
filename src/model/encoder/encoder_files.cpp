// An encoder's weights and optimiser state in files.
#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "model/encoder/encoder.h"
#include "model/gathered_rows.h"
#include "model/tensor_transfer.h"

namespace elmo {
namespace {

std::int64_t num_elements(const StoredTensor& tensor) {
    std::int64_t count = 1;
    for (const std::int64_t n : tensor.shape) count *= n;
    return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

// What the names of a model's weights begin with where it was saved inside another.
std::string prefix_of(const std::string& family) {
    return family == "xlm-roberta" ? "roberta" : family;
}

// The tensor under its own name, with the model's prefix ("bert.embeddings...") or NGAME's, or with the names
// that the first BERT checkpoints gave to a norm's weight and bias.
const TensorInfo* find_tensor(const SafeTensorsFolder& files, const std::string& prefix,
                              const std::string& name) {
    std::vector<std::string> names = {name};
    const std::size_t norm = name.rfind("LayerNorm.");
    if (norm != std::string::npos)
        names.push_back(name.substr(0, norm + 10) + (name.ends_with("weight") ? "gamma" : "beta"));
    for (const std::string& candidate : names)
        for (const std::string& before :
             {std::string(), prefix + ".", std::string("embedding_labels.encoder.transformer.0.auto_model.")})
            if (const TensorInfo* tensor = files.find(before + candidate)) return tensor;
    return nullptr;
}

struct StatePart {
    const char* suffix;
    View Parameter::*member;

    const View& of(const Parameter& p) const { return member == &Parameter::grad ? p.gradient() : p.*member; }
};

std::vector<StatePart> state_parts(const EncoderSpec& spec) {
    std::vector<StatePart> parts = {{".m", &Parameter::m}, {".v", &Parameter::v}};
    if (spec.has_compensation()) parts.push_back({".c", &Parameter::c});
    if (spec.has_bytes()) parts.push_back({".exponents", &Parameter::exponents});
    if (spec.accumulate > 1) parts.push_back({".grad", &Parameter::grad});
    return parts;
}

}  // namespace

void Encoder::save_weights(const std::filesystem::path& folder) const {
    std::vector<TensorSpec> tensors;
    const std::string dtype(safetensors_dtype(spec_.dtype));
    for (const Parameter& p : parameters_)
        for (const StoredTensor& stored : p.stored) tensors.push_back({stored.name, dtype, stored.shape});
    SafeTensorsWriter writer(folder / "model.safetensors", tensors, {{"format", "pt"}});
    for (const Parameter& p : parameters_) {
        std::int64_t first = 0;
        for (const StoredTensor& stored : p.stored) {
            const std::int64_t count = num_elements(stored);
            write_view(writer, stored.name, backend_, elements(p.w, first, count));
            first += count;
        }
    }
    writer.commit();
    write_file_atomically(folder / "config.json", config_json());
}

void Encoder::load_weights(const InputFolder& folder) {
    const SafeTensorsFolder files = open_safetensors_folder(folder);
    for (const Parameter& p : parameters_) {
        std::int64_t first = 0;
        for (const StoredTensor& stored : p.stored) {
            const TensorInfo* tensor = find_tensor(files, prefix_of(spec_.family), stored.name);
            if (tensor == nullptr)
                throw DataError(fmt::format(
                    "{}: tensor '{}' is missing (expected shape {}, with or without the prefix '{}.'): "
                    "do weights and config.json belong together?",
                    files.name(), stored.name, shape_text(stored.shape), prefix_of(spec_.family)));
            if (tensor->shape != stored.shape)
                throw DataError(fmt::format(
                    "{}: tensor '{}': expected shape {}, found {}: do weights and config.json belong "
                    "together?",
                    files.name(), quoted(tensor->name, 200), shape_text(stored.shape), tensor->shape_text()));
            const std::int64_t count = num_elements(stored);
            upload_converted(backend_, elements(p.w, first, count), *tensor, files.files());
            first += count;
        }
    }
}

std::vector<TensorSpec> Encoder::state_tensors() const {
    std::vector<TensorSpec> tensors;
    for (const Parameter& p : parameters_)
        for (const StatePart& part : state_parts(spec_))
            tensors.push_back({p.name + part.suffix,
                               std::string(safetensors_dtype(part.of(p).dtype)),
                               {p.w.rows, part.of(p).cols}});
    return tensors;
}

void Encoder::save_state(const std::filesystem::path& file) const {
    SafeTensorsWriter writer(file, state_tensors());
    for (const Parameter& p : parameters_)
        for (const StatePart& part : state_parts(spec_))
            write_view(writer, p.name + part.suffix, backend_, part.of(p));
    writer.commit();
}

void Encoder::save_state_shared(const std::filesystem::path* file, Ranks& ranks) const {
    std::optional<SafeTensorsWriter> writer;
    if (file != nullptr) writer.emplace(*file, state_tensors());
    for (const Parameter& p : parameters_)
        for (const StatePart& part : state_parts(spec_))
            GatheredRows(ranks, backend_, part.of(p))
                .write(writer ? &*writer : nullptr, p.name + part.suffix, 0, p.w.rows);
    if (writer) writer->commit();
}

void Encoder::load_state(MappedFile file) {
    const SafeTensors tensors = SafeTensors::open(std::move(file));
    for (const Parameter& p : parameters_)
        for (const StatePart& part : state_parts(spec_))
            upload_rows_exact(backend_, part.of(p), p.own.first, p.w.rows, tensors, p.name + part.suffix);
}

}  // namespace elmo
