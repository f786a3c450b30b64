// Records of a source file in blocks: lines, or CSV records whose quoted fields may hold line ends. Blocks
// are cut by size, so that they can be parsed by several threads and still come out in file order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/line_reader.h"
#include "sources/records/record.h"

namespace elmo {

enum class Framing {
    kLines,     // every line is a record, empty ones too
    kObjects,   // the same, but empty lines at the end of the file are no records
    kCsv,       // a record ends at a line end outside double quotes; empty lines at the end are no records
    kCsvStray,  // the same, but quotes inside a field that does not begin with one are text
};

struct RecordBlock {
    std::string file;
    std::string bytes;
    std::vector<std::size_t> begins;  // [size + 1] into bytes
    std::vector<std::int64_t> lines;  // [size]

    std::int64_t size() const { return static_cast<std::int64_t>(lines.size()); }
    Record record(std::int64_t i) const {
        return {std::string_view(bytes).substr(begins[i], begins[i + 1] - begins[i]), lines[i], file};
    }
};

class RecordReader {
  public:
    static constexpr std::int64_t kBlockBytes = std::int64_t{256} << 10;

    explicit RecordReader(const std::filesystem::path& path, Framing framing, char delimiter = ',');

    // Only the next record, for headers; valid until the next call.
    std::optional<Record> next();
    // At least one record unless the file has ended, then up to about kBlockBytes. False at the end.
    bool next_block(RecordBlock& block);

    const std::string& file() const { return lines_.name(); }
    std::int64_t bytes_read() const { return lines_.bytes_read(); }
    std::int64_t total_bytes() const { return lines_.total_bytes(); }

  private:
    std::optional<Record> read();
    bool ends_in_quotes(std::string_view line, bool in_quotes) const;

    LineReader lines_;
    Framing framing_;
    char delimiter_;
    std::string joined_;                 // of a CSV record over several lines
    std::int64_t empty_lines_ = 0;       // seen and not yet handed out: kept back in case the file ends here
    std::optional<Record> after_empty_;  // the record that follows them
};

}  // namespace elmo
