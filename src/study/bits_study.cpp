// elmo study bits: scores against the format of the head's weights: exponent bits x mantissa bits, with and
// without stochastic rounding, or a list of formats. Each cell is a separate training run, averaged over
// seeds (study/cells.h).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/said_once.h"
#include "base/text_util.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "elmo/evaluation.h"
#include "elmo/messages.h"
#include "elmo/train.h"
#include "study/cells.h"
#include "study/engines.h"

namespace elmo {
namespace {

constexpr const char* kScores[] = {"P@1", "P@3", "P@5"};

// One format, to be trained with each seed.
struct Format {
    std::string precision, rounding = "stochastic", noise = "auto";
    std::string name() const {
        std::string text = precision;
        if (rounding != "stochastic") text += "/" + rounding;
        if (noise != "auto") text += "/" + noise;
        return text;
    }
};

struct CellResult {
    double scores[3] = {};
    double seconds = 0;
    std::int64_t saturations = 0, steps = 0;
};

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        if (end > begin) parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

// "PRECISION[/nearest][/NOISE]", separated by spaces; NOISE as --head-noise takes it.
std::vector<Format> listed_formats(const std::string& text) {
    std::vector<Format> formats;
    for (const std::string& word : split(text, ' ')) {
        const std::vector<std::string> parts = split(word, '/');
        Format format{parts.empty() ? word : parts[0]};
        for (std::size_t i = 1; i < parts.size(); ++i)
            (parts[i] == "nearest" ? format.rounding : format.noise) = parts[i];
        const bool there = std::any_of(formats.begin(), formats.end(),
                                       [&](const Format& other) { return other.name() == format.name(); });
        if (!there) formats.push_back(format);
    }
    return formats;
}

Config cell_config(const StudyRequest& request, const Format& format, std::int64_t seed) {
    Config config = request.config;
    config.precision = format.precision;
    config.head_rounding = format.rounding;
    config.head_noise = format.noise;
    if (format.precision == "fp32") config.head_kahan = "0";  // has nothing to compensate
    config.seed = static_cast<std::uint64_t>(seed);
    config.resume = config.overwrite = false;
    validate(config);
    return config;
}

// Trains and scores one cell, or takes its stored result.
CellResult run_cell(const Context& context, const StudyRequest& request, const Format& format,
                    std::int64_t seed) {
    const Config config = cell_config(request, format, seed);
    const StudyCell cell(request.config.out, fmt::format("{}-seed{}", format.name(), seed), config);
    if (!cell.finished()) {
        context.info(fmt::format("{}, seed {}", format.name(), seed));
        const TrainResult trained = cell.train(context);
        Config scoring = config;
        scoring.out.clear();
        scoring.save_scores = "none";
        scoring.bootstrap = 0;
        scoring.k = "1,3,5";
        const Evaluation scores = evaluate(context, cell.run(), scoring);
        std::map<std::string, double> numbers = {{"seconds", trained.train_seconds},
                                                 {"saturations", static_cast<double>(trained.saturations)},
                                                 {"steps", static_cast<double>(trained.steps)}};
        for (const char* score : kScores) numbers[score] = scores.get(score);
        cell.keep(numbers);
        cell.remove_run();  // only its scores are needed
    }
    const auto numbers =
        cell.numbers({kScores[0], kScores[1], kScores[2], "seconds", "saturations", "steps"});
    CellResult result;
    for (int i = 0; i < 3; ++i) result.scores[i] = numbers.at(kScores[i]);
    result.seconds = numbers.at("seconds");
    result.saturations = static_cast<std::int64_t>(numbers.at("saturations"));
    result.steps = static_cast<std::int64_t>(numbers.at("steps"));
    return result;
}

double mean(const std::vector<CellResult>& cells, int score) {
    double sum = 0;
    for (const CellResult& cell : cells) sum += cell.scores[score];
    return sum / static_cast<double>(cells.size());
}

// Of a single run; nothing if there is only one.
Cell deviation(const std::vector<CellResult>& cells, int score) {
    if (cells.size() < 2) return {};
    const double centre = mean(cells, score);
    double squares = 0;
    for (const CellResult& cell : cells)
        squares += (cell.scores[score] - centre) * (cell.scores[score] - centre);
    return std::sqrt(squares / static_cast<double>(cells.size() - 1));
}

}  // namespace

Study bits_study(const Context& given_context, const StudyRequest& request) {
    const Context context = with_said_once(given_context, request.config.data);
    if (request.config.data.empty()) throw ConfigError("study bits: expected a data set, found none");
    if (request.config.overwrite) remove_cells(request.config.out);
    const std::vector<std::int64_t> seeds =
        numbers_or(request, "seeds", 0, {static_cast<std::int64_t>(request.config.seed)});
    const std::string listed = setting(request, "formats");
    const std::vector<std::int64_t> exponents = numbers_or(request, "exponents", 0, {2, 3, 4, 5, 8}),
                                    mantissas = numbers_or(request, "mantissas", 0, {1, 2, 3, 4, 5, 7});

    std::vector<Format> formats = listed_formats(listed);
    if (formats.empty()) {
        formats = {{"fp32"}, {"bf16"}};
        for (const char* rounding : {"stochastic", "nearest"})
            for (const std::int64_t e : exponents)
                for (const std::int64_t m : mantissas)
                    if (e + m > 0) formats.push_back({fmt::format("exmy:{},{}", e, m), rounding});
    }
    for (const Format& format : formats) cell_config(request, format, seeds.front());  // before hours of work

    Table cells{"cells",
                "One line per run.",
                {{"format", "format"},
                 {"seed", "seed"},
                 {"p1", "P@1"},
                 {"p3", "P@3"},
                 {"p5", "P@5"},
                 {"saturations", "saturations"},
                 {"seconds", "training, s", 1}},
                {}};
    Table means{"formats",
                "Mean over the seeds; deviation of a single run behind it.",
                {{"format", "format"},
                 {"p1", "P@1"},
                 {"p1_deviation", "deviation"},
                 {"p3", "P@3"},
                 {"p3_deviation", "deviation"},
                 {"p5", "P@5"},
                 {"p5_deviation", "deviation"}},
                {}};
    std::map<std::string, std::vector<CellResult>> results;
    for (const Format& format : formats) {
        std::vector<CellResult>& found = results[format.name()];
        for (const std::int64_t seed : seeds) {
            found.push_back(run_cell(context, request, format, seed));
            const CellResult& cell = found.back();
            cells.rows.push_back({format.name(), seed, cell.scores[0], cell.scores[1], cell.scores[2],
                                  cell.saturations, cell.seconds});
        }
        means.rows.push_back({format.name(), mean(found, 0), deviation(found, 0), mean(found, 1),
                              deviation(found, 1), mean(found, 2), deviation(found, 2)});
    }

    Study study;
    study.name = request.name;
    study.title = "Scores against the bits of the classifier's weights";
    study.paragraphs = {
        "Weights are kept on the grid of a format (sign, exponent bits, mantissa bits, subnormals, every "
        "code a "
        "number, exponent bias 2^(E-1) - 1 unless given) and rounded to it after each update; products are "
        "taken "
        "in BF16 or FP32. Each cell is a separate training run, scored on the test set; its weights are "
        "removed "
        "once it is scored.",
        fmt::format("Data {}, encoder {}, seeds {}.", request.config.data, request.config.encoder,
                    fmt::join(seeds, ", "))};
    if (listed.empty())
        for (int score = 0; score < 3; ++score)
            for (const char* rounding : {"stochastic", "nearest"}) {
                HeatMap map{fmt::format("{}, rounding {}", kScores[score], rounding),
                            "",
                            "mantissa bits",
                            "exponent bits",
                            kScores[score],
                            {},
                            {},
                            {}};
                for (const std::int64_t m : mantissas) map.columns.push_back(std::to_string(m));
                for (const std::int64_t e : exponents) {
                    map.rows.push_back(std::to_string(e));
                    map.values.emplace_back();
                    for (const std::int64_t m : mantissas) {
                        const auto cell =
                            results.find(Format{fmt::format("exmy:{},{}", e, m), rounding}.name());
                        map.values.back().push_back(cell == results.end()
                                                        ? std::numeric_limits<double>::quiet_NaN()
                                                        : mean(cell->second, score));
                    }
                }
                study.charts.push_back(map);
            }
    else {
        BarChart bars{
            "Scores by format", "Mean over the seeds.", "format", {"percent", false, {}, false}, {}, {}};
        for (int score = 0; score < 3; ++score) {
            bars.series.push_back({kScores[score], {}});
            for (const Format& format : formats)
                bars.series.back().values.push_back(mean(results[format.name()], score));
        }
        for (const Format& format : formats) bars.categories.push_back(format.name());
        study.charts.push_back(bars);
    }
    study.tables = {means, cells};
    return study;
}

}  // namespace elmo
