// elmo index: the sketch of a run's head, shaped, fitted and measured on texts of its data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/progress.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/index.h"
#include "io/links.h"
#include "rank/index/index_file.h"
#include "rank/index/sketch_ranker.h"
#include "rank/scored_run.h"
#include "rank/shared_ranking.h"
#include "ranks/collectives.h"

namespace elmo {
namespace {

constexpr std::int64_t kMostTexts = 2000, kFewestTexts = 40, kTop = 10;
constexpr std::int64_t kFewestCandidates = 50, kMostCandidates = 25'600;
constexpr std::size_t kTimedTexts = 20;
constexpr double kErrors = 1.645;  // standard errors: one-sided 95 %

// Texts with their vectors, and the ten best labels of each by exact search.
struct ExactAnswers {
    std::vector<Bf16> vectors;
    std::vector<std::vector<ScoredLabel>> best;

    void add(const ExactAnswers& from, std::size_t i, std::int64_t width) {
        const auto begin = from.vectors.begin() + static_cast<std::ptrdiff_t>(i) * width;
        vectors.insert(vectors.end(), begin, begin + width);
        best.push_back(from.best[i]);
    }
};

double milliseconds(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The median time of work(i) for a few texts.
double median_ms(std::size_t texts, const std::function<void(std::size_t)>& work) {
    std::vector<double> times;
    for (std::size_t i = 0; i < std::min(texts, kTimedTexts); ++i)
        times.push_back(milliseconds([&] { work(i); }));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// Up to `most` of the rows, evenly spread.
std::vector<std::int64_t> some_rows(const std::vector<std::int64_t>& rows, std::int64_t most) {
    const auto count = static_cast<std::int64_t>(rows.size()), taken = std::min(count, most);
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < taken; ++i)
        result.push_back(rows[static_cast<std::size_t>(i * count / taken)]);
    return result;
}

ExactAnswers answer_exactly(const Context& context, const ScoredRun& scored, const EncoderSpec& spec,
                            double& exact_ms) {
    const ScoredRows& part = scored.parts().front();
    const std::vector<std::int64_t> rows = some_rows(part.rows, kMostTexts);
    if (static_cast<std::int64_t>(rows.size()) < kFewestTexts)
        throw DataError(fmt::format(
            "{}: expected at least {} texts to make and measure an index with, found {}; name DATA with more",
            scored.config().data, kFewestTexts, rows.size()));
    const BatchPlan plan(*part.split, rows, scored.config().batch_size);
    const BatchLimits limits = plan.limits(context, 0, plan.steps_per_epoch());
    RunShape shape;
    shape.batch = std::min<std::int64_t>(scored.config().batch_size, plan.num_rows());
    shape.tokens = limits.tokens;
    shape.longest = limits.longest_row;
    shape.training = false;
    shape.top_k = std::min(kTop, scored.checkpoint().state().labels);
    shape.mapped_bytes = scored.dataset().mapped_bytes();
    const InputFolder& content = scored.checkpoint().content();
    Engine engine(context, scored.config(), {spec, stored_head(content)}, shape);
    engine.allocate();
    engine.load(content);
    ExactAnswers result;
    Progress progress(context, "ranking exactly", plan.num_rows(), "texts");
    Batch batch;
    for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
        context.leave_if_stopped();
        plan.fill(step, batch);
        const View x_BD = engine.encoder().forward({batch.tokens, batch.offsets}, false, 0, 0);
        const std::size_t before = result.vectors.size();
        result.vectors.resize(before + static_cast<std::size_t>(x_BD.size()));
        engine.backend().download(&result.vectors[before], x_BD);
        for (const TopK& best : engine.head().topk(x_BD, shape.top_k)) result.best.push_back(best.sorted());
        progress.update(static_cast<std::int64_t>(result.best.size()));
    }
    progress.finish();
    const View one = engine.encoder().pooled(1);
    exact_ms = median_ms(result.best.size(), [&](std::size_t i) {
        engine.backend().upload(one, &result.vectors[i * static_cast<std::size_t>(spec.width)]);
        engine.head().topk(one, 5);
    });
    return result;
}

// Where the sketch has each of the best labels of exact search.
struct FoundAt {
    std::vector<std::array<std::int64_t, kTop>> places;  // of each text; beyond all where it is not found
    std::vector<std::int64_t> wanted;                    // labels of exact search, up to ten

    // Of each text, the share of its k best that are among the first `candidates`: mean and standard error.
    struct Recall {
        double mean = 1, error = 0;
    };
    Recall recall(std::int64_t k, std::int64_t candidates) const {
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < places.size(); ++i) {
            const auto last = places[i].begin() + std::min(k, wanted[i]);
            const auto found = std::count_if(places[i].begin(), last,
                                             [&](std::int64_t place) { return place < candidates; });
            const double share = static_cast<double>(found) / static_cast<double>(std::min(k, wanted[i]));
            sum += share;
            squares += share * share;
        }
        const auto texts = static_cast<double>(places.size());
        const double mean = sum / texts;
        return {mean, std::sqrt(std::max(squares / texts - mean * mean, 0.0) / texts)};
    }
};

FoundAt find(const Context& context, const LabelSketch& sketch, const ExactAnswers& texts,
             std::int64_t most) {
    FoundAt result;
    const auto width = static_cast<std::size_t>(sketch.width);
    constexpr std::size_t kAtOnce = 32;
    for (std::size_t first = 0; first < texts.best.size(); first += kAtOnce) {
        context.leave_if_stopped();
        const std::size_t n = std::min(kAtOnce, texts.best.size() - first);
        const auto found = sketch_candidates(
            context, sketch, std::span(texts.vectors).subspan(first * width, n * width), most);
        for (std::size_t i = 0; i < n; ++i) {
            auto& places = result.places.emplace_back();
            places.fill(most);
            const auto& best = texts.best[first + i];
            result.wanted.push_back(static_cast<std::int64_t>(best.size()));
            for (std::size_t j = 0; j < best.size(); ++j)
                places[j] = std::find(found[i].begin(), found[i].end(), best[j].label) - found[i].begin();
        }
    }
    return result;
}

// As few as reach the recall of the five best labels, with room for chance: other texts will come.
std::int64_t choose_candidates(const Context& context, const LabelSketch& sketch, const ExactAnswers& texts,
                               double recall) {
    const std::int64_t most = std::min(sketch.labels, kMostCandidates);
    for (std::int64_t candidates = std::min(kFewestCandidates, most);;
         candidates = std::min(2 * candidates, most)) {
        const FoundAt::Recall found = find(context, sketch, texts, candidates).recall(5, candidates);
        if (candidates == most || found.mean - kErrors * found.error >= recall) return candidates;
    }
}

}  // namespace

SearchIndex build_index(const Context& given_context, const std::string& run, const Config& given_config,
                        double recall) {
    validate(given_config);
    if (!(recall > 0 && recall <= 1))
        throw ConfigError(fmt::format("recall: expected more than 0 and at most 1, found {}", recall));
    const Context context = given_context.with_threads(given_config.threads);
    if (ranks_of(context).size() > 1)
        throw ConfigError("index: expected one process, found several ranks; start it without a launcher");
    const Checkpoint asked(run, given_config.checkpoint, Checkpoint::Check::kAllButHead);
    if (asked.is_linear())
        throw ConfigError(fmt::format(
            "{}: expected a run with an encoder, found a linear model, which needs no index: its trees of "
            "labels are a fast search already",
            asked.folder().string()));
    refuse_vectors(asked, "index");
    Config config = given_config;
    config.device = "cpu";  // where it is used
    if (!given(given_config, "data") && !given(given_config, "split")) config.split = "validation";
    const ScoredRun scored(context, run, config);
    const Checkpoint& checkpoint = scored.checkpoint();
    refuse_link(index_file(checkpoint.folder()));  // before the work
    const EncoderSpec spec = stored_encoder(checkpoint);

    SearchIndex report;
    report.labels = checkpoint.state().labels;
    report.width = spec.width;
    const ExactAnswers all = answer_exactly(context, scored, spec, report.exact_ms);
    ExactAnswers shaping, choosing, measuring;
    for (std::size_t i = 0; i < all.best.size(); ++i)
        (i % 2 == 0 ? shaping : i % 4 == 1 ? choosing : measuring).add(all, i, spec.width);

    const LabelSketch sketch = make_sketch(
        context, report.labels, spec.width,
        [&](std::span<const std::int64_t> rows) { return read_head_rows(checkpoint.content(), rows); },
        shaping.vectors);
    report.dims = sketch.dims;
    report.candidates = choose_candidates(context, sketch, choosing, recall);
    const FoundAt measured_on =
        find(context, sketch, measuring, candidates_for(report.candidates, kTop, report.labels));
    report.texts = static_cast<std::int64_t>(measuring.best.size());
    const auto measured = [&](std::int64_t k) {
        return measured_on.recall(k, candidates_for(report.candidates, k, report.labels)).mean;
    };
    report.recall_at_1 = measured(1);
    report.recall_at_5 = measured(5);
    report.recall_at_10 = measured(10);
    SketchRanker ranker(context, config, checkpoint, sketch, report.candidates, 5);
    report.approximate_ms = median_ms(measuring.best.size(), [&](std::size_t i) {
        const auto width = static_cast<std::size_t>(spec.width);
        ranker.rank(std::span(measuring.vectors).subspan(i * width, width), 5);
    });
    write_index(checkpoint, sketch, report);
    if (report.recall_at_5 < recall)
        context.warning(fmt::format(
            "{:.2f} % of the five best labels are found, fewer than the {:.2f} % that were asked for",
            100 * report.recall_at_5, 100 * recall));
    return report;
}

}  // namespace elmo
