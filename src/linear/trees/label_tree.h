// A tree of labels. Labels whose texts are alike are put together by balanced 2-means on label vectors (the
// mean of the rows that carry a label), so that few classifiers say which small group of labels a text
// belongs to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "elmo/context.h"
#include "linear/features/sparse_rows.h"
#include "linear/trees/label_rows.h"

namespace elmo {

// Level 0 is the root. The children of a node are nodes of the next level by their place there; on the last
// level, labels.
struct LabelTree {
    using Node = std::vector<std::int32_t>;
    std::vector<std::vector<Node>> levels;
};

// Unit vectors of the labels, their largest parts only. Labels without rows have empty ones.
SparseRows label_vectors(const Context& context, const SparseRows& rows, const RowsOfLabels& labels,
                         std::int64_t num_columns);

// `seed` chooses where clustering begins. Up to `leaf` labels are one node.
LabelTree build_label_tree(const Context& context, const SparseRows& vectors, std::int64_t num_columns,
                           std::int64_t leaf, std::uint64_t seed);

}  // namespace elmo
