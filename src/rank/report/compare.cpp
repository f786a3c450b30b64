// elmo eval RUN1 RUN2: two runs on the same rows. Replicates of the bootstrap hold the same texts for both,
// so the interval of a difference does not contain what both have in common.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/said_once.h"
#include "config/resolve.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "rank/evaluate.h"
#include "rank/report/threshold.h"
#include "rank/scored_rows.h"
#include "rank/scored_run.h"
#include "rank/scoring.h"
#include "ranks/collectives.h"
#include "run/checkpoint.h"
#include "sources/known_paths.h"
#include "sources/layout.h"
#include "sources/row_source.h"
#include "sources/tables/table_shape.h"

namespace elmo {
namespace {

// The runs, and the data set of the second where a copy of the same rows has the columns that it reads.
struct Compared {
    const std::string& first;
    const std::string& second;
    const Config* copy;

    std::array<std::string, 2> runs() const { return {first, second}; }
    Config config_of(const std::string& run, Config config) const {
        if (run == first) return config;
        if (copy != nullptr)
            for (const OptionKey key : {OptionKey("data"), OptionKey("test"), OptionKey("format"),
                                        OptionKey("text_column"), OptionKey("label_column")})
                copy_option(config, *copy, key);
        mark_named_by_run(config, "data", false);  // it is the first that may name it
        return config;
    }
    Config resolved(const std::string& run, const Config& config) const {
        return resolve_for_run(run, config_of(run, config));
    }
};

constexpr int kLookedAt = 100;  // JSON objects in which a key is looked for

// Whether the data only bears the name of the run's own.
bool is_other_data(const Context& context, const std::string& run, const Config& as_run) {
    return ScoredRun(without_messages(context), run, Checkpoint(run, as_run.checkpoint), as_run, run)
               .config()
               .split != "test";
}

void refuse_single_outputs(const Config& config) {
    for (const OptionKey key : {OptionKey("predictions"), OptionKey("save_predictions"),
                                OptionKey("per_label"), OptionKey("errors")})
        if (get_option(config, key) != get_option(Config(), key))
            throw ConfigError(fmt::format("{}: is about one run, found two to compare; score that run alone",
                                          std::string_view(key)));
}

bool can(const auto& read) {
    try {
        read();
        return true;
    } catch (const DataError&) {
        return false;
    }
}

// Which of a run's columns the data has: one of its first rows. Those that it does not have are guessed.
struct Columns {
    bool text = false, labels = false;
};

Columns columns_of(Config of_run) {
    of_run.validation = "0";
    of_run.filter = "none";
    try {
        const Layout layout = find_layout(of_run);
        Columns own{fmt::format("{}", fmt::join(layout.text_columns, "+")) == of_run.text_column,
                    layout.label_column == of_run.label_column};
        if (layout.format == DataFormat::kCsv || layout.format == DataFormat::kTsv) {
            const auto has = [&](std::vector<std::string> texts, std::string labels) {
                Layout of_one = layout;
                of_one.text_columns = std::move(texts);
                of_one.label_column = std::move(labels);
                return can([&] { find_table_shape(layout.train.text, of_one); });
            };
            return {own.text && has(layout.text_columns, ""), own.labels && has({}, layout.label_column)};
        }
        if (layout.format != DataFormat::kJsonl) return own;
        const auto rows = open_texts(layout, SplitName::kTrain);
        Columns seen;
        const auto records = rows->open();
        for (int i = 0; i < kLookedAt; ++i) {
            const auto record = records->next();
            if (!record) break;
            std::string text;
            RowLabels labels;
            ImportCounts counts;
            seen.text = seen.text || can([&] { rows->parser()->text(*record, text); });
            seen.labels = seen.labels || can([&] { rows->parser()->labels(*record, labels, counts); });
        }
        return {own.text && seen.text, own.labels && seen.labels};
    } catch (const Error&) {  // it has neither, or is not to be read: that is said later
        return {};
    }
}

// A column that the data has of one run only is read for both: a guessed one may be another.
void share_columns(const Context& context, Config& config, const Compared& compared) {
    if (compared.copy != nullptr) return;
    const auto& [first, second, copy] = compared;
    const Config of_first = resolve_for_run(first, config), of_second = resolve_for_run(second, config);
    const Columns one = columns_of(of_first), other = columns_of(of_second);
    const auto share = [&](OptionKey key, bool first_has, bool second_has) {
        if (first_has == second_has || given(config, key)) return;
        const Config &from = first_has ? of_first : of_second, &to = first_has ? of_second : of_first;
        const std::string &has = first_has ? first : second, &lacks = first_has ? second : first;
        const std::string column = get_option(from, key);
        // For the runs it counts as given, but nobody typed it.
        set_option(config, key, column);
        mark_option(config, key, Origin::kRecipe, "the recipe of " + has);
        context.warning(fmt::format("{}: found no {} '{}', so {} reads '{}', too",
                                    ReadOptions(config).data_name, flag_of(key), quoted(get_option(to, key)),
                                    lacks, quoted(column)));
    };
    share("text_column", one.text, other.text);
    share("label_column", one.labels, other.labels);
}

// Both runs are to read the same rows: those that the run whose own data it is would score. Of other data it
// is still open which.
Config with_shared_rows(const Context& context, Config config, const Compared& compared) {
    for (const std::string& run : compared.runs())
        refuse_vectors(Checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead), "scoring");
    const Config of_first = resolve_for_run(compared.first, config);
    const ReadOptions reading(of_first);
    require_known_path(reading, reading.data, reading.data_of_run, "data");
    if (!given(config, "data")) {
        set_option(config, "data", of_first.data);
        mark_named_by_run(config, "data");
    }
    share_columns(context, config, compared);
    if (config.split != "auto") return config;
    for (const std::string& run : compared.runs()) {
        const Config of_run = Checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead).config();
        const Config chosen =
            with_scored_split(with_run_reading(compared.config_of(run, config), of_run), of_run);
        if (chosen.split != "test" ||
            (ranks_of(context).is_first() && is_other_data(context, run, compared.resolved(run, config))))
            continue;
        for (const OptionKey key : {OptionKey("test_share"), OptionKey("equal_texts")}) {
            if (given(config, key)) continue;
            set_option(config, key, get_option(chosen, key));
            mark_option(config, key, Origin::kRecipe, "the recipe of " + run);
        }
        copy_option(config, chosen, "split");
        break;
    }
    return config;
}

// `texts`: how many each of them reads.
[[noreturn]] void refuse_other_rows(const Config& config, const Compared& compared,
                                    std::array<std::int64_t, 2> texts) {
    const auto& [first, second, copy] = compared;
    const std::string one = compared.resolved(first, config).text_column,
                      other = compared.resolved(second, config).text_column;
    const std::string found = texts[0] == texts[1] ? fmt::format("other rows or labels for {}", second)
                                                   : fmt::format("{} texts for {} and {} for {}", texts[0],
                                                                 first, texts[1], second);
    throw DataError(fmt::format(
        "{}: expected the same rows and labels for both runs, found {}; {}", config.data, found,
        config.split == "validation" ? "each run has validation rows of its own: give the same to both with "
                                       "--validation FILE, or take --split all"
        : one != other && config.split == "test"
            ? fmt::format(
                  "rows are held out by their text, and {} was trained on --text-column {}, {} on {}: "
                  "give a file that trained neither",
                  first, one, second, other)
            : "give --label-column and the like, so that both read alike, or give a file that trained "
              "neither"));
}

// Before the data is read. Whether one of the runs is judged at a threshold.
bool require_thresholds(const Context& context, const Compared& compared, const Config& config) {
    bool any = false;
    for (const std::string& run : compared.runs()) {
        const Config as_run = compared.resolved(run, config);
        try {
            any |= scoring_threshold(context, as_run, Checkpoint(run, as_run.checkpoint)).has_value();
        } catch (const ConfigError& error) {
            throw ConfigError(fmt::format("{}: {}", run, error.what()));
        }
    }
    return any;
}

// Reads the data as both runs do, before one of them is ranked: the other may not be able to. All rows where
// they would score others than each other: those that did not train the one, say. What there is to say is
// said when they are scored.
Config with_equal_rows(const Context& context, Config config, const Compared& compared) {
    struct Rows {
        std::int64_t number;
        std::uint64_t hash;
    };
    const auto rows_of = [&](const std::string& run) {
        const Config as_run = compared.resolved(run, config);
        const ScoredRun scored(without_messages(context), run, Checkpoint(run, as_run.checkpoint), as_run,
                               run);
        return Rows{scored.num_rows(), scored.rows_hash()};
    };
    const Rows of_first = rows_of(compared.first), of_second = rows_of(compared.second);
    if (of_first.hash == of_second.hash) return config;
    if (config.split != "auto") refuse_other_rows(config, compared, {of_first.number, of_second.number});
    choose_option(config, "split", &Config::split, std::string("all"),
                  "the rows that did not train the one run are not those that did not train the other");
    return with_equal_rows(context, std::move(config), compared);
}

}  // namespace

Comparison compare(const Context& given_context, const std::string& first, const std::string& second,
                   const Config& given, const RowsName& rows, const Config* copy_for_second) {
    refuse_single_outputs(given);
    const Context context = with_said_once(given_context, "");  // both read the same data
    const Compared compared{first, second, copy_for_second};
    Config config = with_shared_rows(context, given, compared);
    std::int64_t depth = 0;  // alike for both: where only the one is calibrated, it would be ranked deeper
    if (ranks_of(context).is_first()) {
        if (require_thresholds(context, compared, config)) depth = kMostAnswers;
        config = with_equal_rows(context, std::move(config), compared);
    }
    const DetailedEvaluation a = evaluate_in_detail(context, first, config, rows, first, depth),
                             b = evaluate_in_detail(context, second, compared.config_of(second, config), rows,
                                                    second, depth);
    if (a.rows_hash != b.rows_hash)
        refuse_other_rows(config, compared, {a.evaluation.num_samples, b.evaluation.num_samples});
    keep_scores(context, first, config, a.evaluation);
    keep_scores(context, second, config, b.evaluation);
    Comparison result{a.evaluation, b.evaluation, {}};
    const auto& other = b.evaluation.scores;
    for (std::size_t i = 0; i < a.evaluation.scores.size(); ++i) {
        const Score& score = a.evaluation.scores[i];
        for (std::size_t j = 0; j < other.size(); ++j) {
            if (other[j].name != score.name) continue;
            ScoreDifference& difference = result.differences.emplace_back();
            difference.name = score.name;
            difference.percent = other[j].percent - score.percent;
            if (a.replicates.empty() || b.replicates.empty()) continue;
            std::vector<double> values(b.replicates[j]);
            for (std::size_t r = 0; r < values.size(); ++r)
                values[r] = 100 * (values[r] - a.replicates[i][r]);
            const Interval interval = central_interval(std::move(values), kConfidence);
            difference.low = interval.low;
            difference.high = interval.high;
        }
    }
    return result;
}

}  // namespace elmo
