// elmo study memory: what a step holds, by segment and phase, and how its peak grows with the labels.
// Everything is planned, which needs neither data nor GPU. --measure also runs the steps that fit and shows
// their measured memory.
#include <fmt/format.h>

#include <algorithm>

#include "config/resolve.h"
#include "elmo/bench.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/plan.h"
#include "elmo/resolve.h"
#include "study/engines.h"
#include "study/timeline.h"

namespace elmo {
namespace {

struct Mode {
    const char *name, *precision, *encoder_precision;
};
constexpr Mode kModes[] = {
    {"fp32", "fp32", "fp32"}, {"renee", "renee", ""}, {"bf16", "bf16", ""}, {"8 bits", "e3m4", ""}};

// The study's configuration with another head, without what was given that this one would refuse.
Config with_head(const Config& asked, const char* precision) {
    Config config = with_plain_head(asked);
    const auto reset = [&](OptionKey key) { copy_option(config, Config(), key); };
    config.precision = precision;
    if (config.precision == "renee") {
        for (const OptionKey key : {OptionKey("chunks"), OptionKey("accumulate"), OptionKey("batch_shards"),
                                    OptionKey("label_groups"), OptionKey("ranks"), OptionKey("head_memory")})
            reset(key);
    } else if (config.encoder_precision == "fp16" && !config.freeze_encoder) {
        reset("encoder_precision");  // needs the loss scale of renee
    }
    return config;
}

Config with_mode(const Config& asked, const Mode& mode, std::int64_t labels) {
    Config config = with_head(asked, mode.precision);
    if (*mode.encoder_precision != '\0') {
        config.encoder_precision = mode.encoder_precision;
        copy_option(config, Config(), "encoder_state");  // 8 bits are beside weights in BF16
    }
    config.labels = labels;
    config.data.clear();
    return config;
}

// Measured memory of a step, in bytes; -1 if it cannot run here, with a log line.
std::int64_t measured_bytes(const Context& context, Config config, const std::string& name) {
    config.steps = 1;
    reset_peak_resident();
    try {
        context.info(fmt::format("running a step: {}", name));
        return bench(context, "step", config).measured_peak_bytes;
    } catch (const OutOfMemory&) {
        context.info(fmt::format("{}: does not fit this machine, planned only", name));
    } catch (const ConfigError& error) {
        context.info(fmt::format("{}: planned only: {}", name, error.what()));
    }
    return -1;
}

// The peak against the number of labels, in each mode.
void add_peaks(const Context& context, const StudyRequest& request, Study& study) {
    const bool measure = setting(request, "measure") == "true";
    Table table{"peaks",
                "Peak memory of a step against the number of labels. Empty: planned only.",
                {{"labels", "labels"},
                 {"mode", "mode"},
                 {"planned_gib", "planned, GiB", 2},
                 {"measured_gib", "measured, GiB", 2},
                 {"bytes_a_label", "bytes per label", 0}},
                {}};
    LineChart chart{
        "Peak against the number of labels",
        measure ? "Filled: measured. Hollow: planned, where the machine cannot hold it." : "Planned.",
        {"labels", true},
        {"GiB", true},
        {}};
    const std::vector<std::int64_t> counts =
        values_or(request, {131'073, 670'091, 1'305'265, 2'812'281, 8'623'847, 18'000'000});
    for (const Mode& mode : kModes) {
        chart.series.push_back({mode.name, {}, false});
        for (const std::int64_t labels : counts) {
            const Config config = with_mode(request.config, mode, labels);
            const std::int64_t planned = plan_memory(context, config).total_bytes();
            const std::string name = fmt::format("{}, {} labels", mode.name, with_commas(labels));
            const std::int64_t taken = measure ? measured_bytes(context, config, name) : -1;
            table.rows.push_back({labels, std::string(mode.name), gib(planned), Cell{},
                                  static_cast<double>(planned) / static_cast<double>(labels)});
            if (taken >= 0) table.rows.back()[3] = gib(taken);
            chart.series.back().points.push_back(
                {static_cast<double>(labels), gib(taken >= 0 ? taken : planned),
                 fmt::format("{}: {:.2f} GiB ({})", name, gib(taken >= 0 ? taken : planned),
                             taken >= 0 ? "measured" : "planned"),
                 taken < 0});
        }
    }
    study.charts.push_back(chart);
    study.tables.push_back(table);
}

}  // namespace

Study memory_study(const Context& context, const StudyRequest& given) {
    StudyRequest request = given;
    Config& config = request.config;
    config = resolve_plan(context, config);
    const MemoryReport plan = plan_memory(context, config);
    const Timeline timeline = timeline_of(plan);
    Study study;
    study.name = request.name;
    study.title = "Memory of a training step";
    study.paragraphs = {fmt::format("{} on {}: {:.2f} GiB at the peak, head in {} {}, recompute {}.",
                                    config.shape.empty() ? "This configuration" : config.shape, plan.device,
                                    gib(plan.arena_bytes), plan.chunks, plan.chunks == 1 ? "chunk" : "chunks",
                                    plan.recompute),
                        "Planned figures are exact: the code that plans is the code that allocates. The "
                        "baseline renee runs in one process, on whole batches; it keeps FP32 weights and "
                        "momentum, an FP16 copy of the weights, FP16 "
                        "logits of all labels, and while it updates the gradient of the weights in FP16 and "
                        "in FP32."};
    study.charts = {chart_of(timeline, config.precision)};
    study.tables = {table_of(timeline, "timeline", config.precision)};
    if (config.precision != "renee") {
        Config other = with_head(config, "renee");
        other.max_memory.clear();
        const Timeline baseline = timeline_of(plan_memory(context, other));
        study.charts.push_back(chart_of(baseline, "renee"));
        study.tables.push_back(table_of(baseline, "timeline_renee", "renee"));
    }
    request.config.max_memory.clear();  // the peaks are what each mode needs without a limit
    add_peaks(context, request, study);
    return study;
}

}  // namespace elmo
