#include "rank/index/sketch_ranker.h"

#include <algorithm>
#include <numeric>

namespace elmo {
namespace {

constexpr std::int64_t kMeasuredTop = 5;

HeadSpec room_for(const InputFolder& content, std::int64_t labels) {
    HeadSpec head = stored_head(content);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(labels));
    std::iota(rows.begin(), rows.end(), 0);
    head.layout = LabelLayout::gathered(rows);
    head.in_files = false;
    return head;
}

RunShape one_text(std::int64_t top) {
    RunShape shape;
    shape.batch = 1;
    shape.training = false;
    shape.top_k = top;
    return shape;
}

EngineOptions without_limit(EngineOptions options) {
    options.max_bytes = 0;  // small beside what was planned for the model
    return options;
}

}  // namespace

std::int64_t candidates_for(std::int64_t candidates, std::int64_t k, std::int64_t labels) {
    return std::min(labels, candidates * ((std::max(k, kMeasuredTop) + kMeasuredTop - 1) / kMeasuredTop));
}

SketchRanker::SketchRanker(const Context& context, const EngineOptions& options, const Checkpoint& checkpoint,
                           LabelSketch sketch, std::int64_t candidates, std::int64_t most)
    : context_(context),
      sketch_(std::move(sketch)),
      candidates_(std::min(candidates, sketch_.labels)),
      content_(checkpoint.content()),
      shards_(open_shards(content_)),
      engine_(context, without_limit(options),
              {std::nullopt, room_for(content_, candidates_for(candidates_, most, sketch_.labels))},
              one_text(most)) {
    engine_.allocate();
}

std::vector<std::vector<ScoredLabel>> SketchRanker::rank(std::span<const Bf16> texts, std::int64_t k) {
    return rank(texts, k, candidates_for(candidates_, k, sketch_.labels));
}

std::vector<std::vector<ScoredLabel>> SketchRanker::rank(std::span<const Bf16> texts, std::int64_t k,
                                                         std::int64_t candidates) {
    std::vector<std::vector<ScoredLabel>> result;
    auto found = sketch_candidates(context_, sketch_, texts, candidates);
    for (std::size_t i = 0; i < found.size(); ++i) {
        std::sort(found[i].begin(), found[i].end());
        if (found[i].empty()) {
            result.emplace_back();
            continue;
        }
        engine_.head().set_layout(LabelLayout::gathered(std::move(found[i])));
        engine_.head().load(shards_, content_);
        const View x_1D = engine_.text_vectors(1);
        engine_.backend().upload(x_1D, &texts[i * static_cast<std::size_t>(sketch_.width)]);
        result.push_back(engine_.head().topk(x_1D, k).front().sorted());
    }
    return result;
}

}  // namespace elmo
