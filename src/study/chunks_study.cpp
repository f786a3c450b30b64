// elmo study chunks: time and memory of a training step against the number of label chunks.
#include <fmt/format.h>

#include <cmath>

#include "elmo/bench.h"
#include "elmo/context.h"
#include "elmo/messages.h"
#include "study/engines.h"

namespace elmo {
namespace {

constexpr double kGiB = 1 << 30;

}  // namespace

Study chunks_study(const Context& context, const StudyRequest& request) {
    Study study;
    study.name = request.name;
    study.title = "Step time and memory against the number of chunks";
    Table table{"chunks",
                "",
                {{"chunks", "chunks"},
                 {"step_ms", "step, ms", 3},
                 {"step_min_ms", "fastest, ms", 3},
                 {"step_max_ms", "slowest, ms", 3},
                 {"head_ms", "head, ms", 3},
                 {"encoder_ms", "encoder, ms", 3},
                 {"planned_gib", "planned, GiB", 3},
                 {"taken_gib", "taken, GiB", 3}},
                {}};
    LineChart time{"Time of a step",
                   "Median; a step is forward, head, backward and update.",
                   {"chunks", true},
                   {"milliseconds"},
                   {{"step", {}, false}, {"head", {}, false}, {"encoder", {}, false}}};
    LineChart memory{
        "Memory of a step",
        "Planned: model and step, as the plan counts. Taken: memory of the run as the system reports it.",
        {"chunks", true},
        {"GiB"},
        {{"planned", {}, false}, {"taken", {}, false}}};
    std::string device;
    for (const std::int64_t chunks : values_or(request, {1, 2, 4, 8, 16, 32})) {
        Config config = request.config;
        config.chunks = chunks;
        context.info(fmt::format("{} {}", chunks, chunks == 1 ? "chunk" : "chunks"));
        reset_peak_resident();
        const BenchResult result = bench(context, "step", config);
        device = result.device;
        const auto x = static_cast<double>(chunks);
        const double planned = static_cast<double>(result.memory.total_bytes()) / kGiB;
        const double taken = static_cast<double>(result.measured_peak_bytes) / kGiB;
        table.rows.push_back({chunks, result.median_ms, result.min_ms, result.max_ms, result.head_ms,
                              result.encoder_ms, planned, taken});
        time.x.ticks.push_back(x);
        memory.x.ticks.push_back(x);
        time.series[0].points.push_back({x, result.median_ms});
        time.series[1].points.push_back({x, result.head_ms});
        time.series[2].points.push_back({x, result.encoder_ms});
        memory.series[0].points.push_back({x, planned});
        memory.series[1].points.push_back({x, taken});
    }
    table.caption = fmt::format("Measured on {}.", device);
    study.paragraphs = {
        "The head works on one chunk of its labels at a time. More chunks mean less memory for logits and "
        "gradients and more launches; the weights after a step are the same bit for bit.",
        fmt::format("Precision {}, encoder {}.", request.config.precision, request.config.encoder_precision)};
    study.charts = {time, memory};
    study.tables = {table};
    return study;
}

}  // namespace elmo
