// Prediction: a checkpoint mapped, texts in, the best labels out; or, among given labels, with only their
// rows of the head in memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/predictor.h"
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "metrics/platt.h"
#include "numerics/bf16.h"
#include "rank/label_list.h"
#include "rank/linear_ranking.h"
#include "rank/report/threshold.h"
#include "rank/shared_ranking.h"
#include "ranks/collectives.h"
#include "run/calibration_file.h"
#include "run/checkpoint.h"
#include "run/run_data.h"

namespace elmo {
namespace {

// Up to this many labels are left out by ranking that many more; above, the other labels are gathered.
constexpr std::int64_t kRankedMore = 1024;

// Which rows of the head are scored, and which labels are dropped from the ranking.
struct Scope {
    bool gathered = false;
    std::vector<std::int64_t> rows;     // labels whose rows are gathered, ascending
    std::vector<std::int64_t> dropped;  // labels ranked and left out, ascending
    std::int64_t labels = 0;            // scored

    std::int64_t answers() const { return labels - static_cast<std::int64_t>(dropped.size()); }
};

std::vector<std::int64_t> listed(const std::string& file, const std::vector<std::string>& list,
                                 const char* what, const std::vector<std::string_view>& names,
                                 std::int64_t labels) {
    return file.empty() ? find_labels(list, what, names, labels) : read_label_list(file, names, labels);
}

Scope resolve(const LabelScope& given, const std::vector<std::string_view>& names, std::int64_t labels) {
    Scope scope;
    std::vector<std::int64_t> without;
    if (given.leaves_out()) without = listed(given.without, given.without_list, "without", names, labels);
    if (given.chooses()) {
        scope.gathered = true;
        const auto chosen = listed(given.labels, given.label_list, "labels", names, labels);
        std::set_difference(chosen.begin(), chosen.end(), without.begin(), without.end(),
                            std::back_inserter(scope.rows));
    } else if (static_cast<std::int64_t>(without.size()) > kRankedMore) {
        scope.gathered = true;
        scope.rows = all_labels_but(without, labels);
    } else {
        scope.dropped = std::move(without);
    }
    scope.labels = scope.gathered ? static_cast<std::int64_t>(scope.rows.size()) : labels;
    if (scope.answers() == 0)
        throw DataError(fmt::format("{}: expected a label to be left to answer with, found none",
                                    given.without.empty() ? "without" : given.without));
    return scope;
}

RunShape prediction_shape(const Config& config, const Scope& scope, std::int64_t max_length) {
    RunShape shape;
    shape.batch = config.batch_size;
    shape.tokens = config.batch_size * max_length;
    shape.longest = max_length;
    shape.training = false;
    shape.top_k = std::min(config.top + static_cast<std::int64_t>(scope.dropped.size()), scope.labels);
    return shape;
}

// All of the stored head from its files, or the gathered rows in memory.
HeadSpec head_of(const Checkpoint& checkpoint, const Scope& scope) {
    HeadSpec head = stored_head(checkpoint.content());
    if (scope.gathered) {
        head.layout = LabelLayout::gathered(scope.rows);
        head.in_files = false;
    }
    return head;
}

}  // namespace

struct Predictor::Impl {
    Impl(const Context& context, const std::string& run, const Config& given, const LabelScope& label_scope)
        : checkpoint(run, given.checkpoint,
                     label_scope.chooses() ? Checkpoint::Check::kAllButHead : Checkpoint::Check::kAll),
          config(with_usual_numbers(resolve_prediction(given))),
          spec(stored_encoder(checkpoint)),
          tokenizer(stored_tokenizer(checkpoint.content())),
          max_length(cut_length(context, checkpoint.config().max_length, spec)),
          names(checkpoint.label_names()),
          scope(resolve(label_scope, names, checkpoint.state().labels)),
          stored(config.probabilities == "raw" ? std::nullopt : read_calibration(context, checkpoint)),
          platt(choose_probabilities(config, stored)),
          threshold(choose_threshold(config, stored)),
          work(context) {
        if (checkpoint.is_linear()) {
            refuse_other_device(config);
            linear.emplace(load_linear_model(checkpoint.content(), checkpoint.state().labels), *tokenizer,
                           scope.gathered ? scope.rows : std::vector<std::int64_t>());
            linear_plan.device = "cpu";
            linear_plan.segments.push_back({"linear/model", linear->model().bytes(), true});
            linear_plan.arena_bytes = linear->model().bytes();
        } else if (ranks_of(context).size() > 1) {
            leader.emplace(context, config, checkpoint, spec,
                           scope.gathered ? scope.rows : std::vector<std::int64_t>(),
                           prediction_shape(config, scope, max_length));
        } else {
            own_engine.emplace(context, config, EngineParts{spec, head_of(checkpoint, scope)},
                               prediction_shape(config, scope, max_length));
            own_engine->allocate();
            own_engine->load(checkpoint.content());
        }
        checkpoint.close_files();
    }

    // The tokens of at most batch_size texts, alive until the next call.
    void tokenize(std::span<const std::string> texts) {
        tokens.clear();
        offsets = {0};
        for (const std::string& text : texts) {
            tokenizer->encode(text, max_length, ids);
            tokens.insert(tokens.end(), ids.begin(), ids.end());
            if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
                throw ConfigError(
                    fmt::format("batch_size: {} texts have more than 2^31 tokens; lower it", texts.size()));
            offsets.push_back(static_cast<std::int32_t>(tokens.size()));
        }
    }
    Engine& engine() { return leader ? leader->engine() : *own_engine; }
    View vectors() { return engine().encoder().forward({tokens, offsets}, false, 0, 0); }

    // The best labels of the texts that were tokenized.
    std::vector<std::vector<ScoredLabel>> ranked() {
        std::vector<std::vector<ScoredLabel>> result;
        if (linear) {
            const std::int64_t k =
                std::min(config.top + static_cast<std::int64_t>(scope.dropped.size()), scope.labels);
            const auto row = [&](std::int64_t i) {
                const auto at = static_cast<std::size_t>(i);
                return std::span<const std::int32_t>(tokens).subspan(
                    static_cast<std::size_t>(offsets[at]),
                    static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
            };
            return linear->rank(work, row, static_cast<std::int64_t>(offsets.size()) - 1, k);
        }
        const std::int64_t k = engine().workload().top_k;
        const RankedBatch batch{{tokens, offsets}, k};
        for (const TopK& best :
             leader ? leader->rank(std::span(&batch, 1)).front() : engine().head().topk(vectors(), k))
            result.push_back(best.sorted());
        return result;
    }

    // Calls use(first) for one tokenized batch of texts after another, from text `first` on.
    template <typename Use>
    void for_batches(const std::vector<std::string>& texts, Use&& use) {
        const auto batch = static_cast<std::size_t>(config.batch_size);
        for (std::size_t first = 0; first < texts.size(); first += batch) {
            tokenize(std::span(texts).subspan(first, std::min(batch, texts.size() - first)));
            use(first);
        }
    }

    std::vector<Prediction> answer(std::vector<ScoredLabel> ranked) {
        remove_filtered(ranked, std::span<const std::int64_t>(scope.dropped), config.top);
        std::vector<Prediction> result;
        for (const ScoredLabel& scored : ranked) {
            const double probability = platt.probability(scored.score);
            if (probability < threshold) return result;
            result.push_back(
                {scored.label,
                 names.empty() ? std::string() : std::string(names[static_cast<std::size_t>(scored.label)]),
                 scored.score, static_cast<float>(probability)});
        }
        if (threshold > 0 && !given_top && config.top < scope.answers() &&
            static_cast<std::int64_t>(ranked.size()) == config.top)
            ++cut;
        return result;
    }

    Checkpoint checkpoint;
    Config config;
    EncoderSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;
    std::int64_t max_length;
    std::vector<std::string_view> names;
    Scope scope;
    std::optional<Calibration> stored;
    Platt platt;
    double threshold;
    bool given_top = given(config, "top");
    std::int64_t cut = 0;  // texts with more labels above the threshold than were ranked
    Context work;
    std::optional<Engine> own_engine;  // one of these
    std::optional<RankingLeader> leader;
    std::optional<LinearRanker> linear;
    MemoryReport linear_plan;
    std::vector<std::int32_t> tokens, ids, offsets;  // of the running batch
};

Config resolve_prediction(const Config& config) {
    Config result = config;
    if (config.threshold != 0 && !given(config, "top"))
        choose_option(result, "top", &Config::top, kMostAnswers,
                      "all labels above the threshold, up to this number");
    return result;
}

Predictor::Predictor(const Context& given_context, const std::string& run, const Config& config,
                     const LabelScope& scope) {
    validate(config);
    const Context context = given_context.with_threads(config.threads);
    impl_ = std::make_unique<Impl>(context, run, config, scope);
}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

void follow_predictor(const Context& context, const std::string& run, const Config& config) {
    validate(config);
    follow_rankings(context.with_threads(config.threads), run, config.checkpoint, config);
}

std::int64_t Predictor::num_labels() const {
    return impl_->checkpoint.state().labels;
}
std::int64_t Predictor::num_answers() const {
    return impl_->scope.answers();
}
std::string Predictor::label_name(std::int64_t label) const {
    if (label < 0 || label >= num_labels())
        throw DataError(
            fmt::format("expected a label number from 0 to {}, found {}", num_labels() - 1, label));
    return impl_->names.empty() ? std::string() : std::string(impl_->names[static_cast<std::size_t>(label)]);
}
std::int64_t Predictor::cut_answers() const {
    return impl_->cut;
}
bool Predictor::calibrated() const {
    return impl_->stored.has_value();
}
std::string Predictor::checkpoint_folder() const {
    return impl_->checkpoint.folder().string();
}
const std::string& Predictor::checkpoint_hash() const {
    return impl_->checkpoint.manifest_hash();
}
const MemoryReport& Predictor::plan() const {
    return impl_->linear ? impl_->linear_plan : impl_->engine().plan();
}

std::vector<std::vector<Prediction>> Predictor::predict(const std::vector<std::string>& texts) {
    std::vector<std::vector<Prediction>> result(texts.size());
    impl_->for_batches(texts, [&](std::size_t first) {
        auto ranked = impl_->ranked();
        for (std::size_t i = 0; i < ranked.size(); ++i)
            result[first + i] = impl_->answer(std::move(ranked[i]));
    });
    return result;
}

Embeddings Predictor::embed(const std::vector<std::string>& texts) {
    if (impl_->linear)
        throw ConfigError("embed: a linear model has no text vectors; train with --encoder bag or a folder");
    Embeddings result;
    result.rows = static_cast<std::int64_t>(texts.size());
    result.width = impl_->spec.width;
    result.values.reserve(static_cast<std::size_t>(result.rows * result.width));
    std::vector<Bf16> batch;
    impl_->for_batches(texts, [&](std::size_t) {
        const View x_BD = impl_->vectors();
        batch.resize(static_cast<std::size_t>(x_BD.rows * x_BD.cols));
        impl_->engine().backend().download(batch.data(), x_BD);
        for (const Bf16 value : batch) result.values.push_back(to_float(value));
    });
    return result;
}

}  // namespace elmo
