#include "rank/report/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text_util.h"

namespace elmo {
Judge::Judge(Threshold threshold, const Config& config, std::int64_t labels, std::int64_t depth)
    : threshold_(std::move(threshold)), depth_(depth < labels ? depth : 0), metrics_(labels) {
    if (config.errors > 0) mistakes_.emplace(config.errors);
}

void Judge::add(SplitName split, std::int64_t row, std::span<const ScoredLabel> ranked,
                std::span<const std::uint32_t> truth) {
    const auto answered = threshold_.answered(ranked, kept_);
    if (depth_ > 0 && may_have_more(ranked, depth_, *threshold_.platt, threshold_.cuts)) ++cut_;
    const SetScores scores = metrics_.add_row(answered, truth);
    if (!mistakes_) return;
    mistakes_->add(split, row, answered, truth, scores.f1);
    if (!threshold_.platt) return;
    for (const ScoredLabel& label :
         ranked.first(std::min(ranked.size(), static_cast<std::size_t>(kJudgedLabels))))
        reliability_.add(
            threshold_.probability(label),
            std::binary_search(truth.begin(), truth.end(), label.label, std::less<std::int64_t>()));
}

void Judge::finish(const Context& context, const Config& config, const LabelName& name,
                   Evaluation& evaluation) const {
    ThresholdScores& at = evaluation.at_threshold.emplace();
    at.threshold = threshold_.cuts.common();
    at.source = threshold_.source;
    at.micro = in_percent(metrics_.micro());
    at.macro = in_percent(metrics_.macro());
    at.samples = in_percent(metrics_.samples());
    at.positives = metrics_.positives();
    at.answered = metrics_.answered();
    at.right = metrics_.right();
    at.most_answers = depth_;
    at.cut_texts = cut_;
    if (cut_ > 0)
        context.warning(
            threshold_.cuts.own() > 0
                ? fmt::format(
                      "{} whose {} best labels are all above the lowest threshold, so that others may "
                      "be above theirs: only the best {} are looked at",
                      counted(cut_, "text"), depth_, depth_)
                : fmt::format("{} with {} labels or more above the threshold of {:.4g}: only the best {} are "
                              "counted as answers",
                              counted(cut_, "text"), depth_, threshold_.cuts.lowest(), depth_));
    if (mistakes_) mistakes_->report(config, threshold_, metrics_, name, evaluation);
    for (const ReliabilityBin& bin : reliability_.bins())
        evaluation.calibration_curve.push_back({bin.from, bin.to, bin.mean, bin.right, bin.pairs});
    if (!config.per_label.empty())
        write_label_scores(config.per_label, metrics_, mistakes_ ? *mistakes_ : Mistakes(0), name,
                           evaluation);
}

}  // namespace elmo
