#include "sources/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/byte_source.h"
#include "io/line_reader.h"
#include "sources/foreign.h"

namespace elmo {
namespace {

constexpr int kLines = 20;  // looked at

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::size_t digits(std::string_view text) {
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

// Whether the first line of a file is the header of a table whose labels are marked as those of fastText:
// what separates its columns follows a marked word of the row at once.
bool heads_marked_row(std::string_view header, std::string_view row) {
    if (header.starts_with("__label__")) return false;
    while (row.starts_with("__label__")) {
        const std::string_view word = row.substr(0, row.find(' '));
        for (const char delimiter : {',', ';', '\t', '|'})
            if (header.find(delimiter) != header.npos && word.find(delimiter) != word.npos) return true;
        row.remove_prefix(std::min(word.size() + 1, row.size()));
    }
    return false;
}

}  // namespace

std::string plain_name(const std::filesystem::path& file) {
    std::string name = file.filename().string();
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return without_packed_ending(std::move(name));
}

bool is_sparse_header(std::string_view line) {
    int numbers = 0;
    while (!line.empty()) {
        const std::size_t n = digits(line);
        if (n == 0) return false;
        ++numbers;
        line.remove_prefix(n);
        if (!line.empty() && line.front() != ' ' && line.front() != '\t') return false;
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    }
    return numbers == 3;
}

// [label[,label...]] feature:value [feature:value ...]
// A row of labels alone, or of nothing.
bool is_row_without_features(std::string_view line) {
    return line.find_first_not_of("0123456789, \t") == line.npos;
}

bool is_sparse_row(std::string_view line) {
    const std::size_t end = line.find_first_of(" \t");
    if (const std::string_view labels = line.substr(0, end); labels.find(':') == labels.npos) {
        for (const char c : labels)
            if (!is_digit(c) && c != ',') return false;
        line.remove_prefix(labels.size());
    }
    bool any = false;
    while (true) {
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (line.empty()) return any;
        const std::size_t n = digits(line);
        if (n == 0 || n >= line.size() || line[n] != ':') return false;
        line.remove_prefix(n + 1);
        const std::size_t stop = std::min(line.find_first_of(" \t"), line.size());
        if (stop == 0 || line.substr(0, stop).find_first_not_of("0123456789+-.eE") != line.npos) return false;
        line.remove_prefix(stop);
        any = true;
    }
}

std::optional<DataFormat> labelled_lines(const std::filesystem::path& file) {
    LineReader reader(file);
    int rows = 0, sparse = 0, bare = 0, labelled = 0, marked = 0;
    bool header = false;
    while (rows < kLines) {
        const auto line = reader.next_line();
        if (!line) break;
        if (rows == 0 && !header && line->starts_with("__label__")) return DataFormat::kFastText;
        if (rows == 0 && !header && is_sparse_header(*line)) {
            header = true;
            continue;
        }
        ++rows;
        marked += line->starts_with("__label__");
        // A row may have no features, or nothing.
        if (header && is_row_without_features(*line)) ++bare;
        if (!is_sparse_row(*line)) continue;
        ++sparse;
        const std::string_view first = line->substr(0, line->find_first_of(" \t"));
        labelled += !first.empty() && first.find(':') == first.npos;
    }
    // The first row may be one without labels.
    if (rows > 0 && 2 * marked >= rows) return DataFormat::kFastText;
    // Times of day look like features: a header or labels make it certain.
    if (sparse > 0 && sparse + bare == rows && (header || labelled > 0)) return DataFormat::kSparse;
    return std::nullopt;
}

DataFormat detect_format(const std::filesystem::path& file) {
    refuse_foreign_file(file);
    LineReader reader(file);
    const std::string name = plain_name(file);
    const bool named_csv = name.ends_with(".csv"), named_tsv = name.ends_with(".tsv");
    int rows = 0, sparse = 0, bare = 0, tabs = 0, marked = 0, below_header = 0;
    std::string first;
    while (rows < kLines) {
        const auto line = reader.next_line();
        if (!line) break;
        if (line->find_first_not_of(" \t") == line->npos) continue;
        if (rows == 0) {
            refuse_foreign_line(*line, file);
            first = *line;
        }
        ++rows;
        if (rows == 1 && is_sparse_header(*line)) return DataFormat::kSparse;
        // A text of a table may begin with a brace.
        if (rows == 1 && line->starts_with(named_csv || named_tsv ? "{\"" : "{")) return DataFormat::kJsonl;
        marked += line->starts_with("__label__");
        below_header += heads_marked_row(first, *line);
        sparse += is_sparse_row(*line);
        bare += is_row_without_features(*line);
        tabs += line->find('\t') != line->npos;
    }
    if (rows == 0)
        throw DataError(fmt::format("{}: expected rows, found {}", file.string(),
                                    reader.line_number() == 0 ? "an empty file" : "only empty lines"));
    if (sparse + bare == rows && sparse > bare) return DataFormat::kSparse;
    // A marked label may hold a blank.
    const bool of_table = (named_csv || named_tsv) && 2 * below_header > marked;
    if (2 * marked >= rows && !of_table) return DataFormat::kFastText;  // one may be a text of a table
    if (named_csv || named_tsv || name.ends_with(".jsonl") || name.ends_with(".ndjson") ||
        name.ends_with(".json")) {
        // A tab in every line is not a CSV, whatever the name. Otherwise the name decides if the content does
        // not contradict it, and the reader reports errors.
        if (named_csv)
            return tabs == rows && first.find(',') == first.npos ? DataFormat::kTsv : DataFormat::kCsv;
        return named_tsv ? DataFormat::kTsv : DataFormat::kJsonl;
    }
    if (marked > 0 && tabs < rows) return DataFormat::kFastText;
    if (tabs > 0) return DataFormat::kTsv;
    // The reader says what is wrong where these are no columns.
    if (first.find_first_of(",;|") != first.npos) return DataFormat::kCsv;
    throw ConfigError(fmt::format(
        "{}: the format cannot be told from the content: expected JSON lines, 'text<TAB>labels', CSV, "
        "'__label__x text' or 'labels feature:value', found '{}'; say it with --format",
        file.string(), quoted(first)));
}

}  // namespace elmo
