#include "sources/tables/label_fields.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

std::string_view trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

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

}  // namespace

void split_labels(std::string_view field, std::string_view separator, std::vector<std::string>& out) {
    cut(field, separator, [&](std::string_view piece) {
        const std::string_view name = trim(piece);
        if (!name.empty()) out.emplace_back(name);
    });
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

void split_tsv(const Record& record, std::vector<std::string>& fields) {
    fields.clear();
    cut(record.bytes, "\t", [&](std::string_view piece) { fields.emplace_back(piece); });
}

void split_csv(const Record& record, std::vector<std::string>& fields) {
    fields.clear();
    std::string_view rest = record.bytes;
    while (true) {
        std::string& field = fields.emplace_back();
        if (rest.starts_with('"')) {
            rest.remove_prefix(1);
            while (true) {
                const std::size_t quote = rest.find('"');
                if (quote == rest.npos) fail(record, "a closing quote", fmt::format("'{}'", quoted(rest)));
                field += rest.substr(0, quote);
                rest.remove_prefix(quote + 1);
                if (!rest.starts_with('"')) break;
                field += '"';
                rest.remove_prefix(1);
            }
            if (!rest.empty() && rest.front() != ',')
                fail(record, "a comma after the closing quote", fmt::format("'{}'", quoted(rest, 20)));
        } else {
            field = rest.substr(0, rest.find(','));
            if (field.find('"') != field.npos)
                fail(record, "quotes only around a whole field, doubled inside it",
                     fmt::format("'{}'", quoted(field)));
            rest.remove_prefix(field.size());
        }
        if (rest.empty()) return;
        rest.remove_prefix(1);
    }
}

}  // namespace elmo
