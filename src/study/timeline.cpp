#include "study/timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace elmo {
namespace {

// What is shown as one layer: tensors of the head by name, of the encoder by purpose.
std::string layer_of(const std::string& segment) {
    const auto starts = [&](const char* prefix) { return segment.rfind(prefix, 0) == 0; };
    if (starts("head/")) {
        std::string name = segment.substr(5);
        std::replace(name.begin(), name.end(), '_', ' ');
        return "head " + name;
    }
    for (const char* kept : {"encoder/weights", "encoder/first_moments", "encoder/second_moments",
                             "encoder/compensation", "encoder/moment_exponents"})
        if (starts(kept)) return "encoder weights and optimiser";
    if (starts("encoder/gradients") || starts("encoder/backward")) return "encoder backward and gradients";
    if (starts("encoder/")) return "encoder activations";
    return "scratch";
}

}  // namespace

double gib(std::int64_t bytes) {
    return static_cast<double>(bytes) / (1 << 30);
}

Timeline timeline_of(const MemoryReport& plan) {
    Timeline timeline;
    // Encoder first, then head, then scratch, each in the order of allocation: permanent memory is at the
    // bottom.
    for (const char* part : {"encoder", "head", "scratch"})
        for (const Segment& segment : plan.segments) {
            const std::string layer = layer_of(segment.name);
            if (layer.rfind(part, 0) == 0 &&
                std::count(timeline.layers.begin(), timeline.layers.end(), layer) == 0)
                timeline.layers.push_back(layer);
        }
    timeline.bytes.assign(timeline.layers.size(), std::vector<std::int64_t>(plan.phases.size(), 0));
    for (std::size_t p = 0; p < plan.phases.size(); ++p) {
        timeline.phases.push_back(plan.phases[p].name);
        timeline.totals.push_back(plan.phases[p].bytes);
        for (const std::size_t index : plan.phases[p].segments) {
            const Segment& segment = plan.segments[index];
            const auto layer =
                std::find(timeline.layers.begin(), timeline.layers.end(), layer_of(segment.name));
            timeline.bytes[static_cast<std::size_t>(layer - timeline.layers.begin())][p] += segment.bytes;
        }
    }
    return timeline;
}

StackedChart chart_of(const Timeline& timeline, const std::string& mode) {
    StackedChart chart{fmt::format("One step with {}", mode),
                       "Planned. Each phase at its fullest moment; program and mapped files left out.",
                       "",
                       {"GiB"},
                       timeline.phases,
                       {}};
    for (std::size_t l = 0; l < timeline.layers.size(); ++l) {
        chart.series.push_back({timeline.layers[l], {}});
        for (const std::int64_t bytes : timeline.bytes[l]) chart.series.back().values.push_back(gib(bytes));
    }
    return chart;
}

Table table_of(const Timeline& timeline, const std::string& name, const std::string& mode) {
    Table table{name, fmt::format("One step with {}, GiB, planned.", mode), {{"segment", "segment"}}, {}};
    for (const std::string& phase : timeline.phases) {
        std::string key = phase;
        std::replace(key.begin(), key.end(), ' ', '_');
        table.columns.push_back({key + "_gib", phase, 3});
    }
    for (std::size_t l = 0; l < timeline.layers.size(); ++l) {
        table.rows.push_back({timeline.layers[l]});
        for (const std::int64_t bytes : timeline.bytes[l]) table.rows.back().emplace_back(gib(bytes));
    }
    table.rows.push_back({std::string("total")});
    for (const std::int64_t bytes : timeline.totals) table.rows.back().emplace_back(gib(bytes));
    return table;
}

}  // namespace elmo
