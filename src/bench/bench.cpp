// elmo bench: the time of a step and of its parts beside what this machine could do at best.
#include "elmo/bench.h"
#include "base/process_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "base/parallel.h"
#include "base/text_util.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "engine/full_length.h"
#include "engine/precision.h"
#include "engine/shapes.h"
#include "engine/step_cost.h"
#include "numerics/philox.h"
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
    std::function<void()> work;
};

// Runs the phases one after another, again and again, and fills times and costs. Nothing waits between the
// phases or the rounds of a group, as in training: times are marks on the backend's own clock. Two rounds go
// before, the second of them on the host's clock alone.
void measure(Backend& backend, const std::vector<Phase>& phases, std::int64_t iterations,
             BenchResult& result) {
    const auto marks = static_cast<std::int64_t>(phases.size()) + 1;
    const std::int64_t group = 480 / marks;
    std::vector<std::vector<double>> times(phases.size());
    std::vector<double> totals;
    const auto round = [&](std::int64_t slot) {
        const int first = static_cast<int>(slot * marks);
        backend.mark(first);
        for (std::size_t p = 0; p < phases.size(); ++p) {
            phases[p].work();
            backend.mark(first + static_cast<int>(p) + 1);
        }
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

// Texts of full length, random tokens.
struct RandomBatch {
    std::vector<std::int32_t> tokens, offsets;
    std::vector<Positive> positives;

    RandomBatch(std::int64_t batch, std::int64_t length, std::int64_t vocab, std::int64_t labels) {
        for (std::int64_t t = 0; t < batch * length; ++t)
            tokens.push_back(
                static_cast<std::int32_t>(noise_block(kTokens, t, 0)[0] % static_cast<std::uint64_t>(vocab)));
        for (std::int64_t b = 0; b <= batch; ++b) offsets.push_back(static_cast<std::int32_t>(b * length));
        for (std::int64_t i = 0; labels > 0 && i < batch * kPositivesPerText; ++i) {
            const PhiloxBlock noise = noise_block(kLabels, i, 0);
            const std::uint64_t word = std::uint64_t{noise[1]} << 32 | noise[0];
            positives.push_back({static_cast<std::int64_t>(word % static_cast<std::uint64_t>(labels)),
                                 static_cast<std::int32_t>(i / kPositivesPerText)});
        }
        const auto key = [](const Positive& p) { return std::pair(p.label, p.sample); };
        std::sort(positives.begin(), positives.end(),
                  [&](const Positive& a, const Positive& b) { return key(a) < key(b); });
        const auto same = [&](const Positive& a, const Positive& b) { return key(a) == key(b); };
        positives.erase(std::unique(positives.begin(), positives.end(), same), positives.end());
    }
};

// Compensated rows spread evenly over the labels.
void start_compensation(Head& head) {
    const std::int64_t rows = head.compensation().rows();
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(head.labels() * i / rows);
    head.compensation().start(labels);
}

// The whole step, or the encoder's part of it.
void bench_model(const Context& context, const Config& config, bool with_head, BenchResult& result) {
    const EncoderSpec spec = spec_without_data(config);
    Config sized = config;
    if (!with_head) sized.labels = 1;
    RunShape shape = full_length_shape(context, sized, spec);
    shape.top_k = 0;
    Session session(context, sized, spec, shape);
    session.allocate();
    session.encoder().initialise(config.seed);
    session.head().initialise(config.seed);
    start_compensation(session.head());
    result.device = session.backend().describe();
    result.memory = session.plan();

    const RandomBatch batch(shape.batch, shape.longest, spec.vocab, sized.labels);
    const TextBatch texts{batch.tokens, batch.offsets};
    const View head_grad_BD = session.head_grad(shape.batch), embed_grad_BD = session.embed_grad(shape.batch);
    Encoder& encoder = session.encoder();
    View embed_BD;
    std::uint64_t step = 0;
    AdamWSettings adamw;
    adamw.lr = static_cast<float>(config.encoder_lr);
    adamw.seed = config.seed;
    adamw.t = 0;

    // The baseline's weights stay as they are: one batch again and again would drive dx beyond FP16 at every
    // loss scale that was found, and skipped steps do less.
    const float head_lr = session.renee() != nullptr ? 0.0f : static_cast<float>(config.head_lr);
    // Whether the step was skipped: then there is no gradient.
    const auto head_step = [&] {
        const HeadStepResult done = session.head_step(embed_BD, batch.positives, head_lr,
                                                      static_cast<float>(config.head_weight_decay),
                                                      config.seed, step, false, head_grad_BD);
        if (!done.skipped) session.backend().cast(embed_grad_BD, head_grad_BD);
        return done.skipped;
    };
    if (with_head && session.renee() != nullptr) {
        // Its loss scale comes down to what FP16 holds before anything is measured.
        session.backend().begin_batch(texts.tokens, texts.offsets);
        embed_BD = encoder.forward(texts, true, config.seed, ++step);
        while (head_step()) ++step;
    }

    std::vector<Phase> phases;
    phases.push_back(
        {"encoder forward", encoder_forward_cost(encoder, shape.batch, shape.tokens, shape.longest), [&] {
             session.backend().begin_batch(texts.tokens, texts.offsets);
             embed_BD = encoder.forward(texts, true, config.seed, ++step);
         }});
    if (with_head) phases.push_back({"head", head_step_cost(session, shape.batch), [&] { head_step(); }});
    phases.push_back({"encoder backward and update",
                      encoder_backward_cost(encoder, shape.batch, shape.tokens, shape.longest), [&] {
                          ++adamw.t;
                          encoder.backward_and_update(texts, embed_grad_BD, adamw);
                      }});
    measure(session.backend(), phases, config.steps > 0 ? config.steps : 10, result);
    if (session.renee() != nullptr) result.skipped_steps = session.renee()->skipped_steps();
    result.items_per_second = 1e3 * static_cast<double>(shape.batch) / result.median_ms;
    compare_with_machine(session.backend(), spec.dtype, result);
}

// Texts through the encoder, and the best `top` labels of each: what evaluation and prediction do.
void bench_predict(const Context& context, const Config& config, BenchResult& result) {
    const EncoderSpec spec = spec_without_data(config);
    RunShape shape = full_length_shape(context, config, spec);
    shape.training = false;
    shape.top_k = std::min(config.top, shape.labels);
    Session session(context, config, spec, shape);
    session.allocate();
    session.encoder().initialise(config.seed);
    session.head().initialise(config.seed);
    result.device = session.backend().describe();
    result.memory = session.plan();

    const RandomBatch batch(shape.batch, shape.longest, spec.vocab, 0);
    const TextBatch texts{batch.tokens, batch.offsets};
    View embed_BD;
    Cost ranking = head_step_cost(session.head(), shape.batch);
    ranking.flops /= 3;
    ranking.bytes = static_cast<double>(session.head().weights().bytes());
    measure(session.backend(),
            {{"encoder forward",
              encoder_forward_cost(session.encoder(), shape.batch, shape.tokens, shape.longest),
              [&] {
                  session.backend().begin_batch(texts.tokens, texts.offsets);
                  embed_BD = session.encoder().forward(texts, false, config.seed, 0);
              }},
             {"head", ranking, [&] { session.head().topk(embed_BD, shape.top_k); }}},
            config.steps > 0 ? config.steps : 10, result);
    result.items_per_second = 1e3 * static_cast<double>(shape.batch) / result.median_ms;
    compare_with_machine(session.backend(), spec.dtype, result);
}

void bench_head(const Context& context, const Config& config, BenchResult& result) {
    if (config.labels < 1)
        throw ConfigError("labels: expected the number of labels, found none; give --labels");
    if (config.precision == "renee")
        throw ConfigError("precision: renee is measured as a whole, found bench head; use 'elmo bench step'");
    const std::int64_t width = spec_without_data(config).width;
    const auto backend = make_backend(context, config);
    Workload workload;
    workload.batch = config.batch_size;
    workload.width = width;
    workload.labels = config.labels;
    const HeadFormat format = head_format(head_options(config));
    workload.head_dtype = format.dtype;
    workload.head_row_exponents = format.grid.row_scaled;
    workload.head_packed = format.is_packed();
    workload.positives = workload.batch * kPositivesPerText;
    workload.chunks = config.chunks > 0 ? config.chunks : backend->preferred_chunks(workload);
    Head head(config.labels, width, format, workload.chunks, *backend,
              {compensated_labels(config, config.labels), static_cast<float>(config.weight_dropout)});
    View x_BD, dx_BD;
    const auto lay_out = [&](Arena& arena) {
        head.allocate(arena);
        backend->reserve(arena, workload);
        backend->reserve_head(arena, workload);
        x_BD = arena.allocate("step/embed", DType::kBf16, workload.batch, width);
        dx_BD = arena.allocate("step/grad_embed_f32", DType::kF32, workload.batch, width);
    };
    MemoryReport plan;
    {
        Arena dry;
        lay_out(dry);
        plan.segments = dry.segments();
        plan.arena_bytes = dry.peak_bytes();
        if (backend->host_memory()) plan.program_bytes = context.start_bytes() + kLibraryBytes;
    }
    require_free_memory(plan, *backend);
    Arena arena(backend->allocate(plan.arena_bytes));
    lay_out(arena);
    head.initialise(config.seed);
    start_compensation(head);
    backend->fill_normal({x_BD, 0.3f, kInputs, kInputs, 0});
    result.device = backend->describe();
    result.memory = plan;

    const RandomBatch batch(workload.batch, 1, 2, config.labels);
    std::uint64_t step = 0;
    measure(*backend,
            {{"head", head_step_cost(head, workload.batch),
              [&] {
                  head.step(x_BD, batch.positives, static_cast<float>(config.head_lr),
                            static_cast<float>(config.head_weight_decay), config.seed, ++step, false, dx_BD);
              }}},
            config.steps > 0 ? config.steps : 10, result);
    result.items_per_second = 1e3 * static_cast<double>(workload.batch) / result.median_ms;
    compare_with_machine(*backend, head.dtype(), result);
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

// Texts of 100 to 600 bytes: words by Zipf's law, one in twenty made of two (so that it has to be split),
// commas and full stops.
std::vector<std::string> sample_texts(const std::vector<std::string>& words, std::int64_t bytes) {
    std::vector<std::string> texts(1);
    std::int64_t written = 0;
    for (std::int64_t i = 0; written < bytes; ++i) {
        const PhiloxBlock noise = noise_block(kTokens, i, 0);
        const auto pick = [&](std::uint32_t bits) {
            const double u = static_cast<double>(bits) * 0x1p-32;
            return words[static_cast<std::size_t>(std::pow(static_cast<double>(words.size()), u)) - 1];
        };
        std::string& text = texts.back();
        const std::size_t before = text.size();
        text += pick(noise[0]);
        if (noise[1] % 20 == 0) text += pick(noise[2]);
        text += noise[1] % 13 == 0 ? ", " : noise[1] % 29 == 0 ? ". " : " ";
        written += static_cast<std::int64_t>(text.size() - before);
        if (text.size() > 100 + noise[3] % 500) texts.emplace_back();
    }
    return texts;
}

void bench_tokenize(const Context& context, const Config& config, BenchResult& result) {
    if (config.tokenizer == "auto" && config.encoder == "bag")
        throw ConfigError("tokenizer: expected a folder or a tokenizer.json, found none; give --tokenizer");
    const auto tokenizer = open_tokenizer(context, config);
    const std::vector<std::string> words = words_of(*tokenizer);
    if (words.empty()) throw DataError("the tokenizer's vocabulary has no words of a to z to make texts of");
    const std::vector<std::string> texts = sample_texts(words, std::int64_t{8} << 20);
    double bytes = 0;
    for (const std::string& text : texts) bytes += static_cast<double>(text.size());
    result.device = "cpu";
    const auto clock = make_reference_backend();
    measure(*clock,
            {{"tokenize",
              {},
              [&] {
                  context.threads().parallel_ranges(static_cast<std::int64_t>(texts.size()), 256,
                                                    [&](std::int64_t begin, std::int64_t end) {
                                                        std::vector<std::int32_t> ids;
                                                        for (std::int64_t i = begin; i < end; ++i)
                                                            tokenizer->encode(texts[i], config.max_length,
                                                                              ids);
                                                    });
              }}},
            config.steps > 0 ? config.steps : 5, result);
    result.phases.clear();
    result.items_per_second = 1e3 * bytes / result.median_ms;
    result.measured_peak_bytes = peak_resident_bytes();
}

}  // namespace

BenchResult bench(const Context& given_context, const std::string& what, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    const Config config = resolve_plan(context, given);
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
