// elmo study paper: the tables and figures of the ELMO paper, ours beside the paper's. What follows from the
// plan of memory needs neither data nor GPU, only libelmo_cuda.so: a plan is exact. Scores need the data sets
// (paper_runs.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/plan.h"
#include "study/engines.h"
#include "study/paper_figures.h"
#include "study/paper_runs.h"
#include "study/timeline.h"

namespace elmo {
namespace {

constexpr const char* kItems[] = {"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T10", "F1", "F3", "F4"};

PaperSelection selection_of(const StudyRequest& request) {
    std::vector<std::string> shapes;
    for (const PaperSet& set : paper_sets()) shapes.emplace_back(set.shape);
    return {listed_words(request, "only", {std::begin(kItems), std::end(kItems)}),
            listed_words(request, "sets", shapes)};
}

std::string title_of(const std::string& shape) {
    for (const PaperSet& set : paper_sets())
        if (set.shape == shape) return set.title;
    return shape;
}

struct Planned {
    double kept, recomputed;  // GiB: every activation kept, and as `recompute auto` plans
};

// Plans a step of a shape.
class Planner {
  public:
    // On the device that was given, otherwise on a GPU, as the paper.
    Planner(const Context& context, const Config& asked)
        : context_(context), device_(given(asked, "device") ? std::string(asked.device) : "cuda") {}

    Config config(const std::string& shape, const std::string& mode) const {
        Config config;
        config.device = device_;
        config.shape = shape;
        config.precision = mode;
        if (mode == "fp32") config.encoder_precision = "fp32";
        return config;
    }
    MemoryReport report(Config config, const char* recompute = "none") const {
        config.recompute = recompute;
        return plan_memory(context_, config);
    }
    Planned plan(const Config& config) const {
        return {gib(report(config).total_bytes()), gib(report(config, "auto").total_bytes())};
    }

  private:
    Context context_;
    std::string device_;
};

Table sets_table(const PaperSelection& selection) {
    Table table{
        "T1",
        "T1, data sets, as the paper reports them. `elmo data inspect DATA` prints the same of yours.",
        {{"set", "data set"},
         {"train_rows", "training texts"},
         {"labels", "labels"},
         {"test_rows", "test texts"},
         {"labels_per_row", "labels per text"},
         {"rows_per_label", "texts per label"}},
        {}};
    for (const PaperSet& set : paper_sets())
        if (selection.has_set(set.shape))
            table.rows.push_back({std::string(set.title), set.train_rows, set.labels, set.test_rows,
                                  set.labels_per_row, set.rows_per_label});
    return table;
}

// The four columns that every table of memory ends with.
std::vector<Column> memory_columns(const std::string& unit) {
    const std::string key = unit == "GB" ? "_gb" : "_gib";
    return {{"paper" + key, "paper, " + unit},
            {"ours" + key, "ours, all activations kept"},
            {"difference" + key, "difference"},
            {"recomputed" + key, "ours, `recompute auto`"}};
}

void add_memory(std::vector<Cell>& row, double paper, const Planned& ours, double scale = 1) {
    row.insert(row.end(), {paper, ours.kept * scale, ours.kept * scale - paper, ours.recomputed * scale});
}

Table memory_table(const Planner& planner, const PaperSelection& selection) {
    Table table{
        "memory",
        "T2, T3, T8: peak memory of training. Like for like is the column in which all activations are kept: "
        "the paper recomputes none. fp8: head and encoder, as in the paper.",
        {{"table", "table"}, {"set", "data set"}, {"mode", "mode"}},
        {}};
    for (const Column& column : memory_columns("GiB")) table.columns.push_back(column);
    for (const PaperResult& result : paper_results()) {
        if (!selection.has(result.table) || !selection.has_set(result.shape)) continue;
        Config config = planner.config(result.shape, result.mode);
        if (config.precision == "fp8") config.encoder_precision = "fp8";
        table.rows.push_back({std::string(result.table), title_of(result.shape), std::string(result.mode)});
        add_memory(table.rows.back(), result.gib, planner.plan(config));
    }
    return table;
}

Table encoder_table(const Planner& planner, const PaperSelection& selection) {
    constexpr double kGigabyte = 1.073741824;  // GB per GiB
    Table table{
        "encoder",
        "T4: the encoder's precision beside an FP8 head. T5: the same on an RTX 4060 Ti, whose memory is "
        "planned like any other's. GB, as the paper has it.",
        {{"table", "table"}, {"set", "data set"}, {"encoder", "encoder"}},
        {}};
    for (const Column& column : memory_columns("GB")) table.columns.push_back(column);
    for (const PaperGigabytes& row : paper_gigabytes()) {
        if (!selection.has(row.table) || !selection.has_set(row.shape)) continue;
        Config config = planner.config(row.shape, "fp8");
        config.encoder_precision = row.encoder;
        table.rows.push_back({std::string(row.table), title_of(row.shape), std::string(row.encoder)});
        add_memory(table.rows.back(), row.gb, planner.plan(config), kGigabyte);
    }
    return table;
}

Table repair_table(const Planner& planner) {
    Table table{
        "T6",
        "T6: LF-AmazonTitles-1.3M with an FP8 head. Refinement takes no more memory than training, since it "
        "works on as many labels at a time as fit.",
        {{"mode", "mode"}},
        {}};
    for (const Column& column : memory_columns("GiB")) table.columns.push_back(column);
    for (const PaperRepair& row : paper_repairs()) {
        Config config = planner.config("lf-amazontitles-1.3m", "fp8");
        config.encoder_precision = "fp8";
        if (std::string(row.mode) == "fp8+kahan20") config.head_kahan = "20%";
        table.rows.push_back({std::string(row.mode)});
        add_memory(table.rows.back(), row.gib, planner.plan(config));
    }
    return table;
}

Table chunks_table(const Planner& planner) {
    Table table{"T10", "T10: Amazon-3M in BF16 against the number of chunks.", {{"chunks", "chunks"}}, {}};
    for (const Column& column : memory_columns("GiB")) table.columns.push_back(column);
    for (const PaperChunks& row : paper_chunks()) {
        Config config = planner.config("amazon-3m", "bf16");
        config.chunks = row.chunks;
        table.rows.push_back({row.chunks});
        add_memory(table.rows.back(), row.gib, planner.plan(config));
    }
    return table;
}

// Figure 4: the step of LF-Paper2Keywords-8.6M with other numbers of labels.
void add_labels(const Planner& planner, Study& study) {
    Table table{
        "F4",
        "F4: peak memory against the number of labels, GiB, all activations kept. Encoder and batch of "
        "LF-Paper2Keywords-8.6M. The paper: fp8 takes 6, 11 and 13 times less than renee at 3, 8.6 and 18 "
        "million labels.",
        {{"labels", "labels"},
         {"renee_gib", "renee"},
         {"bf16_gib", "bf16"},
         {"fp8_gib", "fp8"},
         {"ratio", "renee / fp8", 1}},
        {}};
    LineChart chart{"F4: peak memory against the number of labels",
                    "Planned, all activations kept.",
                    {"labels", true},
                    {"GiB", true},
                    {{"renee", {}, false}, {"bf16", {}, false}, {"fp8", {}, false}}};
    for (const std::int64_t labels : {131'073, 670'091, 1'305'265, 2'812'281, 8'623'847, 18'000'000}) {
        table.rows.push_back({labels});
        double peaks[3];
        for (int mode = 0; mode < 3; ++mode) {
            Config config = planner.config("lf-paper2keywords-8.6m", chart.series[mode].name);
            if (config.precision == "fp8") config.encoder_precision = "fp8";
            config.labels = labels;
            peaks[mode] = gib(planner.report(config).total_bytes());
            table.rows.back().emplace_back(peaks[mode]);
            chart.series[mode].points.push_back({static_cast<double>(labels), peaks[mode]});
        }
        table.rows.back().emplace_back(peaks[0] / peaks[2]);
    }
    study.tables.push_back(table);
    study.charts.emplace_back(chart);
}

// Figures 1 and 3: a step of Amazon-3M, phase by phase.
void add_timeline(const Planner& planner, const std::string& item, const std::string& mode, Study& study) {
    Config config = planner.config("amazon-3m", mode);
    if (mode == "fp8") config.encoder_precision = "fp8";
    const Timeline timeline = timeline_of(planner.report(config));
    StackedChart chart = chart_of(timeline, mode);
    chart.title = fmt::format("{}: a step of Amazon-3M with {}", item, mode);
    study.charts.emplace_back(chart);
    study.tables.push_back(table_of(timeline, fmt::format("{}_{}", item, mode), mode));
    study.tables.back().caption = chart.title + ", GiB, planned, all activations kept.";
}

}  // namespace

Study paper_study(const Context& context, const StudyRequest& request) {
    const bool plan_only = setting(request, "plan-only") == "true";
    if (plan_only == !setting(request, "data-root").empty())
        throw ConfigError(
            "study paper: expected either --data-root DIR, a folder with data sets to train on, or "
            "--plan-only, what follows from the plan of memory");
    const PaperSelection selection = selection_of(request);
    const Planner planner(context, request.config);
    Study study;
    study.name = request.name;
    study.title = "The ELMO paper's tables and figures";
    study.paragraphs = {
        "ELMO: Efficiency via Low-precision and Peak Memory Optimization in Large Output Spaces (ICML 2025), "
        "its figures beside ours. Ours are planned: the code that plans is the code that allocates. The "
        "paper's come from PyTorch's allocator.",
        "`recompute auto` computes activations again in the backward instead of keeping them. The paper does "
        "not, so its figures are compared with the plan that keeps them all.",
        "`renee` keeps what Renee keeps of the head (FP32 weights and momentum, an FP16 copy, FP16 logits of "
        "all labels, gradients in FP16 and FP32). Plans have a BF16 encoder, 8 bytes per parameter; Renee's "
        "is "
        "FP16 with FP32 weights and takes 18. Runs of `renee` have `--encoder-precision fp16`: its numbers "
        "are "
        "FP16's, its activations take what FP32 takes. `fp32` is fused and works in chunks here, with an "
        "FP32 encoder; the paper's float32 keeps the gradient of all weights."};
    if (!plan_only) study.tables = paper_runs(context, request, selection);
    if (selection.has("T1")) study.tables.push_back(sets_table(selection));
    if (selection.has("T2") || selection.has("T3") || selection.has("T8"))
        study.tables.push_back(memory_table(planner, selection));
    if (selection.has("T4") || selection.has("T5")) study.tables.push_back(encoder_table(planner, selection));
    if (selection.has("T6")) study.tables.push_back(repair_table(planner));
    if (selection.has("T10")) study.tables.push_back(chunks_table(planner));
    if (selection.has("F1") || selection.has("F3")) add_timeline(planner, "F1", "renee", study);
    if (selection.has("F3")) add_timeline(planner, "F3", "fp8", study);
    if (selection.has("F4")) add_labels(planner, study);
    study.tables.erase(std::remove_if(study.tables.begin(), study.tables.end(),
                                      [](const Table& t) { return t.rows.empty(); }),
                       study.tables.end());
    if (study.tables.empty())
        throw ConfigError(
            "sets: none of these data sets is in the tables that `only` names; leave one of them out");
    return study;
}

}  // namespace elmo
