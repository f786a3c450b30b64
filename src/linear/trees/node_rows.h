// The rows that train a node's classifiers, over the columns that occur in them. Among the few rows of a node
// most columns say the same: they stand in one row only, or always together (the letters of a word). Such
// columns are one to the solver, which is exact: the weights of columns whose values are proportional are
// proportional too, and what only one row has changes the score of no other row. Solving takes a third of
// the time, and the weights of all columns are found from the few.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "linear/features/sparse_rows.h"
#include "linear/trees/label_tree.h"
#include "linear/trees/svm.h"

namespace elmo {

struct NodeRows {
    SvmRows rows;  // over groups of columns
    // Group g stands for members [begin[g], begin[g + 1]): columns of the model, and their share of its
    // weight.
    std::vector<std::int64_t> begin = {0};
    std::vector<std::int32_t> members;
    std::vector<float> shares;
    std::vector<float> largest;  // share of each group
    SparseRows own;              // columns that no other row of the node has
};

// What one thread needs while it gathers; reused from node to node.
struct GatherScratch {
    std::vector<std::int32_t> number;  // of each column in the node; -1 outside of gather_rows
    std::vector<std::int32_t> columns, counts, groups, numbers, table;
    std::vector<std::uint64_t> marks;
};

// `chosen`: rows of the node, ascending. `weights`: of every column; the value of a column in a row is its
// weight times a factor, and equal factors make columns proportional.
NodeRows gather_rows(const SparseRows& rows, std::span<const std::int32_t> chosen,
                     std::span<const float> weights, GatherScratch& scratch);

// Calls take(column, lane, weight) for each weight above `least` in size that the solver found.
template <class Take>
void visit_weights(const NodeRows& node, const SvmScratch& solved, std::size_t lanes, float least,
                   const Take& take) {
    const auto above = [&](float value) { return value > least || value < -least; };
    for (std::size_t g = 0; g < solved.weights.size(); ++g)
        for (std::size_t l = 0; l < lanes; ++l) {
            const float of_group = solved.weights[g].of[l];
            if (!above(of_group * node.largest[g])) continue;
            for (auto i = static_cast<std::size_t>(node.begin[g]);
                 i < static_cast<std::size_t>(node.begin[g + 1]); ++i)
                if (const float weight = of_group * node.shares[i]; above(weight))
                    take(node.members[i], l, weight);
        }
    for (std::size_t row = 0; row < solved.alpha.size(); ++row)
        for (std::size_t l = 0; l < lanes; ++l) {
            const float alpha = solved.alpha[row].of[l];
            if (!above(alpha)) continue;  // values are 1 at most
            const auto columns = node.own.columns_of(static_cast<std::int64_t>(row));
            const auto values = node.own.values_of(static_cast<std::int64_t>(row));
            for (std::size_t i = 0; i < columns.size(); ++i)
                if (const float weight = alpha * solved.sign(row, l) * values[i]; above(weight))
                    take(columns[i], l, weight);
        }
}

}  // namespace elmo
