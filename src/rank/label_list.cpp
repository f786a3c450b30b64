#include "rank/label_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/line_reader.h"

namespace elmo {
namespace {

struct Wanted {
    std::int64_t line = 0;
    bool found = false;
};

bool parse_number(const std::string& text, std::int64_t labels, std::int64_t& number) {
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    return status == std::errc() && rest == text.data() + text.size() && number >= 0 && number < labels;
}

}  // namespace

std::vector<std::int64_t> read_label_list(const std::filesystem::path& file,
                                          const std::vector<std::string_view>& names, std::int64_t labels) {
    std::unordered_map<std::string, Wanted> wanted;
    LineReader reader(file);
    while (const auto line = reader.next_line())
        if (!line->empty()) wanted.try_emplace(std::string(*line), Wanted{reader.line_number()});
    std::vector<std::int64_t> result;
    std::string name;
    for (std::size_t i = 0; i < names.size(); ++i) {
        name.assign(names[i]);
        const auto found = wanted.find(name);
        if (found == wanted.end()) continue;
        found->second.found = true;
        result.push_back(static_cast<std::int64_t>(i));
    }
    // The first invalid line, independent of the order of the table.
    std::int64_t bad_line = 0;
    std::string bad;
    for (const auto& [text, entry] : wanted) {
        std::int64_t number = 0;
        if (entry.found) continue;
        if (parse_number(text, labels, number)) {
            result.push_back(number);
        } else if (bad_line == 0 || entry.line < bad_line) {
            bad_line = entry.line;
            bad = text;
        }
    }
    if (bad_line > 0)
        throw DataError(fmt::format("{}:{}: expected {}a label number from 0 to {}, found '{}'",
                                    file.string(), bad_line, names.empty() ? "" : "the name of a label or ",
                                    labels - 1, quoted(bad)));
    if (result.empty()) throw DataError(fmt::format("{}: expected labels, found none", file.string()));
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

std::vector<std::int64_t> all_labels_but(const std::vector<std::int64_t>& left_out, std::int64_t labels) {
    std::vector<std::int64_t> kept;
    kept.reserve(static_cast<std::size_t>(labels) - left_out.size());
    std::size_t next = 0;
    for (std::int64_t label = 0; label < labels; ++label) {
        if (next < left_out.size() && left_out[next] == label)
            ++next;
        else
            kept.push_back(label);
    }
    return kept;
}

}  // namespace elmo
