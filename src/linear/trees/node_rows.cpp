#include "linear/trees/node_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace elmo {
namespace {

// A column is known by the sum of its entries' marks: a row, and the factor of the column's weight there.
// The last bits of the factor are rounding. Columns that are alike but not found so stay apart: no harm.
std::uint64_t mark_of(std::uint64_t row, float factor) {
    constexpr std::uint32_t kHalf = 1u << 9;
    const std::uint64_t bits = (std::bit_cast<std::uint32_t>(factor) + kHalf) >> 10;
    std::uint64_t h = (row << 24 ^ bits) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

// Numbers the columns of the node by their first entry, with the count and the marks of each.
void number_columns(const SparseRows& rows, std::span<const std::int32_t> chosen,
                    std::span<const float> weights, GatherScratch& scratch) {
    scratch.number.resize(weights.size(), -1);
    scratch.columns.clear();
    scratch.counts.clear();
    scratch.marks.clear();
    scratch.numbers.clear();
    for (std::size_t at = 0; at < chosen.size(); ++at) {
        const auto columns = rows.columns_of(chosen[at]);
        const auto values = rows.values_of(chosen[at]);
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const auto column = static_cast<std::size_t>(columns[i]);
            std::int32_t& number = scratch.number[column];
            if (number < 0) {
                number = static_cast<std::int32_t>(scratch.columns.size());
                scratch.columns.push_back(columns[i]);
                scratch.counts.push_back(0);
                scratch.marks.push_back(0);
            }
            ++scratch.counts[static_cast<std::size_t>(number)];
            scratch.marks[static_cast<std::size_t>(number)] += mark_of(at, values[i] / weights[column]);
            scratch.numbers.push_back(number);
        }
    }
    for (const std::int32_t column : scratch.columns) scratch.number[static_cast<std::size_t>(column)] = -1;
}

// The group of each column; -1 where only one row has it. Returns the first column of each group.
std::vector<std::int32_t> group_columns(GatherScratch& scratch) {
    const std::size_t count = scratch.columns.size();
    const std::size_t size = std::bit_ceil(2 * count + 1);
    scratch.table.assign(size, -1);
    scratch.groups.assign(count, -1);
    std::vector<std::int32_t> first;
    for (std::size_t c = 0; c < count; ++c) {
        if (scratch.counts[c] == 1) continue;
        std::size_t at = scratch.marks[c] & (size - 1);
        while (scratch.table[at] >= 0) {
            const auto other = static_cast<std::size_t>(first[static_cast<std::size_t>(scratch.table[at])]);
            if (scratch.marks[other] == scratch.marks[c] && scratch.counts[other] == scratch.counts[c]) break;
            at = (at + 1) & (size - 1);
        }
        if (scratch.table[at] < 0) {
            scratch.table[at] = static_cast<std::int32_t>(first.size());
            first.push_back(static_cast<std::int32_t>(c));
        }
        scratch.groups[c] = scratch.table[at];
    }
    return first;
}

// Members and shares of each group: its weight is that of one column with the group's squared length.
std::vector<float> list_members(std::size_t groups, std::span<const float> weights,
                                const GatherScratch& scratch, NodeRows& out) {
    std::vector<float> lengths(groups);
    out.begin.assign(groups + 1, 0);
    for (std::size_t c = 0; c < scratch.columns.size(); ++c)
        if (const std::int32_t g = scratch.groups[c]; g >= 0) {
            const float weight = weights[static_cast<std::size_t>(scratch.columns[c])];
            lengths[static_cast<std::size_t>(g)] += weight * weight;
            ++out.begin[static_cast<std::size_t>(g) + 1];
        }
    for (std::size_t g = 0; g < groups; ++g) {
        lengths[g] = std::sqrt(lengths[g]);
        out.begin[g + 1] += out.begin[g];
    }
    std::vector<std::int64_t> next(out.begin.begin(), out.begin.end() - 1);
    out.members.resize(static_cast<std::size_t>(out.begin.back()));
    out.shares.resize(out.members.size());
    out.largest.assign(groups, 0);
    for (std::size_t c = 0; c < scratch.columns.size(); ++c)
        if (const std::int32_t group = scratch.groups[c]; group >= 0) {
            const auto g = static_cast<std::size_t>(group);
            const auto at = static_cast<std::size_t>(next[g]++);
            out.members[at] = scratch.columns[c];
            out.shares[at] = weights[static_cast<std::size_t>(scratch.columns[c])] / lengths[g];
            out.largest[g] = std::max(out.largest[g], out.shares[at]);
        }
    return lengths;
}

}  // namespace

NodeRows gather_rows(const SparseRows& rows, std::span<const std::int32_t> chosen,
                     std::span<const float> weights, GatherScratch& scratch) {
    NodeRows out;
    number_columns(rows, chosen, weights, scratch);
    const std::vector<std::int32_t> first = group_columns(scratch);
    const std::vector<float> lengths = list_members(first.size(), weights, scratch, out);
    out.rows.num_columns = static_cast<std::int64_t>(first.size());
    std::size_t entry = 0;
    for (const std::int32_t row : chosen) {
        const auto columns = rows.columns_of(row);
        const auto values = rows.values_of(row);
        float square = 0, own = 0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const auto c = static_cast<std::size_t>(scratch.numbers[entry++]);
            const std::int32_t group = scratch.groups[c];
            square += values[i] * values[i];
            if (group < 0) {
                own += values[i] * values[i];
                out.own.columns.push_back(columns[i]);
                out.own.values.push_back(values[i]);
            } else if (const auto g = static_cast<std::size_t>(group);
                       first[g] == static_cast<std::int32_t>(c)) {
                out.rows.columns.push_back(group);
                out.rows.values.push_back(values[i] * lengths[g] /
                                          weights[static_cast<std::size_t>(columns[i])]);
            }
        }
        out.own.offsets.push_back(static_cast<std::int64_t>(out.own.columns.size()));
        out.rows.offsets.push_back(static_cast<std::int64_t>(out.rows.columns.size()));
        out.rows.squares.push_back(square);
        out.rows.own.push_back(own);
    }
    return out;
}

}  // namespace elmo
