#include "metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

#include "elmo/error.h"

namespace elmo {
namespace {

std::int64_t label_of(std::int64_t label) {
    return label;
}
std::int64_t label_of(const ScoredLabel& scored) {
    return scored.label;
}

double ratio(double value, double best) {
    return best == 0 ? 0 : value / best;
}

template <class Label>
void remove_and_cut(std::vector<ScoredLabel>& ranked, std::span<const Label> filtered, std::int64_t k) {
    std::erase_if(ranked, [&](const ScoredLabel& scored) {
        return std::binary_search(filtered.begin(), filtered.end(), scored.label, std::less<std::int64_t>());
    });
    if (static_cast<std::int64_t>(ranked.size()) > k) ranked.resize(static_cast<std::size_t>(k));
}

}  // namespace

RankingMetrics::RankingMetrics(std::vector<std::int64_t> ks, std::span<const double> inverse_propensity)
    : ks_(std::move(ks)), inverse_propensity_(inverse_propensity), sums_(ks_.size()), row_(ks_.size()) {
    if (ks_.empty()) throw ConfigError("metrics: expected at least one k, found none");
    for (const std::int64_t k : ks_)
        if (k < 1 || k > 1'000'000)
            throw ConfigError(fmt::format("metrics: expected k from 1 to 1000000, found {}", k));
    largest_k_ = *std::max_element(ks_.begin(), ks_.end());
    ideal_.push_back(0);
    for (std::int64_t i = 0; i < largest_k_; ++i) {
        discount_.push_back(1 / std::log2(static_cast<double>(i + 2)));
        ideal_.push_back(ideal_.back() + discount_.back());
    }
}

template <class Predicted, class Label>
void RankingMetrics::add(std::span<const Predicted> predicted, std::span<const Label> truth) {
    ++num_rows_;
    if (truth.empty()) {
        std::fill(row_.begin(), row_.end(), MetricSums());
        return;
    }
    assert(std::is_sorted(truth.begin(), truth.end()));
    const auto num_true = static_cast<std::int64_t>(truth.size());
    const bool weighted = !inverse_propensity_.empty();
    best_.clear();
    if (weighted) {
        if (truth.front() < 0 || static_cast<std::size_t>(truth.back()) >= inverse_propensity_.size())
            throw DataError(fmt::format("row {}: expected true labels from 0 to {}, found {}", num_rows_ - 1,
                                        inverse_propensity_.size() - 1,
                                        truth.front() < 0 ? truth.front() : truth.back()));
        for (const auto label : truth) best_.push_back(inverse_propensity_[static_cast<std::size_t>(label)]);
        const auto num_best = std::min<std::ptrdiff_t>(num_true, largest_k_);
        std::partial_sort(best_.begin(), best_.begin() + num_best, best_.end(), std::greater<>());
    }
    hit_.clear();
    for (const auto& candidate :
         predicted.first(std::min(predicted.size(), static_cast<std::size_t>(largest_k_)))) {
        const std::int64_t label = label_of(candidate);
        const bool hit = std::binary_search(truth.begin(), truth.end(), label, std::less<std::int64_t>());
        hit_.push_back({hit, hit && weighted ? inverse_propensity_[static_cast<std::size_t>(label)] : 0.0});
    }
    for (std::size_t j = 0; j < ks_.size(); ++j) {
        const std::int64_t k = ks_[j];
        double hits = 0, dcg = 0, ps_hits = 0, ps_dcg = 0, ps_best = 0, ps_best_dcg = 0;
        for (std::size_t i = 0; i < std::min<std::size_t>(hit_.size(), static_cast<std::size_t>(k)); ++i) {
            hits += hit_[i].hit ? 1 : 0;
            dcg += hit_[i].hit ? discount_[i] : 0;
            ps_hits += hit_[i].weight;
            ps_dcg += hit_[i].weight * discount_[i];
        }
        for (std::size_t i = 0; i < std::min<std::size_t>(best_.size(), static_cast<std::size_t>(k)); ++i) {
            ps_best += best_[i];
            ps_best_dcg += best_[i] * discount_[i];
        }
        const double ideal = ideal_[static_cast<std::size_t>(std::min(k, num_true))];
        row_[j] = {hits,
                   hits / static_cast<double>(num_true),
                   dcg / ideal,
                   ps_hits,
                   ps_best,
                   ps_dcg / ideal,
                   ps_best_dcg / ideal};
        sums_[j] += row_[j];
    }
}

void RankingMetrics::add_row(std::span<const std::int64_t> predicted, std::span<const std::int64_t> truth) {
    add(predicted, truth);
}
void RankingMetrics::add_row(std::span<const std::int64_t> predicted, std::span<const std::int32_t> truth) {
    add(predicted, truth);
}
void RankingMetrics::add_row(std::span<const ScoredLabel> predicted, std::span<const std::int64_t> truth) {
    add(predicted, truth);
}
void RankingMetrics::add_row(std::span<const ScoredLabel> predicted, std::span<const std::int32_t> truth) {
    add(predicted, truth);
}

void RankingMetrics::merge(const RankingMetrics& other) {
    assert(ks_ == other.ks_ && inverse_propensity_.size() == other.inverse_propensity_.size());
    num_rows_ += other.num_rows_;
    for (std::size_t j = 0; j < sums_.size(); ++j) sums_[j] += other.sums_[j];
}

std::vector<MetricScore> RankingMetrics::scores() const {
    return scores_of(ks_, sums_, static_cast<double>(num_rows_), with_propensities());
}

MetricSums& MetricSums::operator+=(const MetricSums& more) {
    hits += more.hits;
    recall += more.recall;
    ndcg += more.ndcg;
    ps_hits += more.ps_hits;
    ps_best += more.ps_best;
    ps_ndcg += more.ps_ndcg;
    ps_best_ndcg += more.ps_best_ndcg;
    return *this;
}

std::vector<MetricScore> scores_of(std::span<const std::int64_t> ks, std::span<const MetricSums> sums,
                                   double rows, bool with_propensities) {
    std::vector<MetricScore> result;
    const auto add_metric = [&](const char* metric, const auto& value) {
        for (std::size_t j = 0; j < ks.size(); ++j)
            result.push_back({metric, ks[j], value(sums[j], static_cast<double>(ks[j]))});
    };
    add_metric("P", [&](const MetricSums& s, double k) { return ratio(s.hits, k * rows); });
    add_metric("nDCG", [&](const MetricSums& s, double) { return ratio(s.ndcg, rows); });
    if (with_propensities) {
        add_metric("PSP", [](const MetricSums& s, double) { return ratio(s.ps_hits, s.ps_best); });
        add_metric("PSnDCG", [](const MetricSums& s, double) { return ratio(s.ps_ndcg, s.ps_best_ndcg); });
    }
    add_metric("R", [&](const MetricSums& s, double) { return ratio(s.recall, rows); });
    return result;
}

void remove_filtered(std::vector<ScoredLabel>& ranked, std::span<const std::int64_t> filtered,
                     std::int64_t k) {
    remove_and_cut(ranked, filtered, k);
}
void remove_filtered(std::vector<ScoredLabel>& ranked, std::span<const std::int32_t> filtered,
                     std::int64_t k) {
    remove_and_cut(ranked, filtered, k);
}

}  // namespace elmo
