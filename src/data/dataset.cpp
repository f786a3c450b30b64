#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <set>

#include "base/text_util.h"
#include "batches/batcher.h"
#include "batches/share.h"
#include "batches/streams.h"
#include "cache/ragged_writer.h"
#include "config/rows_path.h"
#include "data/label_doubts.h"
#include "data/label_import.h"
#include "data/named_labels.h"
#include "data/token_import.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "numerics/philox.h"
#include "sources/detected.h"
#include "sources/equal_rows.h"
#include "sources/known_paths.h"
#include "sources/source_stamps.h"
#include "sources/tables/table_shape.h"

namespace elmo {
namespace fs = std::filesystem;

struct Dataset::Impl {
    Layout layout;
    std::optional<SourceStamps> sources;  // before anything of them was read
    fs::path folder;
    LabelCache labels;
    TokenCache tokens;
    Split splits[3];
    std::int64_t num_labels = 0;
    RaggedRows<char> names;
    std::span<const std::int64_t> counts;

    Split& split(SplitName name) { return splits[static_cast<int>(name)]; }
    bool train_is_empty() const { return splits[0].present && splits[0].rows() == 0; }
    void open_labels(const Context& context, const ReadOptions& reading);
    void open_tokens(const Context& context, const ReadOptions& reading, const Tokenizer& tokenizer,
                     const std::vector<SplitName>& wanted);
    void summarize(DataSummary& summary) const;
    void warn_of_labels(const Context& context) const;
    void warn_of_texts(const Context& context) const;
};

namespace {

// Labels of a cache file, whose rows ascend and stay below num_labels.
LabelMatrix read_labels(const CacheFile& file, const std::string& name, std::int64_t num_labels) {
    const auto rows = read_ragged<std::uint32_t>(file, name);
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
        std::int64_t before = -1;
        for (const std::uint32_t label : rows.row(row)) {
            if (label <= before || label >= num_labels) file.inconsistent(name);
            before = label;
        }
    }
    return rows;
}

// Rows of each label.
std::span<const std::int64_t> read_counts(const CacheFile& file, std::int64_t num_labels,
                                          std::int64_t num_rows) {
    const auto counts = file.section<std::int64_t>("counts");
    if (static_cast<std::int64_t>(counts.size()) != num_labels ||
        std::any_of(counts.begin(), counts.end(), [&](auto n) { return n < 0 || n > num_rows; }))
        file.inconsistent("counts");
    return counts;
}

// The cache of a copy goes with it: the marks lie where the cache of the original would. Without them a run
// is told its data again, which is no reason to stop.
void mark_originals(const fs::path& folder, const ReadOptions& reading) {
    const std::string data = is_rows_path(reading.data_original) ? "" : reading.data_original;
    if (data.empty() && reading.validation_original.empty()) return;
    try {
        mark_known_originals(data.empty() ? folder : cache_folder(reading.cache, data), reading);
    } catch (const Error&) {
    }
}

}  // namespace

void Dataset::Impl::open_labels(const Context& context, const ReadOptions& reading) {
    layout = find_layout(reading);
    sources.emplace(layout);
    say_detected(context, layout);
    folder = cache_folder(reading.cache, layout.data);
    mark_known_paths(folder, reading);
    mark_originals(folder, reading);
    labels = open_label_cache(context, reading, layout, folder);
    num_labels = -1;
    std::string first;
    for (const SplitName name : kAllSplits) {
        const auto& of_split = labels.of(name);
        if (!of_split.labels) continue;
        Split& view = split(name);
        view.present = true;
        const std::int64_t columns = of_split.labels->value<LabelStats>("stats").num_labels;
        view.labels = read_labels(*of_split.labels, "labels", columns);
        const auto counts_here = read_counts(*of_split.labels, columns, view.rows());
        if (name == SplitName::kTrain) counts = counts_here;
        if (of_split.filter) view.filter = read_labels(*of_split.filter, "filter", columns);
        if (of_split.filter && view.filter.rows() != view.rows()) of_split.filter->inconsistent("filter");
        const std::string file = layout.files(name).labels.string();
        if (num_labels >= 0 && columns != num_labels)
            throw DataError(
                fmt::format("{}: expected {} labels, as {} has, found {}", file, num_labels, first, columns));
        num_labels = columns;
        first = file;
    }
    if (num_labels < 0)
        throw DataError(
            fmt::format("{}: expected trn_X_Y.txt or tst_X_Y.txt, found neither", layout.data.string()));
    if (num_labels == 0 &&
        std::all_of(std::begin(splits), std::end(splits), [](const Split& s) { return s.rows() == 0; }))
        throw DataError(fmt::format("{}: expected rows{}, found none", first,
                                    layout.format == DataFormat::kCsv || layout.format == DataFormat::kTsv
                                        ? " after the header"
                                        : ""));
    if (train_is_empty() && layout.splits_by_hash()) throw DataError(all_rows_are_test(layout));
    if (num_labels == 0)
        throw DataError(fmt::format(
            "{}: expected at least one label, found none{}", first,
            layout.format >= DataFormat::kTsv        ? "; is --label-column the column of the labels?"
            : layout.format == DataFormat::kFastText ? "; they are words that begin with '__label__'"
                                                     : ""));
    if (train_is_empty())
        throw DataError(fmt::format("{}: expected training rows, found none", layout.train.labels.string()));
    if (labels.names) {
        names = read_ragged<char>(*labels.names, "names");
        if (names.rows() != num_labels)
            throw DataError(fmt::format("{}: expected {} lines, one a label of {}, found {}",
                                        layout.label_names.string(), num_labels, first, names.rows()));
    }
}

void Dataset::Impl::open_tokens(const Context& context, const ReadOptions& reading,
                                const Tokenizer& tokenizer, const std::vector<SplitName>& wanted) {
    std::vector<SplitName> there;
    for (const SplitName name : wanted) {
        if (!split(name).present) continue;
        if (layout.files(name).text.empty())
            throw DataError(fmt::format("{}: the {} texts are missing beside {}", layout.data.string(),
                                        name_of(name), layout.files(name).labels.filename().string()));
        there.push_back(name);
    }
    tokens = open_token_cache(context, reading, layout, folder, tokenizer, there);
    for (const SplitName name : there) {
        split(name).tokens = read_ragged<std::int32_t>(*tokens.of(name), "tokens");
        if (split(name).tokens.rows() != split(name).rows())
            throw DataError(fmt::format("{}: expected {} texts, one a row of {}, found {}",
                                        layout.files(name).text.string(), split(name).rows(),
                                        layout.files(name).labels.string(), split(name).tokens.rows()));
    }
}

void Dataset::Impl::summarize(DataSummary& summary) const {
    const Split& train = splits[0];
    const Split& test = splits[1];
    summary.format = layout.describe();
    summary.train_rows = train.rows();
    summary.test_rows = test.rows();
    summary.labels = num_labels;
    const Split& main = train.present ? train : test;
    const auto entries = static_cast<double>(main.labels.values.size());
    summary.labels_per_row = main.rows() > 0 ? entries / static_cast<double>(main.rows()) : 0;
    summary.rows_per_label = num_labels > 0 ? entries / static_cast<double>(num_labels) : 0;
    std::int64_t token_rows = 0, num_tokens = 0;
    for (const Split& split : splits) {
        for (std::int64_t i = 0; i < split.rows(); ++i)
            summary.rows_without_labels += split.labels.length(i) == 0;
        for (std::int64_t i = 0; i < split.tokens.rows(); ++i)
            summary.longest_row_tokens = std::max(summary.longest_row_tokens, split.tokens.length(i));
        token_rows += split.tokens.rows();
        num_tokens += static_cast<std::int64_t>(split.tokens.values.size());
    }
    summary.tokens_per_row =
        token_rows > 0 ? static_cast<double>(num_tokens) / static_cast<double>(token_rows) : 0;
    for (const auto* file : {&tokens.train, &tokens.test, &tokens.validation}) {
        if (!*file) continue;
        const TokenStats& stats = (*file)->value<TokenStats>("stats");
        summary.replaced_utf8 += stats.replaced_utf8;
        summary.cut_rows += stats.cut_rows;
    }
    for (const auto* of_split : {&labels.train, &labels.test, &labels.validation})
        if (of_split->labels)
            summary.merged_labels += of_split->labels->value<LabelStats>("stats").merged_labels;
    if (labels.test.labels)
        summary.labels_unseen_in_train = labels.test.labels->value<LabelStats>("stats").unknown_labels;
    if (!counts.empty()) {
        std::vector<bool> unseen(num_labels);
        for (const std::uint32_t label : test.labels.values)
            if (counts[label] == 0) unseen[label] = true;
        summary.labels_unseen_in_train += std::count(unseen.begin(), unseen.end(), true);
    }
    summary.has_label_names = labels.names.has_value();
    summary.train_filter_pairs = static_cast<std::int64_t>(train.filter.values.size());
    summary.test_filter_pairs = static_cast<std::int64_t>(test.filter.values.size());
    summary.cache = folder.string();
    summary.cache_reused = labels.reused && tokens.reused;
}

namespace {

void say(const Context& context, std::int64_t count, const std::string& file, std::string_view noun,
         std::string_view what) {
    if (count > 0) context.warning(fmt::format("{}: {} {}", file, counted(count, noun), what));
}

}  // namespace

// Reports repaired input.
void Dataset::Impl::warn_of_labels(const Context& context) const {
    for (const SplitName name : kAllSplits) {
        const auto& file = labels.of(name).labels;
        const std::string source = layout.shown(layout.files(name).labels);
        if (!file) continue;
        const LabelStats& stats = file->value<LabelStats>("stats");
        say(context, stats.merged_labels, source, "repeated label", "merged");
        say(context, stats.unsorted_rows, source, "row", "with labels out of order, now sorted");
        say(context, stats.stray_quotes, source, "row", "with quotes inside a field, taken as text");
        say(context, stats.null_labels, source, "row",
            "with null, a word for it or no key for labels: such a null is no label");
    }
}

void Dataset::Impl::warn_of_texts(const Context& context) const {
    for (const auto& [file, name] :
         {std::pair(&tokens.train, SplitName::kTrain), std::pair(&tokens.test, SplitName::kTest),
          std::pair(&tokens.validation, SplitName::kValidation)})
        if (*file)
            say(context, (*file)->value<TokenStats>("stats").replaced_utf8,
                layout.shown(layout.files(name).text), "row", "with invalid UTF-8, now U+FFFD");
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

Dataset Dataset::open_with(const Context& context, const ReadOptions& reading, const Tokenizer* tokenizer,
                           DataSummary* summary, const std::vector<SplitName>& splits, Warn warn) {
    const auto start = std::chrono::steady_clock::now();
    Dataset data(std::make_unique<Impl>());
    Impl& impl = *data.impl_;
    impl.open_labels(context, reading);
    const bool always = warn == Warn::kAlways;
    if (always || !impl.labels.reused)
        for (const std::string& doubt : label_doubts(data, impl.layout))
            context.warning(fmt::format("{}: {}", impl.layout.shown(impl.layout.train.labels), doubt));
    if (tokenizer != nullptr) impl.open_tokens(context, reading, *tokenizer, splits);
    impl.sources->require_unchanged();
    if (always || !impl.labels.reused) impl.warn_of_labels(context);
    constexpr double kSurely = 5;  // rows that a share of so many would hold out
    if (always && impl.layout.splits_by_hash() && data.test().rows() == 0 &&
        impl.layout.test_share.share * static_cast<double>(data.train().rows()) > kSurely)
        context.warning(fmt::format(
            "{}: none of its {} is held out for testing: its texts are few, or it is the training half of a "
            "file that was divided before; score the run on rows that are not in it",
            impl.layout.shown(impl.layout.train.labels), counted(data.train().rows(), "row")));
    if (always || tokenizer == nullptr) {
        for (const SplitName name : kAllSplits) data.warn_of_unseen(context, name);
        const auto names = [&] {
            std::vector<std::string_view> all;
            for (std::int64_t label = 0; label < data.num_labels(); ++label)
                all.push_back(data.label_name(label));
            return all;
        };
        for (const SplitName name : {SplitName::kTest, SplitName::kValidation})
            data.warn_of_missing_columns(context, name, names);
    }
    if (always || !impl.tokens.reused) impl.warn_of_texts(context);
    if (summary != nullptr) {
        *summary = {};
        impl.summarize(*summary);
        summary->import_seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return data;
}

void Dataset::warn_of_unseen(const Context& context, SplitName name) const {
    if (const auto& file = impl_->labels.of(name).labels)
        say(context, file->value<LabelStats>("stats").unknown_labels,
            impl_->layout.shown(impl_->layout.files(name).labels), "label",
            fmt::format("of the {} rows never seen in training, left out", name_of(name)));
}

void Dataset::warn_of_missing_columns(const Context& context, SplitName name, const Names& names) const {
    constexpr std::int64_t kShown = 3;
    const fs::path& file = impl_->layout.files(name).labels;
    if (file.empty()) return;
    const std::vector<std::string> columns = flag_names(file, impl_->layout);
    if (columns.empty()) return;
    const std::set<std::string_view> there(columns.begin(), columns.end());
    const std::vector<std::string_view> labels = names();
    std::int64_t missing = 0;
    std::string shown;
    for (const std::string_view label : labels)
        if (there.count(label) == 0 && missing++ < kShown)
            shown += fmt::format("{}'{}'", shown.empty() ? "" : ", ", quoted(label));
    if (missing > 0)
        context.warning(
            fmt::format("{}: {} of {} labels have no column ({}{}): its rows count as without them",
                        impl_->layout.shown(file), with_commas(missing), with_commas(std::ssize(labels)),
                        shown, missing > kShown ? ", ..." : ""));
}

Dataset Dataset::open_labels(const Context& context, const ReadOptions& reading, DataSummary* summary) {
    return open_with(context, reading, nullptr, summary, {}, Warn::kWhenImported);
}

Dataset Dataset::open(const Context& context, const ReadOptions& reading, const Tokenizer& tokenizer,
                      DataSummary* summary, const std::vector<SplitName>& splits, Warn warn) {
    return open_with(context, reading, &tokenizer, summary, splits, warn);
}

const Split& Dataset::split(SplitName name) const {
    return impl_->split(name);
}
std::int64_t Dataset::num_labels() const {
    return impl_->num_labels;
}
bool Dataset::has_label_names() const {
    return impl_->labels.names.has_value();
}
std::span<const std::int64_t> Dataset::label_counts() const {
    return impl_->counts;
}

std::string_view Dataset::label_name(std::int64_t label) const {
    if (!has_label_names()) return {};
    const auto name = impl_->names.row(label);
    return {name.data(), name.size()};
}

std::uint64_t Dataset::names_hash() const {
    Hash64 hash;
    for (std::int64_t label = 0; label < num_labels(); ++label) {
        hash.update(label_name(label));
        hash.update("\n");
    }
    return hash.digest();
}

const fs::path& Dataset::cache() const {
    return impl_->folder;
}

std::string Dataset::filter_description(SplitName name) const {
    const fs::path& file = impl_->layout.files(name).filter;
    if (file.empty()) return "none";
    return fmt::format("{} (xxh64 {})", file.filename().string(), hash_text(hash_file(file)));
}

std::int64_t Dataset::mapped_bytes() const {
    std::int64_t bytes = 0;
    const auto add = [&](const std::optional<CacheFile>& file) { bytes += file ? file->bytes() : 0; };
    add(impl_->labels.names);
    for (const SplitName name : kAllSplits) {
        add(impl_->labels.of(name).labels);
        add(impl_->labels.of(name).filter);
        add(impl_->tokens.of(name));
    }
    return bytes;
}

RowLists split_validation(const ReadOptions& reading, std::int64_t train_rows, const TokenRows& texts) {
    const double share = parse_validation(reading).share;
    const NoiseKey key{reading.seed, 0, kStreamValidation};
    const bool together = share > 0 && reading.equal_texts_together;
    assert(!together || texts.rows() == train_rows);
    std::vector<std::int64_t> first;
    if (together) first = first_of_equal(train_rows, [&](std::int64_t row) { return texts.row(row); });
    RowLists lists;
    for (std::int64_t row = 0; row < train_rows; ++row) {
        bool chosen = false;
        if (share > 0) {
            const PhiloxBlock noise =
                noise_block(key, together ? first[static_cast<std::size_t>(row)] : row, 0);
            chosen = falls_in_share(std::uint64_t{noise[1]} << 32 | noise[0], share);
        }
        (chosen ? lists.validation : lists.train).push_back(row);
    }
    if (lists.train.empty())
        throw ConfigError(fmt::format("validation: a share of {} leaves none of the {} rows to train on",
                                      share, train_rows));
    return lists;
}

std::int64_t longest_filter(const Split& split) {
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < split.filter.rows(); ++row)
        longest = std::max(longest, split.filter.length(row));
    return longest;
}

}  // namespace elmo
