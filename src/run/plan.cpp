// elmo plan: the memory of a training run without running it, an estimate of its time, and what else would
// fit.
#include "elmo/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "elmo/error.h"
#include "engine/full_length.h"
#include "engine/shapes.h"
#include "engine/step_cost.h"
#include "run/linear_plan.h"
#include "run/resolve.h"
#include "run/run_data.h"

namespace elmo {
namespace {

// What a plan is made from.
struct Planned {
    Config config;
    EncoderSpec spec;
    std::int64_t labels = 0;
    RunShape shape;
    std::int64_t steps = 0;         // 0: not known
    double tokens_per_text = 0;     // 0: not known, and texts have full length
    RankShare share = {};           // of the planned rank
    std::int64_t compensated = -1;  // its labels with a compensation; -1: the share that the options name
    std::int64_t kept_bytes = 0;    // vectors of a frozen encoder, which then runs in the first epoch
    double first_epoch = 1;         // its share of the steps
};

Planned planned_rank(const Context& context, const RunData& data) {
    Planned run;
    run.config = data.config();
    run.spec = data.encoder_spec();
    run.labels = data.dataset().num_labels();
    run.shape = data.shape(context, kRankedInTraining);
    run.share = data.share(context);
    if (!run.share.is_alone()) run.compensated = data.parts(context).head->extras.compensated_rows;
    run.steps = data.total_steps();
    run.tokens_per_text = data.summary().tokens_per_row;
    if (run.share.is_whole()) run.kept_bytes = data.kept_vector_bytes();
    run.first_epoch = std::min(1.0, static_cast<double>(data.train().steps_per_epoch()) /
                                        static_cast<double>(std::max<std::int64_t>(run.steps, 1)));
    return run;
}

Planned planned_rank(const Context& context, const Config& config, std::int64_t rank) {
    Planned run;
    run.config = config;
    run.spec = spec_without_data(config);
    run.labels = config.labels;
    run.share = {rank, config.ranks, config.label_groups, config.batch_shards};
    run.shape = shared_shape(full_length_shape(context, config, run.spec), run.share, run.labels);
    run.steps = config.steps;
    return run;
}

// `keeps`: whether there is room for the vectors.
Engine engine_of(const Context& context, const Planned& run, bool* keeps = nullptr) {
    EngineParts parts = training_parts(run.config, run.spec, run.labels, run.share);
    if (run.compensated >= 0) parts.head->extras.compensated_rows = run.compensated;
    Engine engine(context, run.config, parts, run.shape);
    const bool held = engine.hold(run.kept_bytes);
    if (keeps != nullptr) *keeps = held && run.kept_bytes > 0;
    return engine;
}

// Makes the plans of one run, with its batch size and with others.
class Planner {
  public:
    Planner(const Context& context, const Config& given) : context_(context) {
        const Config shaped = with_init(with_shape(given));
        if (!shaped.data.empty()) {
            data_.emplace(context, resolve_before_data(context, shaped, nullptr), nullptr);
            config_ = data_->config();
            if (is_linear() && config_.ranks > 1)
                throw ConfigError(
                    fmt::format("ranks: encoder linear trains in one process, found {} ranks; give --encoder "
                                "bag or a folder",
                                config_.ranks));
        } else if (shaped.encoder == kLinearEncoder) {
            throw ConfigError(
                "encoder: the memory of linear depends on the texts; give --data, or --encoder bag");
        } else {
            config_ = resolve_without_data(context, shaped);
        }
    }

    const Config& config() const { return config_; }
    bool is_linear() const { return config_.encoder == kLinearEncoder; }
    MemoryReport linear() const { return plan_linear(context_, *data_); }

    // Of the ranks that may be the fullest: the first, which has tables of all labels, and of several ranks
    // one that has more labels.
    std::vector<Planned> ranks(std::int64_t batch_size) {
        std::vector<Planned> ranks = {rank(0, batch_size)};
        const Planned& first = ranks.front();
        if (!first.share.is_alone())
            ranks.push_back(
                rank(std::max<std::int64_t>(1, fullest_rank(first.share, first.labels)), batch_size));
        return ranks;
    }

  private:
    Planned rank(std::int64_t rank, std::int64_t batch_size) {
        if (!data_) {
            Config config = config_;
            config.batch_size = batch_size;
            return planned_rank(context_, config, rank);
        }
        data_->plan_rank(rank);
        data_->plan_batch(batch_size);
        return planned_rank(context_, *data_);
    }

    Context context_;
    std::optional<RunData> data_;
    Config config_;
};

std::int64_t total_bytes(const Context& context, const Planned& run) {
    return engine_of(context, run).plan().total_bytes();
}

const Planned& fullest(const Context& context, const std::vector<Planned>& ranks) {
    return *std::ranges::max_element(ranks, {},
                                     [&](const Planned& run) { return total_bytes(context, run); });
}

// The share of the measured ceilings that steps usually reach. Measured (bench/results): 43 to 90 % on CPUs,
// 29 to 56 % on an H200, where small steps take the time of their kernels instead: of the head, of the
// embeddings, of a layer with its gradients.
constexpr double kShareOnCpu = 0.6, kShareOnGpu = 0.45;
constexpr double kHeadKernelsMs = 0.1, kEmbeddingKernelsMs = 0.1, kLayerKernelsMs = 0.2;

// Zeros where the device is not here.
Ceilings ceilings_of(Backend& backend, DType storage) {
    try {
        return backend.measure_ceilings(storage, std::int64_t{256} << 20);
    } catch (const Error&) {
        return {};
    }
}

TimeEstimate estimate_time(const Engine& engine, const Planned& run, bool keeps) {
    TimeEstimate time;
    time.steps = run.steps;
    if (!run.share.is_alone()) {
        time.why_none = "that of several ranks depends on what lies between them";
        return time;
    }
    const Ceilings ceilings = ceilings_of(engine.backend(), run.spec.dtype);
    if (!(ceilings.gflops > 0 && ceilings.gbytes > 0)) {
        time.why_none = fmt::format("device {} is not here to be measured", run.config.device);
        return time;
    }
    const std::int64_t batch = run.shape.batch;
    const double per_text = run.tokens_per_text > 0
                                ? run.tokens_per_text
                                : static_cast<double>(run.shape.tokens) / static_cast<double>(batch);
    const auto tokens =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(per_text * static_cast<double>(batch)));
    const auto length = std::max<std::int64_t>(1, static_cast<std::int64_t>(per_text));
    const auto floor_ms = [&](const Cost& cost) {
        return std::max(cost.flops / ceilings.gflops, cost.bytes / ceilings.gbytes) / 1e6;
    };
    const double encoded = keeps ? run.first_epoch : 1;
    double encoder_ms = floor_ms(encoder_forward_cost(engine.encoder(), batch, tokens, length));
    if (!run.spec.frozen)
        encoder_ms += floor_ms(encoder_backward_cost(engine.encoder(), batch, tokens, length));
    const double floor = floor_ms(head_step_cost(engine.head(), batch)) + encoded * encoder_ms;
    if (engine.backend().host_memory())
        time.step_ms = floor / kShareOnCpu;
    else
        time.step_ms = std::max(
            floor / kShareOnGpu,
            kHeadKernelsMs +
                encoded * (kEmbeddingKernelsMs + kLayerKernelsMs * static_cast<double>(run.spec.layers)));
    time.texts_per_second = 1e3 * static_cast<double>(batch) / time.step_ms;
    time.seconds = 1e-3 * time.step_ms * static_cast<double>(run.steps);
    return time;
}

// Precisions that people choose between; the run's own is among them.
std::vector<std::string> precisions_for(const Config& config) {
    std::vector<std::string> names = {"bf16", "e2m5"};
    if (std::find(names.begin(), names.end(), config.precision) == names.end())
        names.insert(names.begin(), config.precision);
    return names;
}

// The ranks of a run with batches of another size; none where there are no such batches.
std::vector<Planned> ranks_with_batch(Planner& planner, std::int64_t batch_size) {
    Config config = planner.config();
    config.batch_size = batch_size;
    try {
        validate(config);
        return planner.ranks(batch_size);
    } catch (const ConfigError&) {
        return {};
    }
}

// The same run with another precision.
Planned with_precision(Planned run, const std::string& precision) {
    run.config.precision = precision;
    run.config.head_noise = "auto";
    if (!given(run.config, "head_kahan")) {
        run.config.head_kahan = "auto";
        run.compensated = -1;
    }
    validate(run.config);
    return run;
}

std::vector<PlanChoice> other_choices(const Context& context, Planner& planner,
                                      const std::vector<Planned>& planned, std::int64_t room) {
    const Config& config = planner.config();
    const std::int64_t batch = config.batch_size;
    std::vector<std::vector<Planned>> sizes;
    for (const std::int64_t size : {batch / 4, batch / 2, batch, batch * 2, batch * 4}) {
        std::vector<Planned> ranks = size == batch ? planned : ranks_with_batch(planner, size);
        if (!ranks.empty()) sizes.push_back(std::move(ranks));
    }
    std::vector<PlanChoice> choices;
    for (const std::string& precision : precisions_for(config))
        for (const std::vector<Planned>& ranks : sizes) {
            const bool own = precision == config.precision;
            PlanChoice choice{precision, ranks.front().config.batch_size};
            try {
                for (const Planned& run : ranks)
                    choice.bytes = std::max(choice.bytes,
                                            total_bytes(context, own ? run : with_precision(run, precision)));
            } catch (const ConfigError&) {  // what the run asks for, this precision does not have
                if (own) throw;
                continue;
            }
            choice.planned = own && choice.batch_size == batch;
            choice.fits = room == 0 || choice.bytes <= room;
            choices.push_back(std::move(choice));
        }
    return choices;
}

// As roughly as it is known.
std::string rough_duration(double seconds) {
    if (seconds < 90) return fmt::format("{:.0f} s", std::max(seconds, 1.0));
    if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

std::string time_text(const TimeEstimate& time) {
    if (time.step_ms == 0) return fmt::format("no estimate of the time: {}\n", time.why_none);
    std::string text = time.steps > 0 ? fmt::format("about {} for {} steps", rough_duration(time.seconds),
                                                    with_commas(time.steps))
                                      : std::string("about");
    const auto number = [](double value) {
        return value < 100 ? fmt::format("{:.3g}", value) : with_commas(static_cast<std::int64_t>(value));
    };
    const bool long_steps = time.step_ms >= 10000;
    text += fmt::format("{}{} {} per step, {} texts/s", time.steps > 0 ? ": " : " ",
                        number(long_steps ? time.step_ms / 1e3 : time.step_ms), long_steps ? "s" : "ms",
                        number(time.texts_per_second));
    return "time (an estimate, from the measured speed of this machine): " + text + "\n";
}

}  // namespace

MemoryReport plan_memory(const Context& given_context, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    Planner planner(context, given);
    if (planner.is_linear()) return planner.linear();
    return engine_of(context, fullest(context, planner.ranks(planner.config().batch_size))).plan();
}

PlanReport plan_training(const Context& given_context, const Config& given) {
    validate(given);
    const Context context = given_context.with_threads(given.threads);
    Planner planner(context, given);
    PlanReport report;
    if (planner.is_linear()) {
        report.memory = planner.linear();
        report.time.why_none = "a linear model is solved, not trained in steps; usually minutes at most";
        return report;
    }
    if (!planner.config().data.empty())  // else the linear model could not be meant
        for (const std::string& note : choice_notes(planner.config()))
            if (note.starts_with("encoder auto")) context.info(note);
    const std::vector<Planned> ranks = planner.ranks(planner.config().batch_size);
    const Planned& run = fullest(context, ranks);
    bool keeps = false;
    const Engine engine = engine_of(context, run, &keeps);
    report.memory = engine.plan();
    report.room_bytes = report.memory.max_bytes;
    if (report.room_bytes == 0 && engine.backend().host_memory())
        report.room_bytes = engine.backend().free_bytes();
    report.choices = other_choices(context, planner, ranks, report.room_bytes);
    report.time = estimate_time(engine, run, keeps);
    if (ranks.size() > 1) {
        report.first_rank_table_bytes = ranks.front().shape.table_bytes;
        report.other_rank_table_bytes = ranks.back().shape.table_bytes;
    }
    return report;
}

std::string PlanReport::describe() const {
    std::string text = memory.describe() + "\n";
    if (first_rank_table_bytes > 0)
        text +=
            fmt::format("tables of labels and texts in main memory: {} on the first rank, {} on another{}\n",
                        human_bytes(first_rank_table_bytes), human_bytes(other_rank_table_bytes),
                        memory.device == "cuda" ? "; not in the total" : "");
    text += time_text(time);
    if (choices.empty()) return text;
    text += fmt::format("\nmemory of other choices{}\n",
                        room_bytes == 0 ? std::string(" (--max-memory N shows which fit)")
                        : memory.max_bytes > 0
                            ? fmt::format("; '-': more than max_memory of {}", human_bytes(room_bytes))
                            : fmt::format("; '-': more than the {} free here", human_bytes(room_bytes)));
    std::string heading = fmt::format("{:<12}", "batch size");
    for (const PlanChoice& choice : choices)
        if (choice.precision == choices.front().precision)
            heading += fmt::format(" {:>14}", with_commas(choice.batch_size));
    text += heading + "\n";
    for (std::size_t i = 0; i < choices.size(); ++i) {
        if (i == 0 || choices[i].precision != choices[i - 1].precision)
            text += fmt::format("{:<12}", choices[i].precision);
        const std::string bytes = (choices[i].fits ? "" : "- ") + human_bytes(choices[i].bytes);
        text += fmt::format(" {:>14}", choices[i].planned ? "[" + bytes + "]" : bytes);
        if (i + 1 == choices.size() || choices[i + 1].precision != choices[i].precision) text += "\n";
    }
    return text;
}

}  // namespace elmo
