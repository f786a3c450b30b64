#include "linear/linear_model.h"

namespace elmo {

std::int64_t LabelTrees::bytes() const {
    return static_cast<std::int64_t>(
        roots.size() * 4 + leaf.size() + 8 * (child_begin.size() + column_begin.size()) +
        8 * weight_begin.size() + 8 * children.size() + 4 * columns.size() + 4 * weights.size());
}

std::int64_t LinearModel::bytes() const {
    return 12 * vocabulary.size() + trees.bytes() + neighbours.bytes();
}

}  // namespace elmo
