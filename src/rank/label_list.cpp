#include "rank/label_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/line_reader.h"
#include "sources/records/record.h"

namespace elmo {
namespace {

struct Wanted {
    std::int64_t place = 0;  // line, or index
    bool found = false;
};

bool parse_number(const std::string& text, std::int64_t labels, std::int64_t& number) {
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    return status == std::errc() && rest == text.data() + text.size() && number >= 0 && number < labels;
}

using Entries = std::unordered_map<std::string, Wanted>;

// Appends the labels whose names are wanted, and marks these as found.
void find_names(const std::vector<std::string_view>& names, Entries& wanted,
                std::vector<std::int64_t>& result) {
    std::string name;
    for (std::size_t i = 0; i < names.size() && !wanted.empty(); ++i) {
        name.assign(names[i]);
        const auto found = wanted.find(name);
        if (found == wanted.end()) continue;
        found->second.found = true;
        result.push_back(static_cast<std::int64_t>(i));
    }
}

// `where(place)` opens messages about one entry, `list` those about all of them.
template <typename Where>
std::vector<std::int64_t> find(Entries wanted, const std::string& list, Where where,
                               const std::vector<std::string_view>& names, std::int64_t labels) {
    std::vector<std::int64_t> result;
    find_names(names, wanted, result);
    // A name, a tab and a text, as labels are added.
    Entries before_tabs;
    for (const auto& [text, entry] : wanted)
        if (const std::size_t tab = text.find('\t'); !entry.found && tab != text.npos)
            before_tabs.try_emplace(text.substr(0, tab), entry);
    find_names(names, before_tabs, result);
    // The first entry that means nothing, whatever the order of the table.
    std::int64_t bad_place = -1;
    std::string bad;
    for (const auto& [text, entry] : wanted) {
        std::int64_t number = 0;
        if (entry.found) continue;
        if (const auto name = before_tabs.find(text.substr(0, text.find('\t')));
            name != before_tabs.end() && name->second.found)
            continue;
        if (parse_number(text, labels, number)) {
            result.push_back(number);
        } else if (bad_place < 0 || entry.place < bad_place) {
            bad_place = entry.place;
            bad = text;
        }
    }
    if (bad_place >= 0)
        throw DataError(fmt::format("{}: {}", where(bad_place), no_such_label(bad, names, labels)));
    if (result.empty()) throw DataError(fmt::format("{}: expected labels, found none", list));
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

}  // namespace

std::vector<std::int64_t> read_label_list(const std::filesystem::path& file,
                                          const std::vector<std::string_view>& names, std::int64_t labels) {
    std::error_code error;
    if (!std::filesystem::exists(file, error))
        throw DataError(file.string() + ": no such file; labels are given in a file, one on each line");
    Entries wanted;
    LineReader reader(file);
    while (const auto line = reader.next_line())  // in Latin-1 too: what is misread is no label of the run
        if (!line->empty()) wanted.try_emplace(utf8_of_latin1(*line), Wanted{reader.line_number()});
    const auto where = [&](std::int64_t line) { return fmt::format("{}:{}", file.string(), line); };
    return find(std::move(wanted), file.string(), where, names, labels);
}

std::vector<std::int64_t> find_labels(const std::vector<std::string>& list, const std::string& what,
                                      const std::vector<std::string_view>& names, std::int64_t labels) {
    Entries wanted;
    for (std::size_t i = 0; i < list.size(); ++i)
        wanted.try_emplace(list[i], Wanted{static_cast<std::int64_t>(i)});
    const auto where = [&](std::int64_t index) { return fmt::format("{}[{}]", what, index); };
    return find(std::move(wanted), what, where, names, labels);
}

std::string no_such_label(std::string_view wanted, const std::vector<std::string_view>& names,
                          std::int64_t labels) {
    // Comparing takes time, and servers are asked too.
    constexpr std::size_t kLongest = 64, kMost = 100'000;
    std::vector<std::string> near;
    if (wanted.size() <= kLongest && names.size() <= kMost)
        for (const std::string_view name : names)
            if (2 * name.size() <= 3 * wanted.size() + 4) near.emplace_back(name);
    return fmt::format("expected {}a label number from 0 to {}, found '{}'{}",
                       names.empty() ? "" : "the name of a label or ", labels - 1, quoted(wanted),
                       did_you_mean(wanted, near));
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
