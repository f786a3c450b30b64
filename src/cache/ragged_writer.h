// Rows of different lengths written to a cache file: the values stream to the disk, and memory holds only the
// offsets.
#pragma once

#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "sources/rows.h"

namespace elmo {

// Sections "<name>.values" and "<name>.offsets". Nothing else may be written to the file between the
// constructor and finish().
template <class T>
class RaggedWriter {
  public:
    RaggedWriter(CacheWriter& file, std::string name) : file_(file), name_(std::move(name)) {
        file_.begin<T>(name_ + ".values");
    }
    // Adds rows of the given lengths whose values lie one after another.
    void add(std::span<const T> values, std::span<const std::int64_t> lengths) {
        file_.append(values);
        for (const std::int64_t length : lengths) offsets_.push_back(offsets_.back() + length);
    }
    std::int64_t rows() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
    void finish() { file_.section(name_ + ".offsets", offsets_); }

  private:
    CacheWriter& file_;
    std::string name_;
    std::vector<std::int64_t> offsets_ = {0};
};

// The rows written so; DataError when the offsets do not fit the values.
template <class T>
RaggedRows<T> read_ragged(const CacheFile& file, const std::string& name) {
    const RaggedRows<T> rows{file.section<std::int64_t>(name + ".offsets"),
                             file.section<T>(name + ".values")};
    bool sound = !rows.offsets.empty() && rows.offsets.front() == 0 &&
                 rows.offsets.back() == static_cast<std::int64_t>(rows.values.size());
    for (std::int64_t i = 0; sound && i < rows.rows(); ++i) sound = rows.offsets[i] <= rows.offsets[i + 1];
    if (!sound) file.inconsistent(name);
    return rows;
}

}  // namespace elmo
