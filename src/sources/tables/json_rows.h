// Texts and labels out of JSON lines: one object per line, keys by name. A key with dots that no object has
// is a path: 'meta.title' is the key title inside the object at meta.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sources/layout.h"
#include "sources/records/record.h"

namespace elmo {

// Parses records; keeps buffers, so one object per thread.
class JsonRows {
  public:
    JsonRows();
    ~JsonRows();
    JsonRows(const JsonRows&) = delete;
    JsonRows& operator=(const JsonRows&) = delete;

    // The values of `keys` joined by a space, and so are the strings of a list, or those that a path through
    // a list of objects leads to; empty ones and nulls in lists are left out. The first key must be there;
    // others may be missing or null. DataError for a record that is no object or a value that is no string.
    void text(const Record& record, const std::vector<std::string>& keys, std::string& out);
    enum class Scalar { kText, kNumber, kNone };  // kNone: a list or an object
    // The string or number at `key` as text, "" for null and where it is neither. A missing key, a list and
    // an object are a DataError if the value is `needed`.
    Scalar scalar(const Record& record, const std::string& key, bool needed, std::string& out);
    // The list of label numbers at `key`, sorted. DataError for one that is not in [0, num_labels), or a
    // repeated one unless `merge`.
    void label_ids(const Record& record, const std::string& key, std::int64_t num_labels, bool merge,
                   std::vector<std::uint32_t>& out, ImportCounts& counts);
    // Label names at `key`: a list of strings (without blanks around them) or whole numbers, or one string as
    // `cells` says. A path goes through lists of objects, whose values are names each.
    void label_names(const Record& record, const std::string& key, const LabelCells& cells,
                     std::vector<std::string>& out, ImportCounts& counts);
    // The keys of the object; none where the record holds no object.
    std::vector<std::string> keys(const Record& record);
    // These, and with dots the keys inside of objects, or of the first one of a list.
    std::vector<std::string> paths(const Record& record);
    // Whether the key, or the path, leads to a value, which may be null.
    bool has(const Record& record, const std::string& key);
    // Whether the object holds columns in the place of a row: lists of as many texts and labels, more than a
    // row usually has, or objects with a key per row, as pandas writes them.
    bool holds_columns(const Record& record, const std::string& text_key, const std::string& label_key);
    // The string at `key`; "" where there is none, or it is an item of a list.
    std::string string_at(const Record& record, const std::string& key);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The beginning of a file of JSON lines, at most about `most` records, as UTF-8: what is none is left to the
// import. Ends where `visit` returns false.
void visit_json(const Layout& layout, const std::filesystem::path& file, std::size_t most,
                const std::function<bool(const Record&)>& visit);

}  // namespace elmo
