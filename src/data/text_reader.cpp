#include "elmo/text_reader.h"

#include <fmt/format.h>

#include "data/detect.h"
#include "data/json_rows.h"
#include "data/label_fields.h"
#include "data/record.h"
#include "elmo/error.h"
#include "io/line_reader.h"

namespace elmo {
namespace {

bool is_json_name(std::string_view name) {
    return name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".ndjson");
}

// A table's lines are no texts: its header, its labels and half of a quoted field would be answered too.
void refuse_table(const std::string& path, std::string_view name) {
    if (name.ends_with(".csv") || name.ends_with(".tsv"))
        throw ConfigError(fmt::format(
            "{}: expected texts, one a line, or JSON lines, found a table by its name; write its "
            "texts one a line or as JSON objects (each line as it is: --input text, or standard input)",
            path));
}

}  // namespace

struct TextReader::Impl {
    enum class Form { kUndecided, kText, kJson };

    LineReader lines;
    Form form = Form::kUndecided;
    std::vector<std::string> keys;
    Encoding encoding;
    JsonRows json;
    ImportCounts counts;
    std::string storage;

    Impl(const std::string& path, const Config& config)
        : lines(path.empty() ? "-" : path),
          keys(split_columns(config.text_column)),
          encoding(encoding_of(config)) {
        const std::string name = plain_name(path);
        if (config.input == "auto") refuse_table(path, name);
        if (config.input == "text") form = Form::kText;
        if (config.input == "jsonl" || (config.input == "auto" && is_json_name(name))) form = Form::kJson;
    }

    std::string text_of(std::string_view line) {
        Record record{line, lines.line_number(), lines.name()};
        record.bytes = valid_utf8(record, encoding, storage, counts);
        if (form == Form::kUndecided)
            form = line.starts_with('{') && line.ends_with('}') ? Form::kJson : Form::kText;
        if (form == Form::kText) return std::string(record.bytes);
        std::string text;
        json.text(record, keys, text);
        return text;
    }
};

TextReader::TextReader(const std::string& path, const Config& config)
    : impl_(std::make_unique<Impl>(path, config)) {}
TextReader::~TextReader() = default;

std::vector<std::string> TextReader::next(std::int64_t limit) {
    std::vector<std::string> texts;
    while (static_cast<std::int64_t>(texts.size()) < limit && (texts.empty() || impl_->lines.ready())) {
        const auto line = impl_->lines.next_line();
        if (!line) break;
        texts.push_back(impl_->text_of(*line));
    }
    return texts;
}

std::int64_t TextReader::bytes_read() const {
    return impl_->lines.bytes_read();
}
std::int64_t TextReader::total_bytes() const {
    return impl_->lines.total_bytes();
}

std::int64_t TextReader::replaced_utf8() const {
    return impl_->counts.replaced_utf8;
}

}  // namespace elmo
