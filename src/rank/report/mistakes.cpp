#include "rank/report/mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/csv_field.h"
#include "data/named_labels.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "sources/layout.h"
#include "sources/row_source.h"

namespace elmo {
namespace {

// Pairs that are counted; the rare ones of huge data are not.
constexpr std::size_t kMostConfusions = std::size_t{1} << 20;
// Labels that are listed by their frequency; a table of all of them is written by write_label_scores.
constexpr std::size_t kMostFrequent = 200;
// Answers that are listed of each label that was missed.
constexpr std::size_t kMostInstead = 5;
// A label in fewer texts has an F1 by chance.
constexpr std::int32_t kFewTexts = 5;

// With what was answered instead.
template <typename Insteads>
LabelScores scores_of_label(std::int64_t label, const LabelTally& tally, const Insteads& insteads,
                            const LabelName& name) {
    LabelScores scores{label,          name(label), tally.positives,
                       tally.answered, tally.right, in_percent(scores_of(tally))};
    if (const auto found = insteads.find(label); found != insteads.end())
        for (const auto& [other, texts] : found->second) scores.taken_for.push_back({name(other), texts});
    return scores;
}

template <typename Insteads>
std::vector<LabelScores> worst_labels(const ThresholdMetrics& metrics, std::size_t limit,
                                      const Insteads& insteads, const LabelName& name) {
    const auto tallies = metrics.labels();
    std::vector<std::int64_t> order;
    for (const std::int32_t least : {kFewTexts, 1}) {
        if (!order.empty()) break;
        for (std::size_t label = 0; label < tallies.size(); ++label)
            if (tallies[label].positives >= least && tallies[label].right < tallies[label].positives)
                order.push_back(static_cast<std::int64_t>(label));
    }
    const auto is_worse = [&](std::int64_t a, std::int64_t b) {
        const LabelTally &x = tallies[static_cast<std::size_t>(a)], &y = tallies[static_cast<std::size_t>(b)];
        const double f1_x = scores_of(x).f1, f1_y = scores_of(y).f1;
        if (f1_x != f1_y) return f1_x < f1_y;
        return x.positives != y.positives ? x.positives > y.positives : a < b;
    };
    const std::size_t count = std::min(limit, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      is_worse);
    std::vector<LabelScores> result;
    for (std::size_t i = 0; i < count; ++i)
        result.push_back(
            scores_of_label(order[i], tallies[static_cast<std::size_t>(order[i])], insteads, name));
    return result;
}

template <typename Insteads>
std::vector<LabelScores> frequent_labels(const ThresholdMetrics& metrics, const Insteads& insteads,
                                         const LabelName& name) {
    const auto tallies = metrics.labels();
    std::vector<std::int64_t> order;
    for (std::size_t label = 0; label < tallies.size(); ++label)
        if (tallies[label].positives > 0) order.push_back(static_cast<std::int64_t>(label));
    const std::size_t count = std::min(kMostFrequent, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::int64_t a, std::int64_t b) {
                          const auto x = tallies[static_cast<std::size_t>(a)].positives,
                                     y = tallies[static_cast<std::size_t>(b)].positives;
                          return x != y ? x > y : a < b;
                      });
    std::vector<LabelScores> result;
    for (std::size_t i = 0; i < count; ++i)
        result.push_back(
            scores_of_label(order[i], tallies[static_cast<std::size_t>(order[i])], insteads, name));
    return result;
}

// Those of 0, then tenths. Of labels that some text has.
std::vector<F1Band> f1_bands(const ThresholdMetrics& metrics) {
    std::vector<F1Band> bands = {{0, 0, 0}};
    for (int i = 0; i < 10; ++i) bands.push_back({10.0 * i, 10.0 * (i + 1), 0});
    for (const LabelTally& tally : metrics.labels()) {
        if (tally.positives == 0) continue;
        const double f1 = 100 * scores_of(tally).f1;
        const auto band =
            std::find_if(bands.begin(), bands.end(), [&](const F1Band& each) { return f1 <= each.up_to; });
        ++(band == bands.end() ? bands.back() : *band).labels;
    }
    return bands;
}

// The texts of these rows of a split, which ascend.
std::vector<std::string> read_texts(const ReadOptions& reading, SplitName split,
                                    const std::vector<std::int64_t>& rows) {
    const Layout layout = find_layout(reading);
    if (layout.files(split).text.empty() || layout.format == DataFormat::kSparse)
        return std::vector<std::string>(rows.size());  // only labels, or features
    const auto source = open_texts(layout, split);
    const auto reader = source->open();
    const auto parser = source->parser();
    Encoding encoding = encoding_of(reading);
    encoding.allow_invalid = true;
    const bool by_hash = layout.splits_by_hash() && split != SplitName::kValidation;
    std::vector<std::string> texts;
    std::string storage, text;
    ImportCounts counts;
    for (std::int64_t row = 0; texts.size() < rows.size();) {
        auto record = reader->next();
        if (!record) throw DataError(fmt::format("{}: changed while it was scored", reading.data));
        record->bytes = valid_utf8(*record, encoding, storage, counts);
        parser->text(*record, text);
        if (by_hash && split_of_text(text, layout.test_share) != split) continue;
        if (row++ == rows[texts.size()]) texts.push_back(text);
    }
    return texts;
}

}  // namespace

AnswerScores in_percent(const SetScores& scores) {
    return {100 * scores.precision, 100 * scores.recall, 100 * scores.f1};
}

bool Mistakes::is_worse(const Kept& a, const Kept& b) {
    if (a.f1 != b.f1) return a.f1 < b.f1;
    if (a.wrong_score != b.wrong_score) return a.wrong_score > b.wrong_score;
    return a.split != b.split ? a.split < b.split : a.row < b.row;
}

void Mistakes::add(SplitName split, std::int64_t row, std::span<const ScoredLabel> answered,
                   std::span<const std::uint32_t> truth, double f1) {
    if (f1 == 1 || (truth.empty() && answered.empty())) return;
    const auto is_true = [&](const ScoredLabel& label) {
        return std::binary_search(truth.begin(), truth.end(), label.label, std::less<std::int64_t>());
    };
    const auto wrong = std::find_if_not(answered.begin(), answered.end(), is_true);
    if (wrong != answered.end())
        for (const std::uint32_t label : truth) {
            if (std::any_of(answered.begin(), answered.end(),
                            [&](const ScoredLabel& answer) { return answer.label == label; }))
                continue;
            const std::uint64_t pair = std::uint64_t{label} << 32 | static_cast<std::uint64_t>(wrong->label);
            if (const auto known = confusions_.find(pair); known != confusions_.end())
                ++known->second;
            else if (confusions_.size() < kMostConfusions)
                confusions_.emplace(pair, 1);
        }
    Kept kept{f1,
              wrong == answered.end() ? std::numeric_limits<float>::lowest() : wrong->score,
              split,
              row,
              {truth.begin(), truth.end()},
              {answered.begin(), answered.end()}};
    if (kept_.size() == limit_) {
        if (limit_ == 0 || !is_worse(kept, kept_.front())) return;
        std::pop_heap(kept_.begin(), kept_.end(), is_worse);
        kept_.pop_back();
    }
    kept_.push_back(std::move(kept));
    std::push_heap(kept_.begin(), kept_.end(), is_worse);
}

void Mistakes::report(const ReadOptions& reading, const Threshold& threshold, const ThresholdMetrics& metrics,
                      const LabelName& name, Evaluation& evaluation) const {
    const Insteads instead = insteads();
    evaluation.frequent_labels = frequent_labels(metrics, instead, name);
    evaluation.worst_labels = worst_labels(metrics, limit_, instead, name);
    evaluation.f1_bands = f1_bands(metrics);

    std::vector<std::pair<std::uint64_t, std::int64_t>> pairs(confusions_.begin(), confusions_.end());
    std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    for (std::size_t i = 0; i < std::min(limit_, pairs.size()); ++i)
        evaluation.confusions.push_back({name(static_cast<std::int64_t>(pairs[i].first >> 32)),
                                         name(static_cast<std::int64_t>(pairs[i].first & 0xffffffff)),
                                         pairs[i].second});

    // Rows of a file that is scored whole are of no split.
    const bool whole = reading.split == SplitChoice::kAll && find_layout(reading).test.labels.empty();
    std::vector<Kept> worst = kept_;
    std::sort(worst.begin(), worst.end(), is_worse);
    for (const Kept& kept : worst) {
        WrongText& wrong = evaluation.wrong_texts.emplace_back();
        // Where the run held rows out of other data, they are some of all.
        const bool some = reading.split == SplitChoice::kTest && kept.split == SplitName::kTrain;
        wrong.split = whole || some ? "all" : name_of(kept.split);
        wrong.row = kept.row + 1;
        for (const std::uint32_t label : kept.truth) wrong.expected.push_back(name(label));
        for (const ScoredLabel& label : kept.answered)
            wrong.found.push_back({name(label.label), threshold.probability(label)});
    }
    for (const SplitName split : kAllSplits) {
        std::vector<std::int64_t> rows;
        for (const Kept& kept : worst)
            if (kept.split == split) rows.push_back(kept.row);
        if (rows.empty()) continue;
        std::sort(rows.begin(), rows.end());
        const auto texts = read_texts(reading, split, rows);
        for (std::size_t i = 0; i < worst.size(); ++i)
            if (worst[i].split == split)
                evaluation.wrong_texts[i].text = texts[static_cast<std::size_t>(
                    std::lower_bound(rows.begin(), rows.end(), worst[i].row) - rows.begin())];
    }
}

Mistakes::Insteads Mistakes::insteads() const {
    Insteads result;
    for (const auto& [pair, texts] : confusions_)
        result[static_cast<std::int64_t>(pair >> 32)].emplace_back(
            static_cast<std::int64_t>(pair & 0xffffffff), texts);
    for (auto& [label, others] : result) {
        std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
            return a.second != b.second ? a.second > b.second : a.first < b.first;
        });
        if (others.size() > kMostInstead) others.resize(kMostInstead);
    }
    return result;
}

void Mistakes::visit_labels(const ThresholdMetrics& metrics, const LabelName& name,
                            const std::function<void(const LabelScores&)>& take) const {
    const Insteads instead = insteads();
    const auto tallies = metrics.labels();
    for (std::size_t i = 0; i < tallies.size(); ++i)
        if (tallies[i].positives > 0 || tallies[i].answered > 0)
            take(scores_of_label(static_cast<std::int64_t>(i), tallies[i], instead, name));
}

void write_label_scores(const std::string& file, const ThresholdMetrics& metrics, const Mistakes& mistakes,
                        const LabelName& name, const Evaluation& protocol) {
    AtomicFile out(file);
    const bool json = file.ends_with(".jsonl");
    if (json)
        out.write(to_json(FieldGroup{[&](auto&& visit) {
                      visit("threshold", protocol.at_threshold->threshold);
                      visit("threshold_source", protocol.at_threshold->source);
                      visit_protocol(protocol, visit);
                  }}) +
                  "\n");
    else
        out.write("label,name,positives,answered,right,precision,recall,F1\n");
    mistakes.visit_labels(metrics, name, [&](const LabelScores& label) {
        if (json)
            out.write(to_json(label) + "\n");
        else
            out.write(fmt::format("{},{},{},{},{},{:.4f},{:.4f},{:.4f}\n", label.label, csv_field(label.name),
                                  label.positives, label.answered, label.right, label.scores.precision,
                                  label.scores.recall, label.scores.f1));
    });
    out.commit();
}

}  // namespace elmo
