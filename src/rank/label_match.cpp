#include "rank/label_match.h"

#include <algorithm>
#include <numeric>

#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

// Labels by name, equal names by number.
std::vector<std::int64_t> by_name(const std::vector<std::string_view>& names) {
    std::vector<std::int64_t> order(names.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return names[static_cast<std::size_t>(a)] < names[static_cast<std::size_t>(b)];
    });
    return order;
}

}  // namespace

LabelMatch match_labels(const std::vector<std::string_view>& data_names,
                        const std::vector<std::string_view>& run_names) {
    LabelMatch match;
    match.number.assign(data_names.size(), -1);
    const auto data = by_name(data_names), run = by_name(run_names);
    std::size_t i = 0, j = 0;
    while (i < data.size() && j < run.size()) {
        const auto of_data = data_names[static_cast<std::size_t>(data[i])];
        const auto of_run = run_names[static_cast<std::size_t>(run[j])];
        if (of_data == of_run)
            match.number[static_cast<std::size_t>(data[i++])] = run[j++];
        else
            ++(of_data < of_run ? i : j);
    }
    const auto run_labels = static_cast<std::int64_t>(run_names.size());
    for (std::int64_t& number : match.number)
        if (number < 0) number = run_labels + match.unknown++;
    match.missing = run_labels - (static_cast<std::int64_t>(data_names.size()) - match.unknown);
    return match;
}

LabelMatch match_labels_but_blanks(const std::vector<std::string_view>& data_names,
                                   const std::vector<std::string_view>& run_names) {
    LabelMatch match = match_labels(data_names, run_names);
    if (match.unknown == 0 || match.missing == 0) return match;
    const auto run_labels = static_cast<std::int64_t>(run_names.size());
    std::vector<bool> is_matched(run_names.size());
    std::vector<std::size_t> data_left;
    std::vector<std::int64_t> run_left;
    std::vector<std::string_view> data_rest, run_rest;
    for (std::size_t label = 0; label < data_names.size(); ++label)
        if (match.number[label] < run_labels) {
            is_matched[static_cast<std::size_t>(match.number[label])] = true;
        } else {
            data_left.push_back(label);
            data_rest.push_back(trim(data_names[label]));
        }
    for (std::size_t label = 0; label < run_names.size(); ++label)
        if (!is_matched[label]) {
            run_left.push_back(static_cast<std::int64_t>(label));
            run_rest.push_back(trim(run_names[label]));
        }
    const LabelMatch rest = match_labels(data_rest, run_rest);
    for (std::size_t i = 0; i < data_left.size(); ++i) {
        const std::int64_t number = rest.number[i], beyond = number - std::ssize(run_left);
        match.number[data_left[i]] =
            beyond < 0 ? run_left[static_cast<std::size_t>(number)] : run_labels + beyond;
    }
    match.unknown = rest.unknown;
    match.missing = rest.missing;
    return match;
}

std::vector<std::uint32_t> renumber(const LabelMatrix& matrix, const LabelMatch& match) {
    std::vector<std::uint32_t> values(matrix.values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<std::uint32_t>(match.number[matrix.values[i]]);
    for (std::int64_t row = 0; row < matrix.rows(); ++row)
        std::sort(values.begin() + matrix.offsets[row], values.begin() + matrix.offsets[row + 1]);
    return values;
}

}  // namespace elmo
