// What every kind of export reads of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/export.h"
#include "model/encoder/encoder.h"
#include "model/head/head.h"
#include "run/checkpoint.h"

namespace elmo {

struct ExportedRun {
    Checkpoint checkpoint;
    EncoderSpec encoder;
    HeadSpec head;
    std::int64_t max_length;  // of a text, or of a window, in tokens
    std::string name;         // of the run's folder
    std::int64_t top;         // labels per answer
};

// Calls take(values) for the label vectors as floats, exactly, a few thousand rows at a time and in order.
using TakeRows = std::function<void(std::span<const float> values)>;
void read_label_vectors(const Context& context, const ExportedRun& run, const TakeRows& take);

// A tensor of the encoder.
struct EncoderTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};
// Calls take for every tensor of the encoder's file, exactly, in the order of the forward. DataError if one
// is missing or of another shape than config.json says.
void read_encoder_tensors(const ExportedRun& run, const std::function<void(const EncoderTensor&)>& take);
// Their names and shapes.
std::vector<StoredTensor> encoder_tensors(const EncoderSpec& spec);

// Copies files of the checkpoint.
void copy_files(const ExportedRun& run, const std::vector<std::string>& names,
                const std::filesystem::path& to);
// A name per line; the label's number where the run has no names.
void write_label_names(ExportedRun& run, const std::filesystem::path& file);

// ConfigError if the run has no transformer, which `to` is about.
void require_transformer(const ExportedRun& run, const std::string& to);
// For tools that read one window of a text: cuts texts there, with a note that ends in `what`.
void take_one_window(ExportedRun& run, ExportResult& result, std::string_view what);
// The notes as paragraphs of the README in the folder.
std::string notes_text(const ExportResult& result);

void export_numpy(const Context& context, ExportedRun& run, const std::filesystem::path& folder,
                  ExportResult& result);
void export_sentence_transformers(const Context& context, ExportedRun& run,
                                  const std::filesystem::path& folder, ExportResult& result);
void export_onnx(const Context& context, ExportedRun& run, const std::filesystem::path& folder,
                 ExportResult& result);

}  // namespace elmo
