#include "rank/question/label_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/text_util.h"
#include "elmo/error.h"
#include "rank/label_list.h"

namespace elmo {
namespace {

bool parse_number(std::string_view text, std::int64_t labels, std::int64_t& number) {
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    return status == std::errc() && rest == text.data() + text.size() && number >= 0 && number < labels;
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

LabelIndex::LabelIndex(std::vector<std::string_view> names, std::int64_t labels)
    : names_(std::move(names)), labels_(labels), order_(names_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
        const int order = names_[static_cast<std::size_t>(a)].compare(names_[static_cast<std::size_t>(b)]);
        return order != 0 ? order < 0 : a < b;
    });
}

std::vector<std::int64_t> LabelIndex::find(const std::string& wanted, const std::string& what) const {
    const auto begin = std::lower_bound(order_.begin(), order_.end(), std::string_view(wanted),
                                        [&](std::int64_t label, std::string_view name) {
                                            return names_[static_cast<std::size_t>(label)] < name;
                                        });
    const auto end = std::find_if(begin, order_.end(), [&](std::int64_t label) {
        return names_[static_cast<std::size_t>(label)] != wanted;
    });
    if (begin != end) return {begin, end};
    std::int64_t number = 0;
    if (!parse_number(wanted, labels_, number))
        throw DataError(fmt::format("{}: {}", what, no_such_label(wanted, names_, labels_)));
    return {number};
}

std::vector<std::int64_t> LabelIndex::find(const std::vector<std::string>& list,
                                           const std::string& what) const {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < list.size(); ++i)
        for (const std::int64_t label : find(list[i], fmt::format("{}[{}]", what, i)))
            result.push_back(label);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
}

std::vector<std::int64_t> LabelIndex::search(std::string_view part, std::int64_t first, std::int64_t limit,
                                             std::int64_t& found) const {
    std::string wanted(part);
    std::transform(wanted.begin(), wanted.end(), wanted.begin(), lower);
    std::int64_t number = -1;
    if (!parse_number(part, labels_, number)) number = -1;
    std::vector<std::int64_t> result;
    found = 0;
    const auto same = [](char in_name, char in_part) { return lower(in_name) == in_part; };
    for (std::int64_t label = 0; label < labels_; ++label) {
        bool matches = part.empty() || label == number;
        if (!matches && !names_.empty()) {
            const std::string_view name = names_[static_cast<std::size_t>(label)];
            matches = std::search(name.begin(), name.end(), wanted.begin(), wanted.end(), same) != name.end();
        }
        if (!matches) continue;
        if (found >= first && static_cast<std::int64_t>(result.size()) < limit) result.push_back(label);
        ++found;
    }
    return result;
}

}  // namespace elmo
