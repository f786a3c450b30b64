#include "train/scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "metrics/propensity.h"

namespace elmo {

std::vector<std::int64_t> parse_ks(const std::string& text) {
    std::vector<std::int64_t> ks;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
        std::int64_t k = 0;
        const auto [rest, status] = std::from_chars(at, end, k);
        if (status != std::errc() || k < 1 || (rest != end && *rest != ','))
            throw ConfigError(
                fmt::format("k: expected numbers from 1, as in 1,3,5; found '{}'", quoted(text)));
        ks.push_back(k);
        if (rest == end) return ks;
        at = rest + 1;
    }
}

std::int64_t longest_filter(const Split& split) {
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < split.filter.rows(); ++row)
        longest = std::max(longest, split.filter.length(row));
    return longest;
}

void rank_rows(Session& session, const BatchPlan& plan, const Split& split, std::int64_t k,
               const std::string& title, const TakeRanked& take) {
    const bool filtered = split.filter.rows() > 0;
    std::vector<std::int64_t> drop;
    Progress progress(title, plan.num_rows(), "texts");
    std::int64_t done = 0;
    BatchReader reader(plan, 0, plan.steps_per_epoch());
    while (const Batch* batch = reader.next()) {
        std::int64_t most = 0;
        if (filtered)
            for (const std::int64_t row : batch->rows) most = std::max(most, split.filter.length(row));
        const View x_BD = session.encoder().forward({batch->tokens, batch->offsets}, false, 0, 0);
        const auto best = session.head().topk(x_BD, k + most);
        for (std::int64_t i = 0; i < batch->size(); ++i) {
            std::vector<ScoredLabel> ranked = best[i].sorted();
            if (filtered) {
                const auto pairs = split.filter.row(batch->rows[i]);
                drop.assign(pairs.begin(), pairs.end());
                remove_filtered(ranked, std::span<const std::int64_t>(drop), k);
            }
            take(batch->rows[i], ranked);
        }
        done += batch->size();
        progress.update(done);
    }
    progress.finish();
}

Scorer::Scorer(const Config& config, std::vector<std::int64_t> ks, std::span<const std::int64_t> counts,
               std::int64_t train_rows)
    : a_(config.propensity_a),
      b_(config.propensity_b),
      inverse_propensity_(inverse_propensities(counts, train_rows, a_, b_)),
      metrics_(std::move(ks), inverse_propensity_) {}

void Scorer::add(std::span<const ScoredLabel> ranked, std::span<const std::uint32_t> truth) {
    truth_.assign(truth.begin(), truth.end());
    metrics_.add_row(ranked, std::span<const std::int64_t>(truth_));
}

Evaluation Scorer::result() const {
    Evaluation result;
    for (const MetricScore& score : metrics_.scores())
        result.scores.push_back({score.name(), 100 * score.value});
    result.num_samples = metrics_.num_rows();
    result.num_labels = static_cast<std::int64_t>(inverse_propensity_.size());
    result.propensity_a = a_;
    result.propensity_b = b_;
    result.propensity_counts = "training set, plain";
    result.filter = "none";
    return result;
}

double Evaluation::get(const std::string& name) const {
    std::vector<std::string> names;
    for (const Score& score : scores) {
        if (score.name == name) return score.percent;
        names.push_back(score.name);
    }
    throw ConfigError(fmt::format("no score is called '{}'{}", quoted(name), did_you_mean(name, names)));
}

}  // namespace elmo
