#include "sources/matrices/sparse_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text_util.h"

namespace elmo {
namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t';
}

std::string_view next_word(std::string_view& rest) {
    while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
    std::size_t length = 0;
    while (length < rest.size() && !is_space(rest[length])) ++length;
    const std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    return word;
}

template <class Number>
bool parse_whole(std::string_view word, Number& number) {
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
    return status == std::errc() && end == word.data() + word.size();
}

std::string show(std::string_view word) {
    return fmt::format("'{}'", quoted(word));
}

// 1.00000 is nearly every value of a label matrix.
bool parse_value(std::string_view word, float& value) {
    if (word == "1.00000" || word == "1") {
        value = 1;
        return true;
    }
    return parse_whole(word, value) && std::isfinite(value);
}

// Keeps the entries that `order` names, in that order.
void reorder(SparseRow& row, const std::vector<std::uint32_t>& order) {
    SparseRow result;
    for (const std::uint32_t i : order) {
        result.indices.push_back(row.indices[i]);
        result.values.push_back(row.values[i]);
    }
    row = std::move(result);
}

}  // namespace

SparseHeader parse_sparse_header(const Record& record) {
    std::string_view rest = record.bytes;
    const std::string_view rows = next_word(rest), columns = next_word(rest);
    SparseHeader header;
    if (!parse_whole(rows, header.rows) || !parse_whole(columns, header.columns) ||
        !next_word(rest).empty() || header.rows < 0 || header.columns < 0 ||
        header.columns > std::numeric_limits<std::uint32_t>::max())
        fail(record, "a header 'rows columns'", show(record.bytes));
    return header;
}

void parse_sparse_row(const Record& record, std::int64_t columns, const SparseRules& rules, SparseRow& row,
                      ImportCounts& counts) {
    row.indices.clear();
    row.values.clear();
    std::string_view rest = record.bytes;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        const std::size_t colon = word.find(':');
        std::uint64_t index = 0;
        float value = 1;
        if (!parse_whole(word.substr(0, colon), index) ||
            (colon != word.npos && !parse_value(word.substr(colon + 1), value)))
            fail(record, "entries 'index:value'", show(word));
        if (index >= static_cast<std::uint64_t>(columns))
            fail(record, fmt::format("an index below the header's {} columns", columns), show(word));
        row.indices.push_back(static_cast<std::uint32_t>(index));
        row.values.push_back(value);
    }
    tidy_sparse_row(record, rules, row, counts);
}

void tidy_sparse_row(const Record& record, const SparseRules& rules, SparseRow& row, ImportCounts& counts) {
    bool unsorted = false;
    std::size_t kept = 0;
    std::uint32_t last = 0;
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
        const std::uint32_t index = row.indices[i];
        const float value = row.values[i];
        if (rules.ascending && i > 0 && index <= last) {
            if (!rules.mend && index == last)
                fail(record, "every index once", fmt::format("{} again", index),
                     "merge repeated ones with --allow-repeated-labels");
            if (!rules.mend)
                fail(record, "ascending indices", fmt::format("{} after {}", index, last),
                     "sort (and merge) them with --allow-repeated-labels");
            unsorted |= index < last;
        }
        last = index;
        if (value == 0 && !rules.keep_zeros) continue;
        row.indices[kept] = index;
        row.values[kept++] = value;
    }
    row.indices.resize(kept);
    row.values.resize(kept);
    counts.unsorted_rows += unsorted ? 1 : 0;
    if (rules.ascending && !rules.mend) return;

    // Any order, or one to be mended: look at the entries by index, the first of equal ones first.
    std::vector<std::uint32_t> order(row.indices.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return row.indices[a] < row.indices[b]; });
    const auto same = [&](std::uint32_t a, std::uint32_t b) { return row.indices[a] == row.indices[b]; };
    if (!rules.ascending) {
        const auto twin = std::adjacent_find(order.begin(), order.end(), same);
        if (twin != order.end())
            fail(record, "every index once", fmt::format("{} twice", row.indices[*twin]));
        return;
    }
    const auto end = std::unique(order.begin(), order.end(), same);
    counts.merged_labels += order.end() - end;
    order.erase(end, order.end());
    reorder(row, order);
}

}  // namespace elmo
