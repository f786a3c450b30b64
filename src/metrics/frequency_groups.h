// Head, torso and tail: labels by how often they occur in training, and how each group fares. The groups are
// cut by count so that each holds about a third of the training positives; labels of equal count stay
// together.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/topk.h"

namespace elmo {

struct FrequencyCuts {
    std::int64_t head = 0;   // labels with at least this many training rows are head
    std::int64_t torso = 0;  // of the others those with at least this many are torso; the rest is tail

    int group_of(std::int64_t count) const { return count >= head ? 0 : count >= torso ? 1 : 2; }
};

// `head` is the largest count such that labels that frequent hold a third of all positives or more, `torso`
// the same for two thirds; both are above the smallest count of a label that has rows, if not all have as
// many, so that the rarest labels are tail. Where many counts are equal the torso may be empty.
FrequencyCuts frequency_cuts(std::span<const std::int64_t> counts);

inline constexpr std::array<const char*, 3> kGroupNames = {"head", "torso", "tail"};

class GroupMetrics {
  public:
    // counts: training rows of the first labels, viewed and not copied; the rest of `labels` has none.
    GroupMetrics(std::vector<std::int64_t> ks, std::span<const std::int64_t> counts, std::int64_t labels);

    // As RankingMetrics::add_row.
    void add_row(std::span<const ScoredLabel> predicted, std::span<const std::int64_t> truth);

    struct Group {
        std::string name;
        std::int64_t labels = 0;
        std::int64_t least = 0, most = 0;  // training rows of its labels
        std::int64_t positives = 0;        // of the rows scored
        std::vector<double> precision;     // at each k: the group's part of P@k; the groups' parts sum to it
        std::vector<double> recall;        // at each k: the share of its positives found
    };
    std::vector<Group> groups() const;

  private:
    std::vector<std::int64_t> ks_;
    std::span<const std::int64_t> counts_;
    std::int64_t labels_;
    FrequencyCuts cuts_;
    std::int64_t num_rows_ = 0;
    std::array<std::int64_t, 3> positives_{};
    std::array<std::vector<std::int64_t>, 3> hits_;  // one a k

    std::int64_t count_of(std::int64_t label) const {
        const auto i = static_cast<std::size_t>(label);
        return i < counts_.size() ? counts_[i] : 0;
    }
    std::size_t group_of(std::int64_t label) const {
        return static_cast<std::size_t>(cuts_.group_of(count_of(label)));
    }
};

}  // namespace elmo
