#include "rank/scoring.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/path_name.h"
#include "base/progress.h"
#include "base/text_util.h"
#include "config/rows_path.h"
#include "elmo/error.h"

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

void rank_rows(const Context& context, Engine& engine, const BatchPlan& plan, const Split& split,
               std::int64_t k, const std::string& title, const TakeRanked& take) {
    const std::int64_t ranks = engine.share().ranks;
    const auto rank = [&](std::span<const RankedBatch> batches) {
        if (ranks > 1) return rank_together(context, engine, batches);
        std::vector<std::vector<TopK>> best;
        for (const RankedBatch& batch : batches)
            best.push_back(engine.head().topk(engine.encoder().forward(batch.texts, false, 0, 0), batch.k));
        return best;
    };
    rank_rows(context, rank, ranks, plan, split, k, title, take);
}

void rank_rows(const Context& context, const RankBatches& rank, std::int64_t at_once, const BatchPlan& plan,
               const Split& split, std::int64_t k, const std::string& title, const TakeRanked& take) {
    const bool filtered = split.filter.rows() > 0;
    std::vector<std::int64_t> drop;
    Progress progress(context, title, plan.num_rows(), "texts");
    std::int64_t done = 0;
    BatchReader reader(plan, 0, plan.steps_per_epoch());
    std::vector<Batch> held(static_cast<std::size_t>(at_once));  // a batch lives until the next one is read
    for (bool more = true; more;) {
        std::vector<const Batch*> batches;
        while (static_cast<std::int64_t>(batches.size()) < at_once) {
            const Batch* batch = reader.next();
            more = batch != nullptr;
            if (!more) break;
            if (at_once > 1) batch = &(held[batches.size()] = *batch);
            batches.push_back(batch);
        }
        std::vector<RankedBatch> texts;
        for (const Batch* batch : batches) {
            std::int64_t most = 0;
            if (filtered)
                for (const std::int64_t row : batch->rows) most = std::max(most, split.filter.length(row));
            texts.push_back({{batch->tokens, batch->offsets}, k + most});
        }
        if (texts.empty()) break;
        const auto best = rank(texts);
        for (std::size_t j = 0; j < batches.size(); ++j)
            for (std::int64_t i = 0; i < batches[j]->size(); ++i) {
                std::vector<ScoredLabel> ranked = best[j][static_cast<std::size_t>(i)].sorted();
                const std::int64_t row = batches[j]->rows[static_cast<std::size_t>(i)];
                if (filtered) {
                    const auto pairs = split.filter.row(row);
                    drop.assign(pairs.begin(), pairs.end());
                    remove_filtered(ranked, std::span<const std::int64_t>(drop), k);
                }
                take(row, ranked);
            }
        for (const Batch* batch : batches) done += batch->size();
        progress.update(done);
    }
    progress.finish();
}

std::string data_set_name(const std::string& data) {
    if (is_rows_path(data)) return "rows from memory";
    const std::string name = path_name(data);
    std::error_code error;
    return std::filesystem::is_regular_file(data, error) ? name.substr(0, name.find('.', 1)) : name;
}

std::vector<double> propensities_of(const PropensityRule& rule, std::span<const std::int64_t> counts,
                                    std::int64_t train_rows) {
    if (counts.empty()) return {};
    if (!rule.augmented) return inverse_propensities(counts, train_rows, rule.a, rule.b);
    std::vector<std::int64_t> augmented(counts.begin(), counts.end());
    for (std::int64_t& count : augmented) ++count;
    return inverse_propensities(augmented, train_rows + static_cast<std::int64_t>(counts.size()), rule.a,
                                rule.b);
}

PropensityRule propensity_rule(const ScoreOptions& options) {
    return propensity_rule(data_set_name(options.data_name), options.like, options.propensity_a,
                           options.propensity_b, options.propensity_counts);
}

Scorer::Scorer(const ScoreOptions& options, std::vector<std::int64_t> ks, std::int64_t labels,
               std::span<const std::int64_t> counts, std::int64_t train_rows, Detail detail,
               std::int64_t trained)
    : data_(options.data_name),
      like_(options.like),
      labels_(labels),
      rule_(propensity_rule(options)),
      inverse_propensity_(propensities_of(rule_, counts, train_rows)),
      metrics_(ks, inverse_propensity_),
      bootstrap_(detail == Detail::kScores ? 0 : options.bootstrap, ks, metrics_.with_propensities()) {
    propensity_rows_ = counts.empty() ? 0 : train_rows + (rule_.augmented ? labels : 0);
    if (detail != Detail::kScores && !counts.empty())
        groups_.emplace(std::move(ks),
                        counts.first(std::min(counts.size(), static_cast<std::size_t>(trained))), labels);
}

void Scorer::add(std::span<const ScoredLabel> ranked, std::span<const std::uint32_t> truth) {
    truth_.assign(truth.begin(), truth.end());
    metrics_.add_row(ranked, std::span<const std::int64_t>(truth_));
    bootstrap_.add(metrics_.last_row());
    if (groups_) groups_->add_row(ranked, truth_);
    unlabelled_ += truth.empty() ? 1 : 0;
}

Evaluation Scorer::result() const {
    Evaluation result;
    for (const MetricScore& score : metrics_.scores())
        result.scores.push_back({score.name(), 100 * score.value});
    if (bootstrap_.replicates() > 0) {
        result.bootstrap = bootstrap_.replicates();
        result.confidence = kConfidence;
        const auto intervals = bootstrap_.intervals(kConfidence);
        for (std::size_t i = 0; i < intervals.size(); ++i) {
            result.scores[i].low = 100 * intervals[i].low;
            result.scores[i].high = 100 * intervals[i].high;
        }
    }
    const auto& ks = metrics_.ks();
    if (groups_)
        for (const GroupMetrics::Group& group : groups_->groups()) {
            if (group.labels == 0) continue;
            LabelGroup& out = result.groups.emplace_back();
            out = {group.name, group.labels, group.least, group.most, group.positives, {}};
            for (std::size_t j = 0; j < ks.size(); ++j)
                out.scores.push_back({fmt::format("P@{}", ks[j]), 100 * group.precision[j]});
            for (std::size_t j = 0; j < ks.size(); ++j)
                out.scores.push_back({fmt::format("R@{}", ks[j]), 100 * group.recall[j]});
        }
    result.data = data_;
    result.like = like_;
    result.k = fmt::format("{}", fmt::join(ks, ","));
    result.num_samples = metrics_.num_rows();
    result.unlabelled_samples = unlabelled_;
    result.num_labels = labels_;
    if (metrics_.with_propensities()) {
        result.propensity_a = rule_.a;
        result.propensity_b = rule_.b;
        result.propensity_source = rule_.source;
        result.propensity_counts =
            rule_.augmented ? "training set with each label's text as one more row" : "training set, plain";
        result.propensity_rows = propensity_rows_;
    }
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
