// The positives of a batch in the form that kernels take: two arrays of equal length, ordered by row, then
// sample, without repetition. A row is a row of the head in memory (tensor/label_layout.h maps it to a
// label), a sample the index of a text in the batch. Where positives count differently, a third array says
// how many times; those of a row all count alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace elmo {

struct Positives {
    std::span<const std::int64_t> rows;
    std::span<const std::int32_t> samples;
    std::span<const float> weights = {};  // empty: each counts once

    bool weighted() const { return !weights.empty(); }
    std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
    // Those of the rows [first, last), under their own numbers.
    Positives of_rows(std::int64_t first, std::int64_t last) const {
        const auto begin = std::lower_bound(rows.begin(), rows.end(), first);
        const auto count = static_cast<std::size_t>(std::lower_bound(begin, rows.end(), last) - begin);
        const auto skipped = static_cast<std::size_t>(begin - rows.begin());
        return {rows.subspan(skipped, count), samples.subspan(skipped, count),
                weighted() ? weights.subspan(skipped, count) : weights};
    }
};

// Owns them.
class PositiveList {
  public:
    PositiveList() = default;
    PositiveList(std::initializer_list<std::pair<std::int64_t, std::int32_t>> in_order) {
        for (const auto& [row, sample] : in_order) push_back(row, sample);
    }
    operator Positives() const { return {rows_, samples_, weights_}; }  // NOLINT: a list is its arrays
    std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }

    void clear() {
        rows_.clear();
        samples_.clear();
        weights_.clear();
    }
    // Rows below 2^32, in any order; sort() follows.
    void push_back(std::int64_t row, std::int32_t sample) {
        rows_.push_back(row);
        samples_.push_back(sample);
    }
    void sort() {
        pairs_.resize(rows_.size());
        for (std::size_t i = 0; i < pairs_.size(); ++i)
            pairs_[i] = static_cast<std::uint64_t>(rows_[i]) << 32 | static_cast<std::uint32_t>(samples_[i]);
        std::sort(pairs_.begin(), pairs_.end());
        pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
        clear();
        for (const std::uint64_t pair : pairs_)
            push_back(static_cast<std::int64_t>(pair >> 32), static_cast<std::int32_t>(pair));
    }
    // After sort(): each counts as many times as its row says; without weights, once.
    void weigh(std::span<const float> weights_of_rows) {
        if (weights_of_rows.empty()) return;
        weights_.clear();
        for (const std::int64_t row : rows_)
            weights_.push_back(weights_of_rows[static_cast<std::size_t>(row)]);
    }

  private:
    std::vector<std::int64_t> rows_;
    std::vector<std::int32_t> samples_;
    std::vector<float> weights_;
    std::vector<std::uint64_t> pairs_;  // scratch of sort
};

// For code that visits every row and sample in order: whether each is a positive, and how many times the one
// that was found last counts.
class PositiveWalk {
  public:
    explicit PositiveWalk(const Positives& positives) : positives_(positives) {}
    bool is_positive(std::int64_t row, std::int32_t sample) {
        const bool is = next_ < positives_.rows.size() && positives_.rows[next_] == row &&
                        positives_.samples[next_] == sample;
        next_ += is ? 1 : 0;
        return is;
    }
    double weight() const { return positives_.weighted() ? positives_.weights[next_ - 1] : 1.0; }
    bool finished() const { return next_ == positives_.rows.size(); }

  private:
    Positives positives_;
    std::size_t next_ = 0;
};

}  // namespace elmo
