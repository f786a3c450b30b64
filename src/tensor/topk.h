// The k best labels of one sample, kept while scores stream by chunk after chunk: evaluation and prediction
// never hold a [samples x labels] matrix.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace elmo {

struct ScoredLabel {
    float score = 0;
    std::int64_t label = 0;
    bool operator==(const ScoredLabel&) const = default;
};

// The order of a ranking: higher score first, equal scores by lower label number.
inline bool ranks_before(const ScoredLabel& a, const ScoredLabel& b) {
    return a.score > b.score || (a.score == b.score && a.label < b.label);
}

// The result depends only on the set of (score, label) pairs offered, not on their order or cut. A label is
// offered at most once. NaN never enters.
class TopK {
  public:
    explicit TopK(std::int64_t k) : k_(k) {}
    // With these, no more than k, the worst first.
    TopK(std::int64_t k, std::vector<ScoredLabel> worst_first) : k_(k), heap_(std::move(worst_first)) {}

    std::int64_t k() const { return k_; }
    std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
    void clear() { heap_.clear(); }

    void offer(float score, std::int64_t label) {
        if (size() < k_) {
            if (score == score) push({score, label});
        } else if (k_ > 0 && ranks_before({score, label}, heap_.front())) {
            replace_worst({score, label});
        }
    }
    // scores[i] belongs to label first_label + i. Runs at the speed of one comparison per score.
    void offer_block(std::span<const float> scores, std::int64_t first_label);
    void merge(const TopK& other);

    // Best first.
    std::vector<ScoredLabel> sorted() const;

  private:
    void push(ScoredLabel candidate);
    void replace_worst(ScoredLabel candidate);

    std::int64_t k_;
    std::vector<ScoredLabel> heap_;  // the worst of the kept in front
};

}  // namespace elmo
