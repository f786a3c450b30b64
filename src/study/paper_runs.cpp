#include "study/paper_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/evaluation.h"
#include "elmo/messages.h"
#include "elmo/plan.h"
#include "elmo/refine.h"
#include "study/cells.h"
#include "study/engines.h"
#include "study/paper_figures.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

const std::vector<std::string> kPaperModes = {"bf16",  "fp8",  "fp8+kahan20", "fp8+refine",
                                              "renee", "fp32", "e2m5"};
const std::vector<std::string> kRanks = {"P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5"};
constexpr const char* kLikeElmo = "elmo ";  // before the name of a score of `--like elmo`

// A mode on a data set, with the paper's figures where it has them.
struct Wanted {
    std::string table, shape, mode;
    std::map<std::string, double> paper;  // by score; "gib", "seconds"
};

double seconds_of(const std::string& minutes) {  // "17:44"
    const std::size_t colon = minutes.find(':');
    if (colon == std::string::npos) return kNotReported;
    return 60 * std::stod(minutes.substr(0, colon)) + std::stod(minutes.substr(colon + 1));
}

// What the tables hold, and modes that were asked for beyond them.
std::vector<Wanted> wanted_runs(const PaperSelection& selection, const std::vector<std::string>& modes) {
    const auto has_mode = [&](const std::string& mode) {
        return modes.empty() || std::find(modes.begin(), modes.end(), mode) != modes.end();
    };
    std::vector<Wanted> wanted;
    for (const PaperResult& r : paper_results()) {
        const bool psp = std::string(r.table) == "T2" && selection.has("T7");
        if (!(selection.has(r.table) || psp) || !selection.has_set(r.shape) || !has_mode(r.mode)) continue;
        wanted.push_back({r.table,
                          r.shape,
                          r.mode,
                          {{"P@1", r.p1},
                           {"P@3", r.p3},
                           {"P@5", r.p5},
                           {"PSP@1", r.psp1},
                           {"PSP@3", r.psp3},
                           {"PSP@5", r.psp5},
                           {"gib", r.gib},
                           {"seconds", seconds_of(r.epoch)}}});
    }
    const std::string repaired = "lf-amazontitles-1.3m";
    for (const PaperRepair& r : paper_repairs())
        if (selection.has("T6") && selection.has_set(repaired) && has_mode(r.mode))
            wanted.push_back(
                {"T6", repaired, r.mode, {{"P@1", r.p1}, {"P@3", r.p3}, {"P@5", r.p5}, {"gib", r.gib}}});
    for (const std::string& mode : modes)
        for (const PaperResult& r : paper_results()) {
            if (std::string(r.mode) != "bf16" || !selection.has(r.table) || !selection.has_set(r.shape))
                continue;
            const bool there = std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& w) {
                return w.shape == r.shape && w.mode == mode;
            });
            if (!there) wanted.push_back({r.table, r.shape, mode, {}});
        }
    return wanted;
}

std::string plain_name(const std::string& name) {
    std::string plain;
    for (const unsigned char c : name)
        if (std::isalnum(c)) plain += static_cast<char>(std::tolower(c));
    return plain;
}

// The folder of a data set: its name, letters and digits only.
std::string data_folder(const fs::path& root, const std::string& shape) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root, error))
        if (entry.is_directory() && plain_name(entry.path().filename().string()) == plain_name(shape))
            return entry.path().string();
    if (error)
        throw ConfigError(fmt::format("data-root: expected a folder with data sets, found {}: {}",
                                      quoted(root.string()), error.message()));
    return "";
}

double epochs_scale(const StudyRequest& request) {
    const std::string text = setting(request, "epochs-scale");
    if (text.empty()) return 1;
    double scale = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
    if (error != std::errc() || stop != text.data() + text.size() || !(scale > 0 && scale <= 10))
        throw ConfigError(
            fmt::format("epochs-scale: expected a number above 0 and at most 10, found '{}'", quoted(text)));
    return scale;
}

// What a run trains with: the data set's recipe, the mode, then every option that was given.
Config paper_config(const StudyRequest& request, const std::string& shape, const std::string& mode,
                    const std::string& data, std::int64_t seed) {
    const bool fp8 = mode.rfind("fp8", 0) == 0;
    Config config;
    load_recipe(config, fp8 ? shape + "-fp8" : shape);
    config.precision = fp8 ? "fp8" : mode;
    if (fp8) config.encoder_precision = "fp8";  // as the paper's FP8 rows
    if (mode == "fp32") config.encoder_precision = "fp32";
    if (mode == "renee") config.encoder_precision = "fp16";  // as Renee's
    if (mode == "fp8+kahan20") config.head_kahan = "20%";
    if (mode == "fp8" || mode == "bf16") config.head_kahan = "0";
    // Momentum makes the step of a constant gradient 1 / (1 - momentum) times as large.
    if (mode == "renee") config.head_lr = config.head_lr * (1 - config.head_momentum);
    const double scale = epochs_scale(request);
    config.epochs = config.epochs * scale;
    if (config.warmup_steps > 0)
        config.warmup_steps = std::llround(scale * static_cast<double>(config.warmup_steps));
    for (const std::string_view key : kOptionKeys)
        if (given(request.config, key)) set_option(config, key, get_option(request.config, key));
    config.data = data;
    config.seed = static_cast<std::uint64_t>(seed);
    config.out.clear();
    config.resume = config.overwrite = false;
    validate(config);
    return config;
}

double planned_gib(const Context& context, Config config, const char* recompute) {
    config.recompute = recompute;
    return static_cast<double>(plan_memory(context, config).total_bytes()) / (1 << 30);
}

// Scores, as we score and as the paper's code does.
void add_scores(const Context& context, const std::string& run, Config config,
                std::map<std::string, double>& numbers) {
    config.save_scores = "none";
    config.k = "1,3,5";
    for (const char* like : {"", "elmo"}) {
        config.like = like;
        const Evaluation scored = evaluate(context, run, config);
        const std::string before = *like != '\0' ? kLikeElmo : "";
        for (const Score& score : scored.scores) {
            numbers[before + score.name] = score.percent;
            numbers[before + score.name + " low"] = score.low;
            numbers[before + score.name + " high"] = score.high;
        }
    }
}

std::vector<std::string> kept_keys() {
    std::vector<std::string> keys = {"epochs",       "epoch_seconds", "peak_gib",
                                     "planned_kept", "planned_auto",  "skipped_steps"};
    for (const std::string& before : {std::string(), std::string(kLikeElmo)})
        for (const std::string& score : kRanks)
            for (const char* end : {"", " low", " high"}) keys.push_back(before + score + end);
    return keys;
}

std::map<std::string, double> run_paper_cell(const Context& context, const StudyRequest& request,
                                             const std::string& shape, const std::string& mode,
                                             const std::string& data, std::int64_t seed) {
    const Config config = paper_config(request, shape, mode, data, seed);
    const StudyCell cell(request.config.out, fmt::format("{}-{}-seed{}", shape, mode, seed), config);
    if (cell.finished()) return cell.numbers(kept_keys());
    std::map<std::string, double> numbers;
    if (mode == "fp8+refine") {
        numbers = run_paper_cell(context, request, shape, "fp8", data, seed);
        const StudyCell base(request.config.out, fmt::format("{}-fp8-seed{}", shape, seed),
                             paper_config(request, shape, "fp8", data, seed));
        context.info(fmt::format("{}, {}, seed {}", shape, mode, seed));
        Config refining = refinement_defaults(base.run());
        refining.data = data;
        refining.out = cell.run();
        refining.overwrite = fs::exists(cell.run());
        const RefineResult refined = refine(context, base.run(), refining);
        if (refined.interrupted) throw Interrupted("stopped; the same command with --resume goes on");
        numbers["peak_gib"] =
            std::max(numbers["peak_gib"], static_cast<double>(refined.measured_peak_bytes) / (1 << 30));
    } else {
        context.info(fmt::format("{}, {}, seed {}", shape, mode, seed));
        const TrainResult trained = cell.train(context);
        numbers = {{"epochs", trained.epochs},
                   {"epoch_seconds", trained.train_seconds / trained.epochs},
                   {"peak_gib", static_cast<double>(trained.measured_peak_bytes) / (1 << 30)},
                   {"planned_kept", planned_gib(context, config, "none")},
                   {"planned_auto", planned_gib(context, config, "auto")},
                   {"skipped_steps", static_cast<double>(trained.skipped_steps)}};
    }
    add_scores(context, cell.run(), config, numbers);
    cell.keep(numbers);
    return numbers;
}

Cell or_nothing(double number) {
    return std::isnan(number) ? Cell{} : Cell{number};
}

}  // namespace

bool PaperSelection::has(const std::string& item) const {
    return items.empty() || std::find(items.begin(), items.end(), item) != items.end();
}
bool PaperSelection::has_set(const std::string& shape) const {
    return sets.empty() || std::find(sets.begin(), sets.end(), shape) != sets.end();
}

std::vector<std::string> listed_words(const StudyRequest& request, const std::string& key,
                                      const std::vector<std::string>& known) {
    std::vector<std::string> words;
    const std::string text = setting(request, key);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        words.push_back(text.substr(begin, end - begin));
        if (std::find(known.begin(), known.end(), words.back()) == known.end())
            throw ConfigError(fmt::format("{}: expected {} separated by commas, found '{}'{}", key,
                                          fmt::join(known, ", "), quoted(words.back()),
                                          did_you_mean(words.back(), known)));
        begin = end + 1;
    }
    return words;
}

std::vector<Table> paper_runs(const Context& context, const StudyRequest& request,
                              const PaperSelection& selection) {
    const fs::path root = setting(request, "data-root");
    const double scale = epochs_scale(request);
    const std::vector<std::int64_t> seeds =
        numbers_or(request, "seeds", 0, {static_cast<std::int64_t>(request.config.seed)});
    if (request.config.overwrite) remove_cells(request.config.out);
    const std::vector<Wanted> wanted = wanted_runs(selection, listed_words(request, "modes", kPaperModes));

    Table scores{
        "scores",
        fmt::format("Trained with the recipe of the data set{}, seeds {}, and scored on its test texts, "
                    "with its filter. P@k as `elmo eval` scores, PSP@k as `elmo eval --like elmo` does, "
                    "which counts propensities as the paper's code does and normalises as pyxclib. The "
                    "interval holds 95 % of 1,000 bootstrap replicates over texts, its ends averaged over "
                    "the seeds. Peak: measured; the paper recomputes no activations, so the planned peak "
                    "without recomputation stands beside it. `fp8` has an FP8 encoder, as the paper's.",
                    scale == 1 ? "" : fmt::format(", epochs and warm-up times {}", scale),
                    fmt::join(seeds, ", ")),
        {{"table", "table"},
         {"set", "data set"},
         {"mode", "mode"},
         {"what", "figure"},
         {"paper", "paper"},
         {"ours", "ours"},
         {"difference", "difference"},
         {"low", "from"},
         {"high", "to"}},
        {}};
    Table runs{"runs",
               "One line per run; each is kept under runs/.",
               {{"set", "data set"},
                {"mode", "mode"},
                {"seed", "seed"},
                {"p1", "P@1"},
                {"p3", "P@3"},
                {"p5", "P@5"},
                {"elmo_p1", "P@1, like elmo"},
                {"psp1", "PSP@1"},
                {"psp5", "PSP@5"},
                {"elmo_psp1", "PSP@1, like elmo"},
                {"elmo_psp5", "PSP@5, like elmo"},
                {"peak_gib", "peak, GiB"},
                {"kept_gib", "planned, nothing recomputed"},
                {"auto_gib", "planned, `recompute auto`"},
                {"epoch_seconds", "s per epoch", 1},
                {"skipped_steps", "steps skipped", 0}},
               {}};
    Table missing{"missing",
                  "Not trained: the data is not there.",
                  {{"set", "data set"}, {"expected", "expected"}},
                  {}};
    std::map<std::string, std::string> folders;
    for (const Wanted& run : wanted) {
        if (!folders.contains(run.shape)) {
            folders[run.shape] = data_folder(root, run.shape);
            if (folders[run.shape].empty()) missing.rows.push_back({run.shape, (root / run.shape).string()});
        }
        const std::string& data = folders[run.shape];
        if (!data.empty()) paper_config(request, run.shape, run.mode, data, seeds.front());  // before hours
    }
    for (const Wanted& run : wanted) {
        const std::string& data = folders[run.shape];
        if (data.empty()) continue;
        std::map<std::string, double> mean;
        for (const std::int64_t seed : seeds) {
            const auto numbers = run_paper_cell(context, request, run.shape, run.mode, data, seed);
            for (const auto& [key, value] : numbers) mean[key] += value / static_cast<double>(seeds.size());
            const auto of = [&](const char* key) { return Cell{numbers.at(key)}; };
            runs.rows.push_back({run.shape, run.mode, seed, of("P@1"), of("P@3"), of("P@5"), of("elmo P@1"),
                                 of("PSP@1"), of("PSP@5"), of("elmo PSP@1"), of("elmo PSP@5"), of("peak_gib"),
                                 of("planned_kept"), of("planned_auto"), of("epoch_seconds"),
                                 of("skipped_steps")});
        }
        const auto add = [&](const std::string& what, const std::string& figure, const std::string& key,
                             bool interval) {
            const auto found = run.paper.find(figure);
            const double paper = found == run.paper.end() ? kNotReported : found->second, ours = mean.at(key);
            scores.rows.push_back({run.table, run.shape, run.mode, what, or_nothing(paper), ours,
                                   or_nothing(ours - paper), interval ? Cell{mean.at(key + " low")} : Cell{},
                                   interval ? Cell{mean.at(key + " high")} : Cell{}});
        };
        for (const std::string& score : kRanks)
            add(score, score, score[1] == 'S' ? kLikeElmo + score : score, true);
        add("peak, GiB", "gib", "peak_gib", false);
        add("planned peak without recomputation, GiB", "gib", "planned_kept", false);
        add("seconds per epoch", "seconds", "epoch_seconds", false);
    }
    std::vector<Table> tables = {scores, runs, missing};
    return tables;
}

}  // namespace elmo
