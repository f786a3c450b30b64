// The one order in which the parts of a sum are added, whoever has them: sum(lo, hi) = sum(lo, mid) +
// sum(mid, hi) with mid = lo + the largest power of two below hi - lo. A rank adds what it has of aligned
// blocks, sends these, and whoever needs the sum goes on. So the number of ranks changes no bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace elmo {

// The sum of the leaves [first, last): one leaf, or an aligned block of a power of two of them.
struct SumNode {
    std::int64_t first = 0, last = 0;
    std::int64_t size() const { return last - first; }
    bool operator==(const SumNode&) const = default;
};

// Adds nodes that come in order. The caller keeps their values in numbered places: a new one goes to place
// size(), then push() says which to add: add(i) means place i += place i + 1.
class SumFold {
  public:
    std::size_t size() const { return nodes_.size(); }
    const std::vector<SumNode>& nodes() const { return nodes_; }

    template <class Add>
    void push(SumNode node, const Add& add) {
        nodes_.push_back(node);
        while (size() > 1 && is_pair(nodes_[size() - 2], nodes_.back())) merge(add);
    }
    // All leaves are there: what is left is added from the end. The sum is in place 0.
    template <class Add>
    void finish(const Add& add) {
        while (size() > 1) merge(add);
    }

  private:
    static bool is_pair(const SumNode& a, const SumNode& b) {
        return a.size() == b.size() && a.first % (2 * a.size()) == 0;
    }
    template <class Add>
    void merge(const Add& add) {
        add(size() - 2);
        nodes_[size() - 2].last = nodes_.back().last;
        nodes_.pop_back();
    }

    std::vector<SumNode> nodes_;
};

// The nodes that remain of the leaves [first, last), and how many places it takes to get there.
struct FoldedLeaves {
    std::vector<SumNode> nodes;
    std::int64_t places = 0;
};
inline FoldedLeaves fold_leaves(std::int64_t first, std::int64_t last) {
    SumFold fold;
    FoldedLeaves result;
    for (std::int64_t leaf = first; leaf < last; ++leaf) {
        result.places = std::max<std::int64_t>(result.places, static_cast<std::int64_t>(fold.size()) + 1);
        fold.push({leaf, leaf + 1}, [](std::size_t) {});
    }
    result.nodes = fold.nodes();
    return result;
}

}  // namespace elmo
