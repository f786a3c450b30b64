// elmo data inspect: the contents of a data set, its problems, and what a run on it would cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/parallel.h"
#include "base/text_util.h"
#include "cache/name_table.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "data/dataset.h"
#include "data/kept_input.h"
#include "data/label_doubts.h"
#include "data/text_scan.h"
#include "data/token_import.h"
#include "data/tokenizer_files.h"
#include "elmo/data.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "elmo/plan.h"
#include "elmo/resolve.h"
#include "io/checksum.h"

namespace elmo {
namespace {

template <class T>
Spread spread_of(std::vector<T> values) {
    Spread spread;
    if (values.empty()) return spread;
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const T value : values) sum += static_cast<double>(value);
    // The least value that `percent` of all do not exceed.
    const auto at = [&](std::size_t percent) {
        const std::size_t rank = (values.size() * percent + 99) / 100;
        return static_cast<std::int64_t>(values[std::max<std::size_t>(rank, 1) - 1]);
    };
    spread.mean = sum / static_cast<double>(values.size());
    spread.least = at(0);
    spread.median = at(50);
    spread.p90 = at(90);
    spread.p99 = at(99);
    spread.most = at(100);
    return spread;
}

// 0, 1, 2, 3-4, 5-8, 9-16, ...
std::vector<LabelsByRows> histogram_of(std::span<const std::int64_t> counts) {
    std::vector<LabelsByRows> bins;
    const std::int64_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    for (std::int64_t first = 0, last = 0; first <= most;
         first = last + 1, last = std::max(first, 2 * last)) {
        const auto inside = std::count_if(counts.begin(), counts.end(), [&](std::int64_t count) {
            return count >= first && count <= last;
        });
        bins.push_back(
            {first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last), inside});
    }
    return bins;
}

// The data set as it is, or leniently where a strict import stops; what it stopped at goes to `trouble`.
Dataset open_leniently(const Context& context, Config& config, DataSummary& summary,
                       std::vector<std::string>& trouble) {
    try {
        return Dataset::open_labels(context, config, &summary);
    } catch (const DataError& error) {
        trouble.emplace_back(error.what());
        config.allow_invalid_utf8 = config.allow_repeated_labels = true;
    }
    Sinks sinks = context.sinks();  // how the data is read was said
    sinks.message = [message = sinks.message](Severity severity, std::string_view text) {
        if (severity == Severity::kWarning && message) message(severity, text);
    };
    return Dataset::open_labels(context.with_sinks(std::move(sinks)), config, &summary);
}

void report_names(const Dataset& data, DataReport& report) {
    report.has_label_names = data.has_label_names();
    if (!report.has_label_names) return;
    std::vector<std::uint64_t> hashes;
    for (std::int64_t label = 0; label < data.num_labels(); ++label) {
        report.empty_names += data.label_name(label).empty();
        hashes.push_back(hash64(data.label_name(label)));
    }
    std::sort(hashes.begin(), hashes.end());
    report.repeated_names = hashes.end() - std::unique(hashes.begin(), hashes.end());
}

std::string label_of(const Dataset& data, std::int64_t label) {
    return data.has_label_names() ? std::string(data.label_name(label)) : fmt::format("{}", label);
}

// The first training rows with labels as they are read; the very first ones where the first thousands have
// none.
std::vector<SampleRow> sample_rows(const Context& context, const Config& config, const Layout& layout,
                                   const Dataset& data) {
    constexpr std::int64_t kRows = 3, kLooked = 10000;
    constexpr std::size_t kLongest = 300;
    std::vector<SampleRow> samples;
    const bool has_texts = layout.format != DataFormat::kSparse && !layout.train.text.empty();
    std::optional<SplitTexts> texts;
    if (has_texts) texts.emplace(context, config);
    const LabelMatrix& labels = data.train().labels;
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < std::min(kLooked, data.train().rows()) && std::ssize(wanted) < kRows; ++i)
        if (!labels.row(i).empty()) wanted.push_back(i);
    for (std::int64_t i = 0; wanted.empty() && i < std::min(kRows, data.train().rows()); ++i)
        wanted.push_back(i);
    std::int64_t next = 0;  // row that is read next
    for (const std::int64_t row : wanted) {
        SampleRow& sample = samples.emplace_back();
        std::string_view text;
        while (texts && next <= row && texts->next(text)) ++next;
        if (texts && next == row + 1) sample.text = quoted(text, kLongest);
        for (const std::uint32_t label : labels.row(row)) sample.labels.push_back(label_of(data, label));
    }
    return samples;
}

// The labels with most rows, and those whose names look least like one.
void report_labels(const Dataset& data, DataReport& report) {
    constexpr std::size_t kCommonest = 10, kStrangest = 5;
    const auto counts = data.label_counts();
    const auto rows = [&](std::int64_t label) { return counts.empty() ? 0 : counts[label]; };
    const auto take = [&](std::vector<std::int64_t>& from, std::size_t most, const auto& before,
                          std::vector<SampleLabel>& to) {
        const auto end = from.begin() + static_cast<std::ptrdiff_t>(std::min(most, from.size()));
        std::partial_sort(from.begin(), end, from.end(), before);
        for (auto label = from.begin(); label != end; ++label)
            to.push_back({quoted(label_of(data, *label)), rows(*label)});
    };
    std::vector<std::int64_t> all(static_cast<std::size_t>(data.num_labels())), strange;
    std::iota(all.begin(), all.end(), 0);
    const auto more_rows = [&](std::int64_t a, std::int64_t b) {
        return std::pair(-rows(a), a) < std::pair(-rows(b), b);
    };
    if (!counts.empty()) take(all, kCommonest, more_rows, report.commonest);
    for (std::int64_t label = 0; label < data.num_labels() && data.has_label_names(); ++label)
        if (strangeness(data.label_name(label)) > 0) strange.push_back(label);
    take(
        strange, kStrangest,
        [&](std::int64_t a, std::int64_t b) {
            const int of_a = strangeness(data.label_name(a)), of_b = strangeness(data.label_name(b));
            return of_a != of_b ? of_a > of_b : more_rows(a, b);
        },
        report.strangest);
}

}  // namespace

DataReport report_data(const Context& given_context, const Config& given) {
    validate(given);
    if (given.data.empty()) throw ConfigError("data: expected a data set (folder or file), found none");
    const Context context = given_context.with_threads(given.threads);
    // What training costs is said of encoders that are trained in steps.
    Config config = given;
    if (config.encoder == "auto" || config.encoder == kLinearEncoder) config.encoder = "bag";
    config = with_kept_input(context, with_usual_numbers(with_encoder_folder(config)));
    const Layout layout = find_layout(config);
    DataReport report;
    DataSummary summary;
    const Dataset data = open_leniently(context, config, summary, report.trouble);
    report.format = summary.format;
    report.labels = data.num_labels();
    report.labels_unseen_in_train = summary.labels_unseen_in_train;
    report.merged_labels = summary.merged_labels;
    report.cache = summary.cache;
    report_names(data, report);
    report.doubts = label_doubts(data, layout);
    report_labels(data, report);
    const auto counts = data.label_counts();
    report.rows_per_label = spread_of(std::vector<std::int64_t>(counts.begin(), counts.end()));
    report.histogram = histogram_of(counts);

    const bool has_texts = layout.format != DataFormat::kSparse && !layout.train.text.empty();
    // Learn a vocabulary for counting even if some text is not UTF-8.
    Config lenient = config;
    lenient.allow_invalid_utf8 = true;
    const auto tokenizer = has_texts ? open_tokenizer(context, lenient) : nullptr;
    std::vector<std::uint64_t> in_train;
    for (const SplitName name : kAllSplits) {
        const Split& rows = data.split(name);
        if (!rows.present) continue;
        SplitReport split;
        split.name = name_of(name);
        split.rows = rows.rows();
        std::vector<std::int64_t> lengths;
        for (std::int64_t i = 0; i < rows.rows(); ++i) {
            lengths.push_back(rows.labels.length(i));
            split.rows_without_labels += lengths.back() == 0;
        }
        split.labels_per_row = spread_of(std::move(lengths));
        if (tokenizer && !layout.files(name).text.empty()) {
            TextScan scan = scan_texts(context, config, layout, name, *tokenizer);
            split.empty_texts = scan.empty;
            split.not_utf8 = scan.not_utf8;
            split.like_latin1 = scan.like_latin1;
            split.first_not_utf8 = scan.first_not_utf8;
            split.longer_than_max = std::count_if(scan.tokens.begin(), scan.tokens.end(),
                                                  [&](std::int32_t n) { return n > config.max_length; });
            split.tokens_per_row = spread_of(std::move(scan.tokens));
            std::sort(scan.hashes.begin(), scan.hashes.end());
            if (name != SplitName::kTrain)
                split.texts_in_train =
                    std::count_if(scan.hashes.begin(), scan.hashes.end(), [&](std::uint64_t hash) {
                        return std::binary_search(in_train.begin(), in_train.end(), hash);
                    });
            const auto end = std::unique(scan.hashes.begin(), scan.hashes.end());
            split.repeated_texts = scan.hashes.end() - end;
            scan.hashes.erase(end, scan.hashes.end());
            if (name == SplitName::kTrain) in_train = std::move(scan.hashes);
        }
        report.splits.push_back(std::move(split));
    }
    if (data.train().present) {
        report.samples = sample_rows(context, lenient, layout, data);
        Config plan = config;
        plan.data.clear();
        plan.labels = report.labels;
        report.plan_bytes = plan_memory(context, plan).total_bytes();
        const auto steps_for = [&](double rows) {
            return static_cast<std::int64_t>(std::ceil(rows / static_cast<double>(config.batch_size)));
        };
        const double rows = (1 - validation_share(config)) * static_cast<double>(data.train().rows());
        report.steps_per_epoch = steps_for(rows);
        report.steps_with_label_texts = data.has_label_names()
                                            ? steps_for(rows + static_cast<double>(report.labels))
                                            : report.steps_per_epoch;
        report.encoder = config.encoder;
        report.precision = resolve_training(context, plan).precision;
    }
    return report;
}

}  // namespace elmo
