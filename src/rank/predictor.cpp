// Prediction: a checkpoint mapped, texts in, the best labels out; or, among given labels, with only their
// rows of the head in memory.
#include "elmo/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "formats/safetensors.h"
#include "metrics/metrics.h"
#include "metrics/platt.h"
#include "numerics/bf16.h"
#include "rank/question/answer_scope.h"
#include "rank/question/label_index.h"
#include "rank/question/label_ranker.h"
#include "rank/report/threshold.h"
#include "rank/shared_ranking.h"
#include "run/calibration_file.h"
#include "run/checkpoint.h"
#include "run/run_data.h"

namespace elmo {

struct Predictor::Impl {
    Impl(const Context& context, const std::string& run, const Config& given, const LabelScope& label_scope)
        : checkpoint(run, given.checkpoint,
                     label_scope.chooses() ? Checkpoint::Check::kAllButHead : Checkpoint::Check::kAll),
          config(with_usual_numbers(resolve_prediction(given))),
          spec(stored_encoder(checkpoint)),
          tokenizer(checkpoint.takes_vectors() ? nullptr : stored_tokenizer(checkpoint.content())),
          max_length(tokenizer ? cut_length(context, checkpoint.config().max_length, spec) : 0),
          windows(checkpoint.config().windows),
          names(checkpoint.label_names()),
          scope(resolve_scope(label_scope, names, checkpoint.state().labels)),
          stored(config.probabilities == "raw" ? std::nullopt : read_calibration(context, checkpoint)),
          platt(choose_probabilities(config, stored)),
          cuts(choose_cuts(config, stored)),
          ranker(context, checkpoint, config, spec, tokenizer.get(), scope, max_length * windows) {}

    // The tokens of at most batch_size texts, alive until the next call.
    void tokenize(std::span<const std::string> texts) {
        batch.tokens.clear();
        batch.offsets = {0};
        for (const std::string& text : texts) {
            tokenizer->encode(text, max_length, ids, windows);
            batch.tokens.insert(batch.tokens.end(), ids.begin(), ids.end());
            if (batch.tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
                throw ConfigError(
                    fmt::format("batch_size: {} texts have more than 2^31 tokens; lower it", texts.size()));
            batch.offsets.push_back(static_cast<std::int32_t>(batch.tokens.size()));
        }
    }

    // Calls use(first, count) for one batch after another.
    template <typename Use>
    void for_batches(std::size_t all, Use&& use) {
        const auto size = static_cast<std::size_t>(config.batch_size);
        for (std::size_t first = 0; first < all; first += size) use(first, std::min(size, all - first));
    }

    // The next batch, tokenized or rounded.
    const TokenizedTexts& stage(const std::vector<std::string>& texts, std::size_t first, std::size_t count) {
        refuse_vectors(checkpoint, "prediction");
        tokenize(std::span(texts).subspan(first, count));
        return batch;
    }
    std::span<const Bf16> stage(const Embeddings& vectors, std::size_t first, std::size_t count) {
        const auto width = static_cast<std::size_t>(vectors.width);
        rounded.clear();
        for (const float value : std::span(vectors.values).subspan(first * width, count * width)) {
            if (!std::isfinite(value))
                throw DataError(fmt::format("vectors[{}]: expected finite numbers, found {}",
                                            first + rounded.size() / width, value));
            rounded.push_back(to_bf16(value));
        }
        return rounded;
    }
    static std::size_t count_of(const std::vector<std::string>& texts) { return texts.size(); }
    std::size_t count_of(const Embeddings& vectors) const {
        if (ranker.is_linear())
            throw ConfigError(
                "vectors: a linear model has no text vectors; train with --encoder bag or a folder");
        if (vectors.width != spec.width && vectors.rows > 0)
            throw DataError(
                fmt::format("vectors: expected a width of {}, found {}", spec.width, vectors.width));
        return static_cast<std::size_t>(vectors.rows);
    }

    // The answers to texts or vectors.
    template <typename Inputs>
    std::vector<std::vector<Prediction>> predict(const Inputs& inputs) {
        std::vector<std::vector<Prediction>> result(count_of(inputs));
        for_batches(result.size(), [&](std::size_t first, std::size_t count) {
            auto ranked = ranker.rank(stage(inputs, first, count), ranker.most_ranked());
            for (std::size_t i = 0; i < ranked.size(); ++i) {
                result[first + i] = answer(ranked[i], scope.dropped, config.top, cuts);
                if (cuts.lowest() > 0 && !given_top && config.top < scope.answers() &&
                    static_cast<std::int64_t>(ranked[i].size()) == config.top &&
                    platt.probability(ranked[i].back().score) >= cuts.lowest())
                    ++cut;
            }
        });
        return result;
    }
    template <typename Inputs>
    std::vector<std::vector<Prediction>> predict(const Inputs& inputs, const Question& question) {
        const std::int64_t most = ranker.most_ranked();
        if (question.top < 1 || question.top > config.top)
            throw ConfigError(
                fmt::format("top: expected 1 to {} labels, found {}", config.top, question.top));
        if (question.threshold != -1 && !(question.threshold >= 0 && question.threshold <= 1))
            throw ConfigError(fmt::format("threshold: expected -1 or 0 to 1, found {}", question.threshold));
        const LabelCuts threshold = choose_threshold(question.threshold, config.probabilities, stored);
        const AnswerScope narrow = narrow_scope(scope, question, config.top - question.top);
        const std::int64_t k =
            std::min({question.top + static_cast<std::int64_t>(narrow.dropped.size()), narrow.labels, most});
        std::vector<std::vector<Prediction>> result(count_of(inputs));
        for_batches(result.size(), [&](std::size_t first, std::size_t count) {
            const auto& staged = stage(inputs, first, count);
            auto ranked =
                question.labels.empty() ? ranker.rank(staged, k) : ranker.rank_among(staged, k, narrow.rows);
            for (std::size_t i = 0; i < ranked.size(); ++i)
                result[first + i] = answer(ranked[i], narrow.dropped, question.top, threshold);
        });
        return result;
    }

    // The labels of a ranking that are answered; those that are dropped are removed from it.
    std::vector<Prediction> answer(std::vector<ScoredLabel>& ranked, const std::vector<std::int64_t>& dropped,
                                   std::int64_t top, const LabelCuts& least) const {
        remove_filtered(ranked, std::span<const std::int64_t>(dropped), top);
        std::vector<Prediction> result;
        for (const ScoredLabel& scored : ranked) {
            const double probability = platt.probability(scored.score);
            if (probability < least.lowest()) return result;
            if (probability < least.of(scored.label)) continue;
            result.push_back(
                {scored.label,
                 names.empty() ? std::string() : std::string(names[static_cast<std::size_t>(scored.label)]),
                 scored.score, static_cast<float>(probability)});
        }
        return result;
    }

    // Made when first asked for: it takes time and 8 bytes per label.
    const LabelIndex& index() const {
        std::call_once(index_made, [&] { labels_by_name.emplace(names, checkpoint.state().labels); });
        return *labels_by_name;
    }
    const std::vector<std::int64_t>& counts() const {
        std::call_once(counts_read, [&] { train_rows = checkpoint.read_label_counts(); });
        return train_rows;
    }

    Checkpoint checkpoint;
    Config config;
    EncoderSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;
    std::int64_t max_length, windows;
    std::vector<std::string_view> names;
    AnswerScope scope;
    std::optional<Calibration> stored;
    Platt platt;
    LabelCuts cuts;
    bool given_top = given(config, "top");
    std::int64_t cut = 0;  // texts with more labels above the threshold than were ranked
    LabelRanker ranker;
    TokenizedTexts batch;  // the running one
    std::vector<std::int32_t> ids;
    std::vector<Bf16> rounded;  // vectors of the running batch
    mutable std::once_flag index_made, counts_read;
    mutable std::optional<LabelIndex> labels_by_name;
    mutable std::vector<std::int64_t> train_rows;
};

Config resolve_prediction(const Config& config) {
    Config result = config;
    if ((config.threshold != 0 || config.label_thresholds) && !given(config, "top"))
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
std::optional<SearchIndex> Predictor::index() const {
    const SearchIndex* index = impl_->ranker.index();
    return index != nullptr ? std::optional(*index) : std::nullopt;
}
bool Predictor::has_vectors() const {
    return !impl_->ranker.is_linear() && takes_texts();
}
bool Predictor::takes_texts() const {
    return !impl_->checkpoint.takes_vectors();
}
const MemoryReport& Predictor::plan() const {
    return impl_->ranker.plan();
}

std::vector<std::int64_t> Predictor::find_labels(const std::vector<std::string>& list,
                                                 const std::string& what) const {
    return impl_->index().find(list, what);
}

FoundLabels Predictor::search_labels(std::string_view part, std::int64_t first, std::int64_t limit) const {
    FoundLabels result;
    for (const std::int64_t label : impl_->index().search(part, first, limit, result.found))
        result.labels.push_back(label_info(label));
    return result;
}

LabelInfo Predictor::label_info(std::int64_t label) const {
    std::string name = label_name(label);
    return {label, std::move(name), impl_->counts()[static_cast<std::size_t>(label)]};
}

std::vector<NearLabel> Predictor::nearest_labels(std::int64_t label, std::int64_t limit) {
    label_name(label);  // DataError
    std::vector<NearLabel> result;
    for (const auto& [other, similarity] : impl_->ranker.nearest(label, limit))
        result.push_back({other, label_name(other), similarity});
    return result;
}

std::vector<NearText> Predictor::nearest_texts(const std::string& text, std::int64_t limit) {
    std::vector<NearText> result;
    if (!impl_->ranker.is_linear()) return result;
    const std::vector<std::string> texts = {text};
    for (const auto& [similarity, near] : impl_->ranker.nearest_texts(impl_->stage(texts, 0, 1), limit)) {
        NearText& found = result.emplace_back();
        found.similarity = similarity;
        found.training_text = near;
        for (const std::int32_t label : impl_->ranker.labels_of_text(near)) {
            found.labels.push_back(label);
            found.names.push_back(label_name(label));
        }
    }
    return result;
}

std::vector<std::vector<Prediction>> Predictor::predict(const std::vector<std::string>& texts) {
    return impl_->predict(texts);
}
std::vector<std::vector<Prediction>> Predictor::predict(const std::vector<std::string>& texts,
                                                        const Question& question) {
    return impl_->predict(texts, question);
}
std::vector<std::vector<Prediction>> Predictor::predict_vectors(const Embeddings& vectors) {
    return impl_->predict(vectors);
}
std::vector<std::vector<Prediction>> Predictor::predict_vectors(const Embeddings& vectors,
                                                                const Question& question) {
    return impl_->predict(vectors, question);
}

Embeddings Predictor::embed(const std::vector<std::string>& texts) {
    if (impl_->ranker.is_linear())
        throw ConfigError("embed: a linear model has no text vectors; train with --encoder bag or a folder");
    Embeddings result;
    result.rows = static_cast<std::int64_t>(texts.size());
    result.width = impl_->spec.width;
    result.values.reserve(static_cast<std::size_t>(result.rows * result.width));
    impl_->for_batches(texts.size(), [&](std::size_t first, std::size_t count) {
        for (const Bf16 value : impl_->ranker.vectors(impl_->stage(texts, first, count)))
            result.values.push_back(to_float(value));
    });
    return result;
}

Embeddings read_vectors(const std::string& file) {
    const SafeTensors tensors = SafeTensors::open(file);
    const auto names = tensors.names();
    const bool named = std::find(names.begin(), names.end(), "vectors") != names.end();
    if (!named && names.size() != 1)
        throw DataError(
            fmt::format("{}: expected a tensor 'vectors', or only one, found {} others", file, names.size()));
    const TensorInfo& tensor = tensors.at(named ? "vectors" : std::string(names.front()));
    if (tensor.shape.size() != 2)
        throw DataError(fmt::format("{}: expected a matrix with a row per text, found the shape {}", file,
                                    tensor.shape_text()));
    Embeddings result;
    result.rows = tensor.shape[0];
    result.width = tensor.shape[1];
    result.values.resize(static_cast<std::size_t>(tensor.num_elements()));
    read_tensor(tensor, std::span(result.values));
    return result;
}

}  // namespace elmo
