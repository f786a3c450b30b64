#include "sources/tables/label_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/error.h"
#include "sources/tables/label_lists.h"

namespace elmo {
namespace {

template <class Take>
void cut(std::string_view text, std::string_view separator, const Take& take) {
    while (!separator.empty()) {
        const std::size_t at = text.find(separator);
        if (at == text.npos) break;
        take(text.substr(0, at));
        text.remove_prefix(at + separator.size());
    }
    take(text);
}

constexpr std::string_view kStrayAdvice =
    "double it inside a quoted field, or take such quotes as text with --allow-stray-quotes";

}  // namespace

std::string_view trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

void split_labels(std::string_view field, std::string_view separator, std::vector<std::string>& out) {
    cut(field, separator, [&](std::string_view piece) {
        const std::string_view name = trim(piece);
        if (!name.empty()) out.emplace_back(name);
    });
}

bool is_null_word(std::string_view field) {
    static constexpr std::string_view kWords[] = {"null", "Null", "NULL", "None", "none", "nan", "NaN",
                                                  "NAN",  "NA",   "N/A",  "n/a",  "<NA>", "NaT"};
    return std::find(std::begin(kWords), std::end(kWords), field) != std::end(kWords);
}

void read_label_field(const Record& record, std::string_view field, const LabelCells& cells,
                      std::vector<std::string>& out, ImportCounts& counts) {
    const std::string_view content = trim(field);
    if (content.empty()) return;
    if (cells.allow_null && is_null_word(content)) {
        ++counts.null_labels;
        return;
    }
    if (!cells.lists) return split_labels(field, cells.separator, out);
    const auto list = parse_label_list(content);
    if (!list)
        fail(record, "a list of labels like ['a', 'b']", fmt::format("'{}'", quoted(content)),
             fmt::format("write it as a list like [\"a\", \"b\"], or, where labels are no lists, {}",
                         cells.given ? "give --label-separator another value than 'list'"
                                     : "name what separates them with --label-separator"));
    if (list->nulls > 0 && !cells.allow_null)
        fail(record, "labels", fmt::format("a null in '{}'", quoted(content)),
             "leave nulls out of the labels with --allow-null-labels");
    if (list->nulls > 0) ++counts.null_labels;
    out.insert(out.end(), list->items.begin(), list->items.end());
}

std::vector<std::string> split_columns(std::string_view columns) {
    std::vector<std::string> names;
    cut(columns, "+", [&](std::string_view piece) {
        const std::string_view name = trim(piece);
        if (name.empty())
            throw ConfigError(
                fmt::format("text_column: expected names joined by +, found '{}'", quoted(columns)));
        names.emplace_back(name);
    });
    return names;
}

std::vector<std::string> columns_inside(std::string_view column, const std::vector<std::string>& names) {
    if (std::ranges::find(names, column) != names.end()) return {};
    for (const char joint : std::string_view(",;|&/+ ")) {
        std::vector<std::string> found;
        split_labels(column, {&joint, 1}, found);
        const auto is_there = [&](const std::string& name) {
            return std::ranges::find(names, name) != names.end();
        };
        if (found.size() > 1 && std::ranges::all_of(found, is_there)) return found;
    }
    return {};
}

std::string joining_advice(const std::vector<std::string>& text_columns,
                           const std::vector<std::string>& names, std::string_view kind) {
    std::vector<std::string> meant;
    for (const std::string& column : text_columns) {
        const std::vector<std::string> inside = columns_inside(column, names);
        if (inside.empty())
            meant.push_back(column);
        else
            meant.insert(meant.end(), inside.begin(), inside.end());
    }
    if (meant.size() == text_columns.size()) return {};
    return fmt::format("+ joins {}s: --text-column {}", kind,
                       shell_word(fmt::format("{}", fmt::join(meant, "+"))));
}

std::string one_column_advice(std::string_view label_column, const std::vector<std::string>& names,
                              std::string_view kind) {
    const std::vector<std::string> inside = columns_inside(label_column, names);
    if (inside.empty()) return {};
    return fmt::format("labels are those of one {}: join '{}' in the file", kind,
                       quoted(fmt::format("{}", fmt::join(inside, "' and '"))));
}

void split_plain(const Record& record, char delimiter, std::vector<std::string>& fields) {
    fields.clear();
    cut(record.bytes, {&delimiter, 1}, [&](std::string_view piece) { fields.emplace_back(piece); });
}

void split_csv(const Record& record, std::vector<std::string>& fields, char delimiter, std::int64_t* stray) {
    fields.clear();
    std::string_view rest = record.bytes;
    bool strays = false;
    while (true) {
        std::string& field = fields.emplace_back();
        if (rest.starts_with('"')) {
            rest.remove_prefix(1);
            while (true) {
                const std::size_t quote = rest.find('"');
                if (quote == rest.npos)
                    fail(record, "a closing quote", fmt::format("'{}'", quoted(rest)), kStrayAdvice);
                field += rest.substr(0, quote);
                rest.remove_prefix(quote + 1);
                if (!rest.starts_with('"')) break;
                field += '"';
                rest.remove_prefix(1);
            }
            if (!rest.empty() && rest.front() != delimiter) {
                if (stray == nullptr)
                    fail(record,
                         delimiter == ',' ? "a comma after the closing quote"
                                          : fmt::format("'{}' after the closing quote",
                                                        quoted(std::string_view(&delimiter, 1))),
                         fmt::format("'{}'", quoted(rest, 20)),
                         rest.front() == '\r'    ? kLoneCarriageReturns
                         : field.ends_with('\\') ? kBackslashAdvice
                                                 : kStrayAdvice);
                strays = true;
                const std::string_view tail = rest.substr(0, rest.find(delimiter));
                // The quotes were of the text, unless only blanks follow them.
                field = trim(tail).empty() ? field : fmt::format("\"{}\"{}", field, tail);
                rest.remove_prefix(tail.size());
            }
        } else {
            field = rest.substr(0, rest.find(delimiter));
            if (field.find('"') != field.npos) {
                if (stray == nullptr)
                    fail(record, "quotes only around a whole field, doubled inside it",
                         fmt::format("'{}'", quoted(field)),
                         field.find("\r\"") != field.npos ? kLoneCarriageReturns
                         : field.find("\\\"") != field.npos
                             ? kBackslashAdvice
                             : "take such quotes as text with --allow-stray-quotes");
                strays = true;
            }
            rest.remove_prefix(field.size());
        }
        if (rest.empty()) break;
        rest.remove_prefix(1);
    }
    if (strays) ++*stray;
}

}  // namespace elmo
