// The index of a checkpoint: a file beside its folder, index-best.safetensors for RUN/best. It holds the hash
// of the manifest, so it is never used with other weights.
#pragma once

#include <filesystem>

#include "elmo/index.h"
#include "rank/index/label_sketch.h"
#include "run/checkpoint.h"

namespace elmo {

struct StoredIndex {
    LabelSketch sketch;
    SearchIndex report;
};

std::filesystem::path index_file(const std::filesystem::path& checkpoint_folder);

// Sets the report's bytes.
void write_index(const Checkpoint& checkpoint, const LabelSketch& sketch, SearchIndex& report);

// Maps it. DataError if there is none, if it was made for other weights, or if it is damaged: what to do is
// to make it again.
StoredIndex read_index(const Checkpoint& checkpoint, std::int64_t width);

}  // namespace elmo
