// `elmo export`: a run's label vectors, encoder or whole model as other tools read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct ExportedFile {
    std::string name;
    std::int64_t bytes = 0;
};

template <typename Visit>
void visit_fields(const ExportedFile& file, Visit&& visit) {
    visit("name", file.name);
    visit("bytes", file.bytes);
}

struct ExportResult {
    std::string to, out;
    std::int64_t labels = 0, width = 0;
    std::vector<ExportedFile> files;  // by name
    std::vector<std::string> notes;   // what the other tool does otherwise than elmo
};

template <typename Visit>
void visit_fields(const ExportResult& result, Visit&& visit) {
    visit("to", result.to);
    visit("out", result.out);
    visit("labels", result.labels);
    visit("width", result.width);
    visit("files", result.files);
    visit("notes", result.notes);
}

// Writes the folder config.out, which appears complete or not at all. `to`: numpy (label vectors),
// sentence-transformers (the encoder) or onnx (text to labels). ConfigError for another name, for a run that
// has no such part (a linear model; the encoder of a bag), and for a folder that is not empty (with
// config.overwrite: that holds something else than an export). Options used: out, overwrite, checkpoint, top.
ELMO_API ExportResult export_run(const Context& context, const std::string& run, const std::string& to,
                                 const Config& config);

}  // namespace elmo
