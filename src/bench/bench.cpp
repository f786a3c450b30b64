// elmo bench: the time of a step and of its parts, beside the best that this machine could do.
#include "elmo/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "base/parallel.h"
#include "base/process_memory.h"
#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "engine/full_length.h"
#include "engine/precision.h"
#include "engine/shapes.h"
#include "engine/step_cost.h"
#include "engine/train_step.h"
#include "numerics/philox.h"
#include "ranks/collectives.h"
#include "text/spec.h"

namespace elmo {
namespace {

constexpr NoiseKey kTokens{1, 0, 0xbe00}, kLabels{1, 0, 0xbe01}, kInputs{1, 0, 0xbe02};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

struct Phase {
    std::string name;
    Cost cost;
};
// Runs the phases once, in order, and calls `done` at the end of each but the last.
using Round = std::function<void(const std::function<void()>& done)>;

// Runs the phases one after another, again and again, and fills times and costs. Nothing waits between the
// phases or the rounds of a group, as in training: times are marks on the backend's own clock. Two warm-up
// rounds come first, the second of them timed by the host's clock only.
void measure(Backend& backend, const std::vector<Phase>& phases, const Round& run, std::int64_t iterations,
             BenchResult& result) {
    const auto marks = static_cast<std::int64_t>(phases.size()) + 1;
    const std::int64_t group = 480 / marks;
    std::vector<std::vector<double>> times(phases.size());
    std::vector<double> totals;
    const auto round = [&](std::int64_t slot) {
        int mark = static_cast<int>(slot * marks);
        const auto done = [&] { backend.mark(mark++); };
        done();
        run(done);
        done();
    };
    round(0);
    backend.wait();
    const auto start = std::chrono::steady_clock::now();
    round(0);
    const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now() - start;
    result.host_ms = host.count();
    for (std::int64_t done = 0; done < iterations; done += group) {
        const std::int64_t now = std::min(group, iterations - done);
        for (std::int64_t i = 0; i < now; ++i) round(i);
        for (std::int64_t i = 0; i < now; ++i) {
            const int first = static_cast<int>(i * marks), last = first + static_cast<int>(marks) - 1;
            totals.push_back(backend.elapsed_ms(first, last));
            for (std::size_t p = 0; p < phases.size(); ++p)
                times[p].push_back(
                    backend.elapsed_ms(first + static_cast<int>(p), first + static_cast<int>(p) + 1));
        }
    }
    for (std::size_t p = 0; p < phases.size(); ++p) {
        result.phases.push_back(
            {phases[p].name, median(times[p]), phases[p].cost.flops, phases[p].cost.bytes});
        result.flops += phases[p].cost.flops;
        result.bytes += phases[p].cost.bytes;
        (phases[p].name == "head" ? result.head_ms : result.encoder_ms) += result.phases.back().median_ms;
    }
    result.median_ms = median(totals);
    result.min_ms = *std::min_element(totals.begin(), totals.end());
    result.max_ms = *std::max_element(totals.begin(), totals.end());
}

// The ceilings, after the step's own peak of memory was noted: measuring takes memory too.
void compare_with_machine(Backend& backend, DType storage, BenchResult& result) {
    result.measured_peak_bytes = backend.taken_bytes();
    const Ceilings ceilings = backend.measure_ceilings(storage, std::numeric_limits<std::int64_t>::max());
    if (ceilings.gflops <= 0) return;
    result.peak_gflops = ceilings.gflops;
    result.peak_gbytes = ceilings.gbytes;
    result.floor_ms = std::max(result.flops / result.peak_gflops, result.bytes / result.peak_gbytes) / 1e6;
    result.sol_percent = 100 * result.floor_ms / result.median_ms;
}

// Texts of full length, random tokens. `labels`: of all ranks; `own`: those of this one, whose positives it
// has.
struct RandomBatch {
    std::vector<std::int32_t> tokens, offsets;
    PositiveList positives;

    RandomBatch(std::int64_t batch, std::int64_t length, std::int64_t vocab, std::int64_t labels,
                ShareRange own) {
        for (std::int64_t t = 0; t < batch * length; ++t)
            tokens.push_back(
                static_cast<std::int32_t>(noise_block(kTokens, t, 0)[0] % static_cast<std::uint64_t>(vocab)));
        for (std::int64_t b = 0; b <= batch; ++b) offsets.push_back(static_cast<std::int32_t>(b * length));
        for (std::int64_t i = 0; labels > 0 && i < batch * kPositivesPerText; ++i) {
            const PhiloxBlock noise = noise_block(kLabels, i, 0);
            const std::uint64_t word = std::uint64_t{noise[1]} << 32 | noise[0];
            const auto label = static_cast<std::int64_t>(word % static_cast<std::uint64_t>(labels));
            if (label >= own.first && label < own.last)
                positives.push_back(label - own.first, static_cast<std::int32_t>(i / kPositivesPerText));
        }
        positives.sort();
    }
};

// Compensated rows spread evenly over the labels.
void start_compensation(Head& head) {
    const std::int64_t rows = head.compensation().rows();
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(head.labels() * i / rows);
    head.compensation().start(labels);
}

// Takes memory, starts at random, and fills the result's fields about both.
void start(Engine& engine, const Config& config, BenchResult& result) {
    engine.allocate();
    engine.initialise(config.seed);
    result.device = engine.backend().describe();
    result.memory = engine.plan();
}

std::int64_t rounds_of(const Config& config, std::int64_t usual = 10) {
    return config.steps > 0 ? config.steps : usual;
}

void finish(Engine& engine, DType storage, std::int64_t batch, BenchResult& result) {
    result.items_per_second = 1e3 * static_cast<double>(batch) / result.median_ms;
    compare_with_machine(engine.backend(), storage, result);
}

// The whole step, or the encoder's or the head's part of it.
void bench_step(const Context& context, const Config& config, const EngineParts& parts, const RunShape& shape,
                BenchResult& result) {
    Engine engine(context, config, parts, shape);
    start(engine, config, result);
    Encoder* const encoder = engine.staged_encoder();
    Head* const head = engine.staged_head();
    if (head != nullptr) start_compensation(*head);
    const bool baseline = head != nullptr && head->renee() != nullptr;

    // What the rank encodes, and what its labels meet.
    const bool cut = !shape.share.is_whole();
    const std::int64_t texts = cut ? shape.texts : shape.batch;
    const std::int64_t own_texts = cut ? shape.rank_texts : texts, own_tokens = own_texts * shape.longest;
    const std::int64_t labels = cut ? shape.labels : head ? head->labels() : 0;
    const RandomBatch batch(texts, encoder ? shape.longest : 1, encoder ? encoder->spec().vocab : 2, labels,
                            shape.share.own_labels(labels));
    StepInput in;
    in.texts = {batch.tokens, batch.offsets};
    in.positives = batch.positives;
    in.seed = config.seed;
    // The baseline's weights stay as they are: one batch again and again would drive dx beyond FP16 at every
    // loss scale that was found, and skipped steps do less.
    in.head_lr = baseline ? 0.0f : static_cast<float>(config.head_lr);
    in.head_weight_decay = static_cast<float>(config.head_weight_decay);
    in.encoder.adamw.lr = static_cast<float>(config.encoder_lr);
    in.encoder.adamw.seed = config.seed;
    in.encoder.adamw.t = 0;
    if (encoder == nullptr) {
        in.x_BD = engine.text_vectors(shape.batch);
        engine.backend().fill_normal({in.x_BD, 0.3f, kInputs, kInputs, 0});
    }
    const auto step = [&] {
        ++in.step;
        ++in.encoder.adamw.t;
        return train_step(engine, in);
    };
    if (baseline)  // its loss scale comes down to what FP16 holds before anything is measured
        while (step().head.skipped) continue;

    std::vector<Phase> phases;
    if (encoder != nullptr)
        phases.push_back(
            {"encoder forward", encoder_forward_cost(*encoder, own_texts, own_tokens, shape.longest)});
    if (head != nullptr) phases.push_back({"head", head_step_cost(*head, texts)});
    if (encoder != nullptr)
        phases.push_back({"encoder backward and update",
                          encoder_backward_cost(*encoder, own_texts, own_tokens, shape.longest)});
    const Round round = [&](const std::function<void()>& done) {
        if (encoder != nullptr) in.before_head = [&](View) { done(); };
        if (encoder != nullptr && head != nullptr) in.after_head = [&](const HeadStepResult&) { done(); };
        step();
    };
    measure(engine.backend(), phases, round, rounds_of(config), result);
    if (baseline) result.skipped_steps = head->renee()->skipped_steps();
    finish(engine, encoder != nullptr ? encoder->spec().dtype : head->dtype(), texts, result);
}

void bench_model(const Context& context, const Config& config, bool with_head, BenchResult& result) {
    const EncoderSpec spec = spec_without_data(config);
    Config sized = config;
    if (!with_head) sized.labels = 1;
    RunShape shape = full_length_shape(context, sized, spec);
    shape.top_k = 0;
    EngineParts parts{spec, std::nullopt};
    if (with_head) {
        const Ranks& ranks = ranks_of(context);
        const RankShare share{ranks.rank(), ranks.size(), config.label_groups, config.batch_shards};
        parts = training_parts(config, spec, config.labels, share);
        shape = shared_shape(shape, share, config.labels);
    }
    bench_step(context, sized, parts, shape, result);
}

void bench_head(const Context& context, const Config& config, BenchResult& result) {
    if (config.labels < 1)
        throw ConfigError("labels: expected the number of labels, found none; give --labels");
    if (config.precision == "renee")
        throw ConfigError("precision: renee is measured as a whole, found bench head; use 'elmo bench step'");
    RunShape shape;
    shape.batch = config.batch_size;
    shape.positives = shape.batch * kPositivesPerText;
    const std::int64_t width = spec_without_data(config).width;
    bench_step(context, config, {std::nullopt, trained_head(config, config.labels, width)}, shape, result);
}

// Whole words of a vocabulary, frequent ones first where it is ordered so, as BERT's is.
std::vector<std::string> words_of(const Tokenizer& tokenizer) {
    std::vector<std::string> words;
    for (const NamedId& entry : read_tokenizer_json(tokenizer.to_json(), "tokenizer.json").vocab) {
        std::string word = entry.token;
        if (word.rfind("\xc4\xa0", 0) == 0) word.erase(0, 2);  // how byte-level BPE writes a space
        const bool plain = std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
        if (plain && word.size() > 1) words.push_back(std::move(word));
    }
    return words;
}

// Adds the next word to a text: by Zipf's law, one in twenty made of two (so that it has to be split), with
// commas and full stops.
void add_word(const std::vector<std::string>& words, const PhiloxBlock& noise, std::string& text) {
    const auto pick = [&](std::uint32_t bits) {
        const double u = static_cast<double>(bits) * 0x1p-32;
        return words[static_cast<std::size_t>(std::pow(static_cast<double>(words.size()), u)) - 1];
    };
    text += pick(noise[0]);
    if (noise[1] % 20 == 0) text += pick(noise[2]);
    text += noise[1] % 13 == 0 ? ", " : noise[1] % 29 == 0 ? ". " : " ";
}

// Texts of 100 to 600 bytes.
std::vector<std::string> sample_texts(const std::vector<std::string>& words, std::int64_t bytes) {
    std::vector<std::string> texts(1);
    std::int64_t written = 0;
    for (std::int64_t i = 0; written < bytes; ++i) {
        const PhiloxBlock noise = noise_block(kTokens, i, 0);
        std::string& text = texts.back();
        const std::size_t before = text.size();
        add_word(words, noise, text);
        written += static_cast<std::int64_t>(text.size() - before);
        if (text.size() > 100 + noise[3] % 500) texts.emplace_back();
    }
    return texts;
}

bool has_tokenizer(const Config& config) {
    return config.tokenizer != "auto" || is_encoder_folder(config.encoder);
}

// The tokenizer of the configuration, and the words of which texts are made for it.
struct SampleTokenizer {
    SampleTokenizer(const Context& context, const Config& config)
        : tokenizer(open_tokenizer(context, config)), words(words_of(*tokenizer)) {
        if (words.empty())
            throw DataError("the tokenizer's vocabulary has no words of a to z to make texts of");
    }
    std::unique_ptr<Tokenizer> tokenizer;
    std::vector<std::string> words;
};

// All texts, again and again, by all threads.
void measure_tokenizing(const Context& context, const Config& config, const Tokenizer& tokenizer,
                        const std::vector<std::string>& texts, std::int64_t at_once, std::int64_t rounds,
                        BenchResult& result) {
    const auto tokenize_all = [&](const std::function<void()>&) {
        context.threads().parallel_ranges(static_cast<std::int64_t>(texts.size()), at_once,
                                          [&](std::int64_t begin, std::int64_t end) {
                                              std::vector<std::int32_t> ids;
                                              for (std::int64_t i = begin; i < end; ++i)
                                                  tokenizer.encode(texts[i], config.max_length, ids);
                                          });
    };
    measure(*make_reference_backend(), {{"tokenize", {}}}, tokenize_all, rounds, result);
}

// The time in which all threads make tokens of a batch of texts that have about `length` of them.
double tokenize_batch_ms(const Context& context, const Config& config, std::int64_t batch,
                         std::int64_t length) {
    constexpr std::int64_t kSpecial = 2;  // tokens around a text
    const SampleTokenizer sample(context, config);
    std::vector<std::string> texts(static_cast<std::size_t>(batch));
    for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t i = 0; i < std::max<std::int64_t>(length - kSpecial, 1); ++i)
            add_word(sample.words, noise_block(kTokens, b * length + i, 0),
                     texts[static_cast<std::size_t>(b)]);
    BenchResult result;
    measure_tokenizing(context, config, *sample.tokenizer, texts, 8, rounds_of(config, 50), result);
    return result.median_ms;
}

// Texts through the encoder, and the best `top` labels of each: what evaluation and prediction do.
void bench_predict(const Context& context, const Config& config, BenchResult& result) {
    const EncoderSpec spec = spec_without_data(config);
    RunShape shape = full_length_shape(context, config, spec);
    shape.training = false;
    shape.top_k = std::min(config.top, config.labels);
    Engine engine(context, config, {spec, plain_head(config, config.labels, spec.width)}, shape);
    start(engine, config, result);

    const RandomBatch batch(shape.batch, shape.longest, spec.vocab, 0, {});
    Cost ranking = head_step_cost(engine.head(), shape.batch);
    ranking.flops /= 3;
    ranking.bytes = static_cast<double>(engine.head().weights().bytes());
    measure(
        engine.backend(),
        {{"encoder forward",
          encoder_forward_cost(engine.encoder(), shape.batch, shape.tokens, shape.longest)},
         {"head", ranking}},
        [&](const std::function<void()>& done) {
            const View x_BD = engine.encoder().forward({batch.tokens, batch.offsets}, false, config.seed, 0);
            done();
            engine.head().topk(x_BD, shape.top_k);
        },
        rounds_of(config), result);
    if (has_tokenizer(config)) {
        result.tokenize_ms = tokenize_batch_ms(context, config, shape.batch, shape.longest);
        // A device works while the host tokenizes the next batch.
        const double both = engine.backend().host_memory() ? result.median_ms + result.tokenize_ms
                                                           : std::max(result.median_ms, result.tokenize_ms);
        result.texts_per_second = 1e3 * static_cast<double>(shape.batch) / both;
    }
    finish(engine, spec.dtype, shape.batch, result);
}

void bench_tokenize(const Context& context, const Config& config, BenchResult& result) {
    if (!has_tokenizer(config))
        throw ConfigError("tokenizer: expected a folder or a tokenizer.json, found none; give --tokenizer");
    const SampleTokenizer sample(context, config);
    const std::vector<std::string> texts = sample_texts(sample.words, std::int64_t{8} << 20);
    double bytes = 0;
    for (const std::string& text : texts) bytes += static_cast<double>(text.size());
    result.device = "cpu";
    measure_tokenizing(context, config, *sample.tokenizer, texts, 256, rounds_of(config, 5), result);
    result.phases.clear();
    result.items_per_second = 1e3 * bytes / result.median_ms;
    result.measured_peak_bytes = peak_resident_bytes();
}

}  // namespace

BenchResult bench(const Context& given_context, const std::string& what, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    if (given.encoder == kLinearEncoder)
        throw ConfigError(
            "encoder: bench measures encoders that are trained in steps, found linear; give bag or a folder");
    Config plain = given;
    if (plain.encoder == "auto" && (plain.shape.empty() || !plain.data.empty())) plain.encoder = "bag";
    const int ranks = ranks_of(context).size();
    if (plain.ranks > 1 && plain.ranks != ranks)
        throw ConfigError(
            fmt::format("ranks: expected as many as were started, {}, found {}; start them with "
                        "'mpirun -n {} elmo bench step'",
                        ranks, plain.ranks, plain.ranks));
    plain.ranks = ranks;
    const Config config = resolve_plan(context, plain);
    BenchResult result;
    result.what = what;
    result.threads = context.num_threads();
    if (what == "step") {
        bench_model(context, config, true, result);
    } else if (what == "encoder") {
        bench_model(context, config, false, result);
    } else if (what == "head") {
        bench_head(context, config, result);
    } else if (what == "predict") {
        bench_predict(context, config, result);
    } else if (what == "tokenize") {
        bench_tokenize(context, config, result);
    } else {
        throw ConfigError(fmt::format("bench: expected step, head, encoder, predict or tokenize, found '{}'",
                                      quoted(what)));
    }
    return result;
}

}  // namespace elmo
