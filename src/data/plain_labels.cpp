#include "data/plain_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/text_util.h"
#include "data/block_pipeline.h"
#include "data/label_blocks.h"
#include "data/row_source.h"
#include "data/share.h"
#include "elmo/error.h"

namespace elmo {
namespace fs = std::filesystem;

SplitName split_of_text(std::string_view text, double test_share) {
    return falls_in_share(hash64(text), test_share) ? SplitName::kTest : SplitName::kTrain;
}

void add_plain_options(const Config& config, const Layout& layout, CacheKey& key) {
    key.add_file(layout.data);
    key.add("format", fmt::format("{}", static_cast<int>(layout.format)));
    key.add("text_column", fmt::format("{}", fmt::join(layout.text_columns, "+")));
    key.add("label_column", layout.label_column);
    key.add("label_separator", layout.label_separator);
    key.add("test_share", fmt::format("{}", layout.test_share));
    key.add("allow_invalid_utf8", config.allow_invalid_utf8 ? "1" : "0");
    key.add("allow_repeated_labels", config.allow_repeated_labels ? "1" : "0");
}

namespace {

using Numbers = std::unordered_map<std::string_view, std::uint32_t>;

std::unique_ptr<RowSource> open_plain(const fs::path& file, const Layout& layout) {
    return layout.format == DataFormat::kJsonl ? open_plain_json(file, layout) : open_table(file, layout);
}

// Every row of a block: visit(record, text, names), names sorted and each once.
template <class Visit>
void visit_rows(const RecordBlock& records, const RowSource& source, const Config& config,
                ImportCounts& mended, const Visit& visit) {
    const auto parser = source.parser();
    std::string storage, text;
    RowLabels labels;
    for (std::int64_t i = 0; i < records.size(); ++i) {
        Record record = records.record(i);
        record.bytes = valid_utf8(record, config.allow_invalid_utf8, storage, mended);
        parser->text(record, text);
        parser->labels(record, labels, mended);
        auto& names = labels.names;
        std::sort(names.begin(), names.end());
        const auto twin = std::adjacent_find(names.begin(), names.end());
        if (twin != names.end() && !config.allow_repeated_labels)
            fail(record, "every label once", fmt::format("'{}' twice", quoted(*twin)),
                 "merge repeated ones with --allow-repeated-labels");
        const auto end = std::unique(names.begin(), names.end());
        mended.merged_labels += names.end() - end;
        names.erase(end, names.end());
        visit(record, text, names);
    }
}

// The label names of the training rows, sorted.
std::vector<std::string> collect_names(const Config& config, const Layout& layout, const RowSource& source) {
    using Names = std::unordered_set<std::string>;
    Names all;
    const auto reader = source.open();
    for_each_block<Names>(
        *reader,
        [&](const RecordBlock& records, Names& seen) {
            seen.clear();
            ImportCounts ignored;
            visit_rows(records, source, config, ignored,
                       [&](const Record&, std::string_view text, const std::vector<std::string>& names) {
                           if (split_of_text(text, layout.test_share) == SplitName::kTrain)
                               seen.insert(names.begin(), names.end());
                       });
        },
        [&](Names& seen) { all.merge(seen); });
    std::vector<std::string> sorted;
    sorted.reserve(all.size());
    while (!all.empty()) sorted.push_back(std::move(all.extract(all.begin()).value()));
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

struct TwoBlocks {
    LabelBlock train, test;
    std::unordered_set<std::string> unknown;
};

// The labels of every row as numbers, to `train` and `test`. Names without a number are left out; returns how
// many there are.
std::int64_t number_labels(const Config& config, const RowSource& source, const Numbers& numbers,
                           double test_share, LabelFileWriter& train, LabelFileWriter* test) {
    std::unordered_set<std::string> unknown;
    const auto reader = source.open();
    for_each_block<TwoBlocks>(
        *reader,
        [&](const RecordBlock& records, TwoBlocks& blocks) {
            blocks = {};
            ImportCounts mended;
            std::vector<std::uint32_t> ids;
            visit_rows(records, source, config, mended,
                       [&](const Record&, std::string_view text, const std::vector<std::string>& names) {
                           ids.clear();
                           for (const std::string& name : names) {
                               const auto found = numbers.find(name);
                               if (found != numbers.end())
                                   ids.push_back(found->second);
                               else
                                   blocks.unknown.insert(name);
                           }
                           const bool is_train = split_of_text(text, test_share) == SplitName::kTrain;
                           (is_train ? blocks.train : blocks.test).add(ids);
                       });
            blocks.train.mended = mended;
        },
        [&](TwoBlocks& blocks) {
            train.add(blocks.train);
            if (test != nullptr) test->add(blocks.test);
            unknown.merge(blocks.unknown);
        });
    return static_cast<std::int64_t>(unknown.size());
}

void import_plain(const Config& config, const Layout& layout, const fs::path& folder,
                  const CacheKey& names_key, const CacheKey& train_key, const CacheKey& test_key) {
    const auto source = open_plain(layout.data, layout);
    const std::vector<std::string> names = collect_names(config, layout, *source);
    if (names.size() > std::numeric_limits<std::uint32_t>::max())
        throw DataError(fmt::format("{}: more than 2^32 labels", layout.data.string()));

    CacheWriter file(folder, names_key);
    RaggedWriter<char> writer(file, "names");
    Numbers numbers;
    for (const std::string& name : names) {
        numbers.emplace(name, static_cast<std::uint32_t>(numbers.size()));
        const std::int64_t length = static_cast<std::int64_t>(name.size());
        writer.add(std::span<const char>(name), std::span(&length, 1));
    }
    writer.finish();

    LabelFileWriter train(folder, train_key), test(folder, test_key);
    const std::int64_t unknown = number_labels(config, *source, numbers, layout.test_share, train, &test);
    const auto num_labels = static_cast<std::int64_t>(names.size());
    test.finish(num_labels, unknown);
    train.finish(num_labels, 0);
    file.commit();
}

void import_plain_validation(const Config& config, const Layout& layout, const fs::path& folder,
                             const CacheKey& key, const RaggedRows<char>& names) {
    const auto source = open_plain(layout.validation.labels, layout);
    Numbers numbers;
    for (std::int64_t i = 0; i < names.rows(); ++i) {
        const auto name = names.row(i);
        numbers.emplace(std::string_view(name.data(), name.size()), static_cast<std::uint32_t>(i));
    }
    LabelFileWriter writer(folder, key);
    const std::int64_t unknown = number_labels(config, *source, numbers, 0, writer, nullptr);
    writer.finish(names.rows(), unknown);
}

}  // namespace

void open_plain_labels(const Config& config, const Layout& layout, const fs::path& folder,
                       LabelCache& cache) {
    CacheKey names(layout.data, "names"), train(layout.data, "train.labels"),
        test(layout.data, "test.labels");
    for (CacheKey* key : {&names, &train, &test}) add_plain_options(config, layout, *key);
    const auto open_all = [&] {
        cache.names = CacheFile::open(folder, names);
        cache.train.labels = CacheFile::open(folder, train);
        cache.test.labels = CacheFile::open(folder, test);
        return cache.names && cache.train.labels && cache.test.labels;
    };
    if (!open_all()) {
        cache.reused = false;
        import_plain(config, layout, folder, names, train, test);
        cache.names = CacheFile::read_back(folder, names);
        cache.train.labels = CacheFile::read_back(folder, train);
        cache.test.labels = CacheFile::read_back(folder, test);
    }
    if (layout.test_share <= 0) cache.test.labels.reset();

    if (layout.validation.labels.empty()) return;
    CacheKey validation(layout.data, "validation.labels");
    add_plain_options(config, layout, validation);
    validation.add_file(layout.validation.labels);
    cache.validation.labels = CacheFile::open(folder, validation);
    if (cache.validation.labels) return;
    cache.reused = false;
    import_plain_validation(config, layout, folder, validation, read_ragged<char>(*cache.names, "names"));
    cache.validation.labels = CacheFile::read_back(folder, validation);
}

}  // namespace elmo
