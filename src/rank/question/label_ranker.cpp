#include "rank/question/label_ranker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/error.h"

#include "model/head/head.h"
#include "rank/linear_ranking.h"
#include "ranks/collectives.h"

namespace elmo {
namespace {

constexpr std::size_t kKeptHeads = 4;

RunShape shape_of(const Config& config, const AnswerScope& scope, std::int64_t longest) {
    RunShape shape;
    shape.batch = config.batch_size;
    shape.tokens = config.batch_size * longest;
    shape.longest = longest;
    shape.training = false;
    shape.top_k = std::min(config.top + static_cast<std::int64_t>(scope.dropped.size()), scope.labels);
    return shape;
}

// All of the stored head from its files, or the gathered rows in memory.
HeadSpec head_of(const InputFolder& content, bool gathered, const std::vector<std::int64_t>& rows) {
    HeadSpec head = stored_head(content);
    if (gathered) {
        head.layout = LabelLayout::gathered(rows);
        head.in_files = false;
    }
    return head;
}

LabelRanker::Ranking sorted(const std::vector<TopK>& best) {
    LabelRanker::Ranking result;
    result.reserve(best.size());
    for (const TopK& of_text : best) result.push_back(of_text.sorted());
    return result;
}

}  // namespace

LabelRanker::LabelRanker(const Context& context, const Checkpoint& checkpoint, const Config& config,
                         const EncoderSpec& spec, const Tokenizer& tokenizer, const AnswerScope& scope,
                         std::int64_t longest)
    : context_(context),
      content_(checkpoint.content()),
      options_(config),
      batch_(config.batch_size),
      most_ranked_(shape_of(config, scope, longest).top_k) {
    const bool approximate = config.search == "approximate";
    if (approximate && checkpoint.is_linear())
        throw ConfigError(
            "search: expected exact with a linear model, found approximate: its trees of labels are a fast "
            "search already");
    if (approximate && ranks_of(context).size() > 1)
        throw ConfigError("search: expected exact with several ranks, found approximate");
    if (checkpoint.is_linear()) {
        refuse_other_device(config);
        linear_.emplace(load_linear_model(content_, checkpoint.state().labels), tokenizer);
        if (scope.gathered) gate_ = linear_->gate(scope.rows);
        linear_plan_.device = "cpu";
        linear_plan_.segments.push_back({"linear/model", linear_->model().bytes(), true});
        linear_plan_.arena_bytes = linear_->model().bytes();
        return;
    }
    const RunShape shape = shape_of(config, scope, longest);
    if (ranks_of(context).size() > 1) {
        leader_.emplace(context, options_, checkpoint, spec,
                        scope.gathered ? scope.rows : std::vector<std::int64_t>(), shape);
        return;
    }
    if (approximate && !scope.gathered) {
        stage_index(checkpoint, spec, shape);
        return;
    }
    own_engine_.emplace(context, options_, EngineParts{spec, head_of(content_, scope.gathered, scope.rows)},
                        shape);
    own_engine_->allocate();
    own_engine_->load(content_);
}

void LabelRanker::stage_index(const Checkpoint& checkpoint, const EncoderSpec& spec, RunShape shape) {
    StoredIndex stored = read_index(checkpoint, spec.width);
    index_ = stored.report;
    shape.top_k = 0;
    shape.mapped_bytes += index_.bytes;
    own_engine_.emplace(context_, options_, EngineParts{spec, std::nullopt}, shape);
    if (!own_engine_->backend().host_memory())
        throw ConfigError(
            "search: approximate search runs on a CPU, found another device; give --device cpu, or search "
            "exactly");
    own_engine_->allocate();
    own_engine_->load(content_);
    sketch_.emplace(context_, options_, checkpoint, std::move(stored.sketch), index_.candidates,
                    most_ranked_);
    context_.info(fmt::format(
        "approximate search: {:.2f} % of the five best labels are found, measured on {} texts when "
        "the index was made",
        100 * index_.recall_at_5, with_commas(index_.texts)));
}

View LabelRanker::encode(const TokenizedTexts& texts) {
    return engine().encoder().forward({texts.tokens, texts.offsets}, false, 0, 0);
}

std::vector<Bf16> LabelRanker::vectors(const TokenizedTexts& texts) {
    const View x_BD = encode(texts);
    std::vector<Bf16> values(static_cast<std::size_t>(x_BD.rows * x_BD.cols));
    engine().backend().download(values.data(), x_BD);
    return values;
}

LabelRanker::Ranking LabelRanker::rank(const TokenizedTexts& texts, std::int64_t k) {
    if (linear_)
        return linear_->rank(
            context_, [&](std::int64_t i) { return texts.row(i); }, texts.size(), k, gate_);
    if (leader_) {
        const RankedBatch batch{{texts.tokens, texts.offsets}, k};
        return sorted(leader_->rank(std::span(&batch, 1)).front());
    }
    if (sketch_) return sketch_->rank(vectors(texts), k);
    return sorted(engine().head().topk(encode(texts), k));
}

LabelRanker::Ranking LabelRanker::rank_among(const TokenizedTexts& texts, std::int64_t k,
                                             const std::vector<std::int64_t>& labels) {
    if (linear_)
        return linear_->rank(
            context_, [&](std::int64_t i) { return texts.row(i); }, texts.size(), k, linear_->gate(labels));
    Engine& head = engine_of(labels);
    const std::vector<Bf16> values = vectors(texts);
    const View x_BD = head.text_vectors(texts.size());
    head.backend().upload(x_BD, values.data());
    return sorted(head.head().topk(x_BD, k));
}

Engine& LabelRanker::engine_of(const std::vector<std::int64_t>& labels) {
    const auto found = std::find_if(gathered_.begin(), gathered_.end(),
                                    [&](const auto& kept) { return kept.first == labels; });
    if (found != gathered_.end()) {
        gathered_.splice(gathered_.begin(), gathered_, found);
        return gathered_.front().second;
    }
    while (gathered_.size() >= kKeptHeads) gathered_.pop_back();
    RunShape shape;
    shape.batch = batch_;
    shape.training = false;
    shape.top_k = std::min(most_ranked_, static_cast<std::int64_t>(labels.size()));
    EngineOptions options = options_;
    options.max_bytes = 0;  // what was planned for the model stays planned; this is small beside it
    Engine head(context_, options, {std::nullopt, head_of(content_, true, labels)}, shape);
    head.allocate();
    head.load(content_);
    return gathered_.emplace_front(labels, std::move(head)).second;
}

}  // namespace elmo
