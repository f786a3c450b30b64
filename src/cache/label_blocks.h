// Pieces that all label imports share: a parsed block of label rows and the cache file it goes to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cache/cache_file.h"
#include "cache/ragged_writer.h"
#include "sources/records/record.h"

namespace elmo {

struct LabelBlock {
    std::vector<std::uint32_t> ids;
    std::vector<std::int64_t> lengths;
    ImportCounts mended;

    void add(const std::vector<std::uint32_t>& row) {
        ids.insert(ids.end(), row.begin(), row.end());
        lengths.push_back(static_cast<std::int64_t>(row.size()));
    }
};

// A labels file of the cache: ragged "labels", "counts" (rows of each label) and "stats" (LabelStats).
class LabelFileWriter {
  public:
    LabelFileWriter(const std::filesystem::path& folder, const CacheKey& key)
        : file_(folder, key), rows_(file_, "labels") {}

    void add(const LabelBlock& block);
    std::int64_t rows() const { return rows_.rows(); }
    void finish(std::int64_t num_labels, std::int64_t unknown_labels);

  private:
    CacheWriter file_;
    RaggedWriter<std::uint32_t> rows_;
    std::vector<std::int64_t> counts_;
    ImportCounts mended_;
};

}  // namespace elmo
