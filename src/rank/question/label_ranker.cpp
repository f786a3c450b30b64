#include "rank/question/label_ranker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

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

double product(std::span<const float> a, std::span<const float> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// By similarity, then by number.
void keep_best(std::vector<std::pair<std::int64_t, double>>& labels, std::int64_t limit) {
    std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    if (labels.size() > static_cast<std::size_t>(limit)) labels.resize(static_cast<std::size_t>(limit));
}

// The share of the trees in which a label lies in the leaf of another. None where few labels need no tree:
// all lie in one leaf, and that says nothing.
std::vector<std::pair<std::int64_t, double>> leaf_mates(const LabelTrees& trees, std::int64_t label) {
    if (trees.leaf.size() == trees.roots.size()) return {};
    std::map<std::int64_t, std::int64_t> shared;
    for (std::size_t node = 0; node < trees.leaf.size(); ++node) {
        if (trees.leaf[node] == 0) continue;
        const auto mates =
            std::span(trees.children)
                .subspan(static_cast<std::size_t>(trees.child_begin[node]),
                         static_cast<std::size_t>(trees.child_begin[node + 1] - trees.child_begin[node]));
        if (std::find(mates.begin(), mates.end(), label) == mates.end()) continue;
        for (const std::int32_t mate : mates)
            if (mate != label) ++shared[mate];
    }
    std::vector<std::pair<std::int64_t, double>> result;
    for (const auto& [mate, count] : shared)
        result.emplace_back(mate, static_cast<double>(count) / static_cast<double>(trees.roots.size()));
    return result;
}

LabelRanker::Ranking sorted(const std::vector<TopK>& best) {
    LabelRanker::Ranking result;
    result.reserve(best.size());
    for (const TopK& of_text : best) result.push_back(of_text.sorted());
    return result;
}

}  // namespace

LabelRanker::LabelRanker(const Context& context, const Checkpoint& checkpoint, const Config& config,
                         const EncoderSpec& spec, const Tokenizer* tokenizer, const AnswerScope& scope,
                         std::int64_t longest)
    : context_(context),
      content_(checkpoint.content()),
      options_(config),
      takes_vectors_(checkpoint.takes_vectors()),
      batch_(config.batch_size),
      width_(spec.width),
      most_ranked_(shape_of(config, scope, longest).top_k),
      scope_(scope) {
    const bool approximate = config.search == "approximate";
    if (approximate && checkpoint.is_linear())
        throw ConfigError(
            "search: expected exact with a linear model, found approximate: its trees of labels are a fast "
            "search already");
    if (approximate && takes_vectors_)
        throw ConfigError("search: expected exact with a head on vectors, found approximate");
    if (approximate && ranks_of(context).size() > 1)
        throw ConfigError("search: expected exact with several ranks, found approximate");
    if (checkpoint.is_linear()) {
        refuse_other_device(config);
        warn_of_unused_limit(context, config);
        linear_.emplace(load_linear_model(content_, checkpoint.state().labels), *tokenizer);
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
    EngineParts parts{spec, head_of(content_, scope.gathered, scope.rows)};
    if (takes_vectors_) parts.encoder.reset();
    own_engine_.emplace(context, options_, parts, shape);
    own_engine_->allocate();
    own_engine_->load(content_);
}

void LabelRanker::stage_index(const Checkpoint& checkpoint, const EncoderSpec& spec, RunShape shape) {
    StoredIndex stored = read_index(checkpoint, spec.width);
    index_ = stored.report;
    shape.top_k = 0;
    shape.mapped_bytes += index_.bytes;
    if (options_.device == DeviceChoice::kAuto) options_.device = DeviceChoice::kCpu;
    own_engine_.emplace(context_, options_, EngineParts{spec, std::nullopt}, shape);
    if (!own_engine_->backend().host_memory())
        throw ConfigError(
            "search: approximate search runs on a CPU, found another device; leave --device out, or "
            "search exactly");
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
    return rank_by(engine_of(labels), vectors(texts), k);
}

LabelRanker::Ranking LabelRanker::rank(std::span<const Bf16> vectors, std::int64_t k) {
    return rank_by(vector_engine(), vectors, k);
}

LabelRanker::Ranking LabelRanker::rank_among(std::span<const Bf16> vectors, std::int64_t k,
                                             const std::vector<std::int64_t>& labels) {
    return rank_by(engine_of(labels), vectors, k);
}

LabelRanker::Ranking LabelRanker::rank_by(Engine& head, std::span<const Bf16> vectors, std::int64_t k) {
    const View x_BD = head.text_vectors(static_cast<std::int64_t>(vectors.size()) / width_);
    head.backend().upload(x_BD, vectors.data());
    return sorted(head.head().topk(x_BD, k));
}

Engine& LabelRanker::vector_engine() {
    if (takes_vectors_) return engine();
    if (!head_only_) {
        RunShape shape;
        shape.batch = batch_;
        shape.training = false;
        shape.top_k = most_ranked_;
        EngineOptions options = options_;
        options.max_bytes = 0;  // the weights are those that are mapped already
        if (options.device != DeviceChoice::kReference)
            options.device = DeviceChoice::kCpu;  // where they are
        head_only_.emplace(context_, options,
                           EngineParts{std::nullopt, head_of(content_, scope_.gathered, scope_.rows)}, shape);
        head_only_->allocate();
        head_only_->load(content_);
    }
    return *head_only_;
}

std::vector<std::pair<std::int64_t, double>> LabelRanker::nearest(std::int64_t label, std::int64_t limit) {
    std::vector<std::pair<std::int64_t, double>> result;
    if (linear_) {
        result = leaf_mates(linear_->model().trees, label);
    } else {
        const std::vector<float> own = read_head_rows(content_, std::span(&label, 1));
        std::vector<Bf16> rounded;
        for (const float value : own) rounded.push_back(to_bf16(value));
        std::vector<std::int64_t> others;
        const Ranking ranked = rank(rounded, most_ranked_);
        for (const ScoredLabel& scored : ranked.front())
            if (scored.label != label) others.push_back(scored.label);
        std::sort(others.begin(), others.end());
        const std::vector<float> rows = read_head_rows(content_, others);
        const double norm = std::sqrt(product(own, own));
        for (std::size_t i = 0; i < others.size(); ++i) {
            const auto row = std::span(rows).subspan(i * own.size(), own.size());
            const double norms = norm * std::sqrt(product(row, row));
            const double cosine = product(own, row) / norms;  // any number, of weights that overflow
            result.emplace_back(others[i], norms > 0 && std::isfinite(cosine) ? cosine : 0);
        }
    }
    keep_best(result, limit);
    return result;
}

bool LabelRanker::has_neighbours() const {
    return linear_ && linear_->model().neighbours.texts() > 0;
}

Nearest LabelRanker::nearest_texts(const TokenizedTexts& texts, std::int64_t limit) const {
    Nearest nearest = linear_->nearest_texts(texts.row(0));
    if (std::ssize(nearest) > limit) nearest.resize(static_cast<std::size_t>(limit));
    return nearest;
}

std::span<const std::int32_t> LabelRanker::labels_of_text(std::int64_t text) const {
    return linear_->model().neighbours.labels_of(text);
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
