#include "sources/records/record_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"

namespace elmo {

namespace {

// Where only a quote at the beginning of a field opens it: whether a field is open behind these bytes.
bool leaves_field_open(std::string_view bytes, bool in_quotes, char delimiter) {
    bool at_start = !in_quotes;  // of a field
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char c = bytes[i];
        if (in_quotes) {
            if (c != '"') continue;
            if (i + 1 < bytes.size() && bytes[i + 1] == '"')
                ++i;
            else
                in_quotes = false;
        } else {
            in_quotes = at_start && c == '"';
            at_start = c == delimiter;
        }
    }
    return in_quotes;
}

}  // namespace

RecordReader::RecordReader(const std::filesystem::path& path, Framing framing, char delimiter)
    : lines_(path), framing_(framing), delimiter_(delimiter) {}

// Whether the record goes on after this line.
bool RecordReader::ends_in_quotes(std::string_view line, bool in_quotes) const {
    if (framing_ == Framing::kCsv) return in_quotes != (std::count(line.begin(), line.end(), '"') % 2 != 0);
    return leaves_field_open(line, in_quotes, delimiter_);
}

// One record as framed, empty lines included.
std::optional<Record> RecordReader::read() {
    auto line = lines_.next_line();
    if (!line) return std::nullopt;
    const Record first{*line, lines_.line_number(), lines_.name()};
    if (framing_ != Framing::kCsv && framing_ != Framing::kCsvStray) return first;
    bool in_quotes = ends_in_quotes(*line, false);
    if (!in_quotes) return first;
    joined_.assign(*line);
    while (in_quotes) {
        line = lines_.next_line();
        if (!line)
            fail({joined_, first.line, lines_.name()}, "a closing quote", "the end of the file",
                 framing_ == Framing::kCsv && joined_.find("\\\"") != joined_.npos ? kBackslashAdvice
                 : leaves_field_open(joined_, false, delimiter_)
                     ? "close it, or take all quotes as text with --quotes none"
                     : "close or double it, or take quotes inside fields as text with "
                       "--allow-stray-quotes");
        joined_.append("\n").append(*line);
        if (static_cast<std::int64_t>(joined_.size()) > LineReader::kDefaultMaxLine)
            fail({joined_, first.line, lines_.name()},
                 fmt::format("a record of at most {}", human_bytes(LineReader::kDefaultMaxLine)),
                 "a longer one (is a quote left open?)");
        in_quotes = ends_in_quotes(*line, true);
    }
    return Record{joined_, first.line, lines_.name()};
}

std::optional<Record> RecordReader::next() {
    if (framing_ == Framing::kLines) return read();
    if (empty_lines_ == 0 && !after_empty_) {
        auto record = read();
        while (record && record->bytes.empty()) {
            ++empty_lines_;
            record = read();
        }
        if (!record) {
            empty_lines_ = 0;
            return std::nullopt;
        }
        after_empty_ = record;
    }
    if (empty_lines_ > 0) {
        const Record empty{"", after_empty_->line - empty_lines_, lines_.name()};
        --empty_lines_;
        return empty;
    }
    const Record record = *after_empty_;
    after_empty_.reset();
    return record;
}

bool RecordReader::next_block(RecordBlock& block) {
    block.file = lines_.name();
    block.bytes.clear();
    block.lines.clear();
    block.begins.assign(1, 0);
    while (static_cast<std::int64_t>(block.bytes.size() + 8 * block.lines.size()) < kBlockBytes) {
        const auto record = next();
        if (!record) break;
        block.bytes.append(record->bytes);
        block.begins.push_back(block.bytes.size());
        block.lines.push_back(record->line);
    }
    return block.size() > 0;
}

}  // namespace elmo
