// Prediction: a checkpoint mapped, texts in, the best labels out; or, among given labels, with only their
// rows of the head in memory.
#include "elmo/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/text_util.h"
#include "config/resolve.h"
#include "data/tokenizer_files.h"
#include "data/unknown_texts.h"
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
#include "sources/detect.h"
#include "sources/matrices/sparse_source.h"
#include "text/numbers.h"

namespace elmo {
namespace {

constexpr std::int64_t kMostFeatures = 8192;  // of a row, repeated as their values say

void check_tokens(std::size_t tokens, std::size_t texts) {
    if (tokens > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
        throw ConfigError(fmt::format("batch_size: {} texts have more than 2^31 tokens; lower it", texts));
}

}  // namespace

// One after another: many threads read them, and the one that ranks takes memory seldom.
struct Rankings {
    LabelCuts threshold;                // of the question, as the next ones
    std::vector<std::int64_t> dropped;  // labels that are left out
    std::int64_t top = 0;
    std::vector<ScoredLabel> labels;
    std::vector<std::size_t> ends;

    void add(const std::vector<ScoredLabel>& of_text) {
        labels.insert(labels.end(), of_text.begin(), of_text.end());
        ends.push_back(labels.size());
    }
    std::vector<ScoredLabel> of(std::size_t text) const {
        const auto at = [&](std::size_t i) { return labels.begin() + static_cast<std::ptrdiff_t>(i); };
        return {at(text > 0 ? ends.at(text - 1) : 0), at(ends.at(text))};
    }
};

void TokenizedTexts::append(const TokenizedTexts& more) {
    const std::size_t before = tokens.size();
    check_tokens(before + more.tokens.size(), offsets.size() + more.offsets.size() - 2);
    tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
    for (auto offset = more.offsets.begin() + 1; offset != more.offsets.end(); ++offset)
        offsets.push_back(static_cast<std::int32_t>(before) + *offset);
}

namespace {

// Labels with thresholds of their own are looked for as far down as where nobody says how many to answer.
Config with_depth_for_cuts(Config config) {
    if (config.label_thresholds) config.top = std::max(config.top, kMostAnswers);
    return config;
}

}  // namespace

struct Predictor::Impl {
    Impl(const Context& context, const std::string& run, const Config& given, const LabelScope& label_scope)
        : checkpoint(run, given.checkpoint,
                     label_scope.chooses() ? Checkpoint::Check::kAllButHead : Checkpoint::Check::kAll),
          config(with_usual_numbers(resolve_prediction(given))),
          depth(with_depth_for_cuts(config).top),
          spec(stored_encoder(checkpoint)),
          tokenizer(checkpoint.takes_vectors() ? nullptr : stored_tokenizer(checkpoint.content())),
          takes_features(tokenizer && is_number_tokenizer(*tokenizer)),
          max_length(tokenizer ? longest_text(context) : 0),
          windows(checkpoint.config().windows),
          names(checkpoint.label_names()),
          scope(resolve_scope(label_scope, names, checkpoint.state().labels)),
          stored(config.probabilities == "raw" ? std::nullopt : read_calibration(context, checkpoint)),
          platt(choose_probabilities(config, stored)),
          cuts(choose_cuts(config, stored)),
          ranker(context, checkpoint, with_depth_for_cuts(config), spec, tokenizer.get(), scope,
                 max_length * windows),
          context(context) {}

    // Features are not cut in training; here memory is taken before the rows are known.
    std::int64_t longest_text(const Context& to_warn) const {
        const std::int64_t length = cut_length(to_warn, checkpoint.config().max_length, spec);
        return takes_features ? std::max(length, kMostFeatures) : length;
    }

    TokenizedTexts tokenize(std::span<const std::string> texts) const {
        refuse_vectors(checkpoint, "prediction");
        thread_local std::vector<std::int32_t> ids;
        TokenizedTexts result;
        std::int64_t unknown = 0;
        result.offsets.reserve(texts.size() + 1);
        for (const std::string& text : texts) {
            const bool features = is_sparse_row(text);
            if (takes_features && features)
                tokenizer->encode(sparse_record_text({text, 1, "text"}), max_length, ids);
            else
                tokenizer->encode(text, max_length, ids, windows);
            if (takes_features ? !features && is_unknown(ids) : features && has_several(text))
                warn_of_other_kind(text);
            unknown += !takes_features && is_mostly_unknown(ids, *tokenizer);
            check_tokens(result.tokens.size() + ids.size(), texts.size());
            result.tokens.insert(result.tokens.end(), ids.begin(), ids.end());
            result.offsets.push_back(static_cast<std::int32_t>(result.tokens.size()));
        }
        if (are_many_unknown(unknown, std::ssize(texts)) && !warned_of_unknown.exchange(true))
            context.warning(unknown_line());
        return result;
    }

    // No token of a text that has any is a feature.
    bool is_unknown(std::span<const std::int32_t> ids) const {
        const auto inner = ids.size() > 2 ? ids.subspan(1, ids.size() - 2) : ids.first(0);
        return !inner.empty() && std::all_of(inner.begin(), inner.end(),
                                             [&](std::int32_t id) { return id == tokenizer->unk_id(); });
    }
    // One alone may be a time of day.
    static bool has_several(std::string_view features) {
        return features.find_first_of(" \t", features.find(':')) != features.npos;
    }
    void warn_of_other_kind(const std::string& text) const {
        if (warned.exchange(true)) return;
        context.warning(
            takes_features
                ? fmt::format(
                      "the run was trained on features: expected numbers, as '40:0.5 71:1' or '40 71', "
                      "found '{}', of which it knows nothing",
                      quoted(text))
                : fmt::format("the run was trained on texts: expected words, found features in '{}'; its "
                              "answers to such lines mean nothing",
                              quoted(text)));
    }

    // Calls use(first, count) for one batch after another.
    template <typename Use>
    void for_batches(std::size_t all, Use&& use) {
        const auto size = static_cast<std::size_t>(config.batch_size);
        for (std::size_t first = 0; first < all; first += size) use(first, std::min(size, all - first));
    }

    // The next batch, tokenized or rounded, alive until the next call.
    const TokenizedTexts& stage(const std::vector<std::string>& texts, std::size_t first, std::size_t count) {
        return batch = tokenize(std::span(texts).subspan(first, count));
    }
    const TokenizedTexts& stage(const TokenizedTexts& texts, std::size_t first, std::size_t count) {
        if (count == count_of(texts)) return texts;
        const auto from = texts.offsets.begin() + static_cast<std::ptrdiff_t>(first);
        batch.offsets.assign(from, from + static_cast<std::ptrdiff_t>(count) + 1);
        batch.tokens.assign(texts.tokens.begin() + batch.offsets.front(),
                            texts.tokens.begin() + batch.offsets.back());
        for (std::int32_t& offset : batch.offsets) offset -= *from;
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
    static std::size_t count_of(const TokenizedTexts& texts) {
        return static_cast<std::size_t>(texts.size());
    }
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
                result[first + i] = answer(ranked[i], scope.dropped, depth, cuts);
                if (std::ssize(result[first + i]) > config.top)
                    result[first + i].resize(static_cast<std::size_t>(config.top));
                if (cuts_at_all && !given_top && config.top < scope.answers() &&
                    may_have_more(ranked[i], config.top, platt, cuts))
                    ++cut;
            }
        });
        return result;
    }
    template <typename Inputs>
    std::vector<std::vector<Prediction>> predict(const Inputs& inputs, const Question& question) {
        const Asked asked = understand(question);
        std::vector<std::vector<Prediction>> result(count_of(inputs));
        for_batches(result.size(), [&](std::size_t first, std::size_t count) {
            auto ranked = rank(stage(inputs, first, count), asked);
            for (std::size_t i = 0; i < ranked.size(); ++i)
                result[first + i] = answer(ranked[i], asked.narrow.dropped, question.top, asked.threshold);
        });
        return result;
    }

    // What a question means for this run. ConfigError where it cannot be answered.
    struct Asked {
        LabelCuts threshold;
        AnswerScope narrow;
        bool among;      // given labels only
        std::int64_t k;  // labels to rank
    };
    Asked understand(const Question& question) const {
        if (question.top < 1 || question.top > config.top)
            throw ConfigError(
                fmt::format("top: expected 1 to {} labels, found {}", config.top, question.top));
        if (question.threshold != -1 && !(question.threshold >= 0 && question.threshold <= 1))
            throw ConfigError(fmt::format("threshold: expected -1 or 0 to 1, found {}", question.threshold));
        const double threshold = choose_threshold(question.threshold, config, stored);
        AnswerScope narrow = narrow_scope(scope, question, config.top - question.top);
        const std::int64_t k = std::min({question.top + static_cast<std::int64_t>(narrow.dropped.size()),
                                         narrow.labels, ranker.most_ranked()});
        return {threshold, std::move(narrow), !question.labels.empty(), k};
    }
    template <typename Staged>
    LabelRanker::Ranking rank(const Staged& staged, const Asked& asked) {
        return asked.among ? ranker.rank_among(staged, asked.k, asked.narrow.rows)
                           : ranker.rank(staged, asked.k);
    }
    template <typename Inputs>
    std::shared_ptr<const Rankings> rank_all(const Inputs& inputs, const Question& question) {
        const Asked asked = understand(question);
        auto result =
            std::make_shared<Rankings>(Rankings{asked.threshold, asked.narrow.dropped, question.top, {}, {}});
        result->ends.reserve(count_of(inputs));
        result->labels.reserve(count_of(inputs) * static_cast<std::size_t>(asked.k));
        for_batches(count_of(inputs), [&](std::size_t first, std::size_t count) {
            for (const auto& of_text : rank(stage(inputs, first, count), asked)) result->add(of_text);
        });
        return result;
    }

    // The labels of a ranking that are answered; those that are dropped are removed from it.
    std::vector<Prediction> answer(std::vector<ScoredLabel>& ranked, const std::vector<std::int64_t>& dropped,
                                   std::int64_t top, const LabelCuts& least) const {
        remove_filtered(ranked, std::span<const std::int64_t>(dropped), top);
        std::vector<Prediction> result;
        result.reserve(ranked.size());
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
    std::int64_t depth;  // labels that are ranked: config.top of them are answered
    EncoderSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;
    bool takes_features;  // numbers of a bag of words, instead of texts
    std::int64_t max_length, windows;
    std::vector<std::string_view> names;
    AnswerScope scope;
    std::optional<Calibration> stored;
    Platt platt;
    LabelCuts cuts;
    bool given_top = given(config, "top"), cuts_at_all = has_threshold(config);
    std::int64_t cut = 0;  // texts that may have more labels above the threshold than were ranked
    LabelRanker ranker;
    Context context;
    mutable std::atomic<bool> warned = false;  // of a text of the other kind
    mutable std::atomic<bool> warned_of_unknown = false;
    TokenizedTexts batch;       // the running one
    std::vector<Bf16> rounded;  // vectors of the running batch
    mutable std::once_flag index_made, counts_read;
    mutable std::optional<LabelIndex> labels_by_name;
    mutable std::vector<std::int64_t> train_rows;
};

Config resolve_prediction(const Config& config) {
    Config result = config;
    if (has_threshold(config) && !given(config, "top"))
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
std::int64_t Predictor::top() const {
    return impl_->config.top;
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
std::vector<std::int64_t> Predictor::find_label(const std::string& label, const std::string& what) const {
    return impl_->index().find(label, what);
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

std::optional<std::vector<NearText>> Predictor::nearest_texts(const std::string& text, std::int64_t limit) {
    if (!impl_->ranker.has_neighbours()) return std::nullopt;
    std::vector<NearText> result;
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
TokenizedTexts Predictor::tokenize(std::span<const std::string> texts) const {
    return impl_->tokenize(texts);
}
std::shared_ptr<const Rankings> Predictor::rank(const TokenizedTexts& texts, const Question& question) {
    return impl_->rank_all(texts, question);
}
std::shared_ptr<const Rankings> Predictor::rank(const Embeddings& vectors, const Question& question) {
    return impl_->rank_all(vectors, question);
}
std::vector<std::vector<Prediction>> Predictor::answer(const Rankings& rankings, std::int64_t first,
                                                       std::int64_t count) const {
    std::vector<std::vector<Prediction>> result;
    result.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = first; i < first + count; ++i) {
        auto ranked = rankings.of(static_cast<std::size_t>(i));
        result.push_back(impl_->answer(ranked, rankings.dropped, rankings.top, rankings.threshold));
    }
    return result;
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
        throw ConfigError("model: a linear model has no text vectors; train with --encoder bag or a folder");
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
