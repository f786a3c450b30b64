// elmo study histogram: exponents of what the head's step works with, at chosen steps of a training run, and
// what 8-bit formats would do to them.
#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "model/head/head.h"
#include "study/engines.h"
#include "study/head_probe.h"

namespace elmo {
namespace {

// The steps to look at: those given, or the first, some between, and the last.
std::vector<std::int64_t> chosen_steps(const StudyRequest& request, std::int64_t total) {
    std::vector<std::int64_t> defaults = {1, total / 4, total / 2, total};
    std::erase_if(defaults, [](std::int64_t step) { return step < 1; });
    std::sort(defaults.begin(), defaults.end());
    defaults.erase(std::unique(defaults.begin(), defaults.end()), defaults.end());
    const std::vector<std::int64_t> steps = values_or(request, defaults);
    if (steps.back() > total)
        throw ConfigError(fmt::format("values: expected steps of a run of {}, found {}; give --steps", total,
                                      steps.back()));
    if (steps.size() > static_cast<std::size_t>(kSeriesColours))
        throw ConfigError(
            fmt::format("values: expected {} steps at most, found {}", kSeriesColours, steps.size()));
    return steps;
}

// One chart: the four formats' ranges above the bars of each step.
BarChart chart_of(std::size_t kind, const std::map<std::int64_t, HeadProbe::Histograms>& seen) {
    BarChart chart;
    chart.title = fmt::format("Exponents of {}", HeadProbe::kNames[kind]);
    chart.x_label = "floor(log2 |v|)";
    chart.y = {"percent of all"};
    int low = 0, high = 0;
    bool any = false;
    std::string zeros;
    for (const auto& [step, histograms] : seen) {
        const ExponentHistogram& histogram = histograms[kind];
        zeros += fmt::format("{}{:.1f} % at step {}", zeros.empty() ? "" : ", ",
                             100 * histogram.share(histogram.zeros()), step);
        if (histogram.bins().empty()) continue;
        const int first = histogram.bins().begin()->first, last = histogram.bins().rbegin()->first;
        low = any ? std::min(low, first) : first;
        high = any ? std::max(high, last) : last;
        any = true;
    }
    chart.caption = fmt::format(
        "Zeros, not drawn: {}. Bands: from the smallest to the largest number of a format.", zeros);
    if (!any) high = low - 1;
    for (int exponent = low; exponent <= high; ++exponent)
        chart.categories.push_back(std::to_string(exponent));
    for (const auto& [step, histograms] : seen) {
        BarChart::Series series{fmt::format("step {}", step), {}};
        for (int exponent = low; exponent <= high; ++exponent) {
            const auto& bins = histograms[kind].bins();
            const auto found = bins.find(exponent);
            series.values.push_back(found == bins.end() ? 0 : 100 * histograms[kind].share(found->second));
        }
        chart.series.push_back(std::move(series));
    }
    for (const FormatRange& format : kStudiedFormats)
        chart.bands.push_back(
            {format.name, format.smallest_exponent() - low, format.largest_exponent() - low});
    return chart;
}

}  // namespace

Study histogram_study(const Context& given_context, const StudyRequest& request) {
    Config config = request.config;
    if (config.data.empty()) throw ConfigError("data: expected a data set to train on, found none");
    config.resume = false;
    const Context context = given_context.with_threads(config.threads);
    config = resolve_training(context, config);
    const HeadFormat format = head_format(config.precision);
    if (format.dtype == DType::kU8)
        throw ConfigError(
            fmt::format("precision: expected one whose weights are read without their row, found {}; "
                        "{} with head_kahan {} has the same weights",
                        config.precision, grid_name(format.grid), config.head_kahan));
    if (config.precision == "renee")
        throw ConfigError(
            "precision: expected a storage of the classifier weights, found renee: the histogram computes "
            "gradients by the step of the others; fp32 has the same weights");
    if (config.weight_dropout > 0)
        throw ConfigError(
            fmt::format("weight_dropout: expected 0, found {}: the histogram looks at the stored weights and "
                        "what follows from them; give --weight-dropout 0",
                        config.weight_dropout));
    config.out = request.config.out + "/run";
    config.overwrite = std::filesystem::exists(config.out);
    config.resume = false;
    RunFolder folder(context, config);
    Trainer trainer(context, folder, config);
    const std::vector<std::int64_t> steps = chosen_steps(request, trainer.total_steps());
    HeadProbe probe({steps.begin(), steps.end()}, format.grid);
    trainer.set_probe(probe);
    const TrainResult trained = trainer.run();
    if (trained.interrupted) throw Interrupted("stopped before the last step; the same command starts again");
    const std::vector<std::int64_t> missed(
        std::find_if(steps.begin(), steps.end(), [&](std::int64_t step) { return step > trained.steps; }),
        steps.end());
    const std::string end =
        missed.empty() ? "" : fmt::format("patience ended the run after step {}", trained.steps);
    if (missed.size() == steps.size())
        throw ConfigError(
            fmt::format("values: expected steps that are trained, found {}: {}; give "
                        "earlier steps, or --patience 0",
                        fmt::join(steps, ", "), end));

    Study study;
    study.name = request.name;
    study.title = "Exponents of weights, inputs and gradients of the classifier";
    Table counts{"histogram",
                 "Numbers by exponent, floor(log2 |v|); an empty exponent stands for zero.",
                 {{"step", "step"},
                  {"tensor", "tensor"},
                  {"exponent", "exponent"},
                  {"count", "count"},
                  {"share", "share", 6}},
                 {}};
    Table fates{
        "formats",
        "Shares by what rounding to nearest makes of the numbers in each format. Flushed: becomes zero. "
        "Saturated: beyond the largest finite number.",
        {{"step", "step"},
         {"tensor", "tensor"},
         {"format", "format"},
         {"zero", "zero", 4},
         {"flushed", "flushed", 4},
         {"subnormal", "subnormal", 4},
         {"normal", "normal", 4},
         {"saturated", "saturated", 4}},
        {}};
    for (const auto& [step, histograms] : probe.seen())
        for (std::size_t kind = 0; kind < histograms.size(); ++kind) {
            const ExponentHistogram& histogram = histograms[kind];
            const std::string name = HeadProbe::kNames[kind];
            if (histogram.non_finite() > 0)
                throw NumericError(
                    fmt::format("step {}: {} of the {} are NaN or Inf", step, histogram.non_finite(), name));
            counts.rows.push_back({step, name, {}, histogram.zeros(), histogram.share(histogram.zeros())});
            for (const auto& [exponent, count] : histogram.bins())
                counts.rows.push_back({step, name, std::int64_t{exponent}, count, histogram.share(count)});
            for (std::size_t f = 0; f < kNumFormats; ++f) {
                std::vector<Cell> row = {step, name, std::string(kStudiedFormats[f].name)};
                for (const Fate fate :
                     {Fate::kZero, Fate::kFlushed, Fate::kSubnormal, Fate::kNormal, Fate::kSaturated})
                    row.emplace_back(histogram.share(f, fate));
                fates.rows.push_back(std::move(row));
            }
        }
    study.paragraphs = {
        fmt::format(
            "A run of {} steps with a head in {}, looked into at step {}{}. Weights, logit gradients and "
            "weight "
            "gradients are those of {} labels, evenly taken; classifier inputs are the text vectors after "
            "dropout, whose zeros are what it dropped.",
            trained.steps, config.precision,
            fmt::join(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(missed.size()), ", "),
            missed.empty() ? "" : fmt::format(" (not at {}: {})", fmt::join(missed, ", "), end),
            with_commas(probe.sampled_labels())),
        "Logit gradients are sigmoid(z) - y, of a positive times its weight, rounded to BF16, as the step "
        "uses "
        "them; weight gradients are "
        "their sums with the inputs over the batch, before the learning rate, which never exist in memory "
        "when training."};
    for (std::size_t kind = 0; kind < std::size(HeadProbe::kNames); ++kind)
        study.charts.emplace_back(chart_of(kind, probe.seen()));
    study.tables = {fates, counts};
    return study;
}

}  // namespace elmo
