#include "metrics/frequency_groups.h"

#include <algorithm>
#include <functional>

namespace elmo {

FrequencyCuts frequency_cuts(std::span<const std::int64_t> counts) {
    std::vector<std::int64_t> falling(counts.begin(), counts.end());
    std::sort(falling.begin(), falling.end(), std::greater<>());
    std::int64_t total = 0;
    for (const std::int64_t count : falling) total += count;
    FrequencyCuts cuts;
    std::int64_t sum = 0;
    bool has_head = false;
    for (const std::int64_t count : falling) {
        sum += count;
        if (!has_head && 3 * sum >= total) {
            cuts.head = count;
            has_head = true;
        }
        if (3 * sum >= 2 * total) {
            cuts.torso = count;
            break;
        }
    }
    // The rarest labels are tail, even where more than a third of the positives is theirs.
    const auto rarest = std::find_if(falling.rbegin(), falling.rend(), [](std::int64_t n) { return n > 0; });
    if (rarest != falling.rend() && falling.front() > *rarest) {
        cuts.head = std::max(cuts.head, *rarest + 1);
        cuts.torso = std::max(cuts.torso, *rarest + 1);
    }
    return cuts;
}

GroupMetrics::GroupMetrics(std::vector<std::int64_t> ks, std::span<const std::int64_t> counts,
                           std::int64_t labels)
    : ks_(std::move(ks)), counts_(counts), labels_(labels), cuts_(frequency_cuts(counts)) {
    for (auto& hits : hits_) hits.resize(ks_.size());
}

void GroupMetrics::add_row(std::span<const ScoredLabel> predicted, std::span<const std::int64_t> truth) {
    ++num_rows_;
    for (const std::int64_t label : truth) ++positives_[group_of(label)];
    const std::int64_t largest = *std::max_element(ks_.begin(), ks_.end());
    const auto looked_at = std::min(predicted.size(), static_cast<std::size_t>(largest));
    for (std::size_t i = 0; i < looked_at; ++i) {
        const std::int64_t label = predicted[i].label;
        if (!std::binary_search(truth.begin(), truth.end(), label)) continue;
        auto& hits = hits_[group_of(label)];
        for (std::size_t j = 0; j < ks_.size(); ++j)
            if (static_cast<std::int64_t>(i) < ks_[j]) ++hits[j];
    }
}

std::vector<GroupMetrics::Group> GroupMetrics::groups() const {
    std::vector<Group> groups(3);
    for (std::size_t g = 0; g < 3; ++g) {
        groups[g].name = kGroupNames[g];
        groups[g].positives = positives_[g];
        for (std::size_t j = 0; j < ks_.size(); ++j) {
            const auto hits = static_cast<double>(hits_[g][j]);
            const auto places = static_cast<double>(ks_[j] * std::max<std::int64_t>(num_rows_, 1));
            groups[g].precision.push_back(hits / places);
            groups[g].recall.push_back(positives_[g] == 0 ? 0 : hits / static_cast<double>(positives_[g]));
        }
    }
    for (std::int64_t label = 0; label < labels_; ++label) {
        const std::int64_t count = count_of(label);
        Group& group = groups[group_of(label)];
        group.least = group.labels == 0 ? count : std::min(group.least, count);
        group.most = std::max(group.most, count);
        ++group.labels;
    }
    return groups;
}

}  // namespace elmo
