#include "data/named_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/progress.h"
#include "base/text_util.h"
#include "batches/share.h"
#include "cache/label_blocks.h"
#include "cache/name_table.h"
#include "elmo/error.h"
#include "sources/records/block_pipeline.h"
#include "sources/row_source.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace fs = std::filesystem;

SplitName split_of_text(std::string_view text, const HashedShare& test_share) {
    if (test_share.trimmed) text = trim(text);
    return falls_in_share(hash64(text), test_share.share) ? SplitName::kTest : SplitName::kTrain;
}

std::string all_rows_are_test(const Layout& layout) {
    return fmt::format(
        "{}: expected training rows, found none: all rows are in the test share ({}, by a hash of their "
        "texts); give --test-share 0 to train on all of them, --split all to score all of them, or more rows",
        layout.train.text.string(), layout.test_share.share);
}

std::string describe(const HashedShare& test_share) {
    return fmt::format("{}{}", test_share.share,
                       test_share.share > 0 && test_share.trimmed ? " of trimmed texts" : "");
}

void add_table_options(const ReadOptions& reading, const Layout& layout, CacheKey& key) {
    key.add("columns", fmt::format("{}", fmt::join(layout.table.columns, ",")));
    key.add("delimiter", reading.delimiter);
    key.add("quotes", fmt::format("{}", static_cast<int>(reading.quotes)));
    key.add("allow_stray_quotes", reading.allow_stray_quotes ? "2" : "0");
}

void add_row_options(const ReadOptions& reading, const Layout& layout, CacheKey& key) {
    key.add("format", name_of(layout.format));
    key.add("text_column", fmt::format("{}", fmt::join(layout.text_columns, "+")));
    key.add("label_column", layout.label_column);
    key.add("label_separator", layout.cells.name());
    add_table_options(reading, layout, key);
    key.add("allow_null_labels", reading.allow_null_labels ? "1" : "0");
    key.add("test_share", describe(layout.test_share));
    add_encoding(reading, key);
    key.add("allow_repeated_labels", reading.allow_repeated_labels ? "1" : "0");
}

namespace {

// Names of the training rows and their numbers: places in the sorted order.
struct Numbering {
    NameTable names;
    std::vector<std::uint32_t> number;  // of the table's i-th name

    std::optional<std::uint32_t> find(std::string_view name) const {
        const auto found = names.find(name);
        if (!found) return std::nullopt;
        return number[*found];
    }
};

// What rows are read from.
struct NamedRows {
    fs::path file;
    Layout layout;
    std::unique_ptr<RowSource> source = open_named_labels(file, layout);
};

bool has_line_end(const std::string& name) {
    return name.find_first_of("\r\n") != name.npos;
}

// Names are stored one per line. A separator cuts a field, but no item of a list.
void refuse_line_ends(const Record& record, const std::vector<std::string>& names, const NamedRows& rows) {
    const auto wrong = std::ranges::find_if(names, has_line_end);
    if (wrong == names.end()) return;
    Layout by_line = rows.layout;
    by_line.cells.separator = "\n";
    RowLabels labels;
    ImportCounts ignored;
    open_named_labels(rows.file, by_line)->parser()->labels(record, labels, ignored);
    const bool is_field = !rows.layout.cells.lists && std::ranges::none_of(labels.names, has_line_end);
    fail(record, "labels without a line end", fmt::format("'{}'", quoted(*wrong)),
         is_field
             ? "if these are several labels of one field, give --label-separator $'\\n', in a list write "
               "each as an item; otherwise replace the line end"
             : "if these are several labels, write them as a list of labels; otherwise replace the line "
               "end");
}

// Every row of a block: visit(record, text, names), names sorted and each once.
template <class Visit>
void visit_rows(const RecordBlock& records, const NamedRows& rows, const ReadOptions& reading,
                ImportCounts& mended, const Visit& visit) {
    const auto parser = rows.source->parser();
    std::string storage, text;
    RowLabels labels;
    for (std::int64_t i = 0; i < records.size(); ++i) {
        Record record = records.record(i);
        record.bytes = valid_utf8(record, encoding_of(reading), storage, mended);
        parser->text(record, text);
        parser->labels(record, labels, mended);
        auto& names = labels.names;
        refuse_line_ends(record, names, rows);
        std::sort(names.begin(), names.end());
        const auto twin = std::adjacent_find(names.begin(), names.end());
        if (twin != names.end() && !reading.allow_repeated_labels)
            fail(record, "every label once", fmt::format("'{}' twice", quoted(*twin)),
                 "merge repeated ones with --allow-repeated-labels");
        const auto end = std::unique(names.begin(), names.end());
        mended.merged_labels += names.end() - end;
        names.erase(end, names.end());
        visit(record, text, names);
    }
}

NameTable collect_names(const Context& context, const ReadOptions& reading, const NamedRows& rows) {
    using Names = std::unordered_set<std::string>;
    NameTable all;
    const auto reader = rows.source->open();
    Progress progress(context, "collecting labels", reader->total_bytes(), "bytes");
    for_each_block<Names>(
        context, *reader,
        [&](const RecordBlock& records, Names& seen) {
            seen.clear();
            ImportCounts ignored;
            visit_rows(records, rows, reading, ignored,
                       [&](const Record&, std::string_view text, const std::vector<std::string>& names) {
                           if (split_of_text(text, rows.layout.test_share) == SplitName::kTrain)
                               seen.insert(names.begin(), names.end());
                       });
        },
        [&](const Names& seen, std::int64_t bytes) {
            for (const std::string& name : seen) all.add(name);
            progress.update(bytes);
        });
    progress.finish();
    return all;
}

struct TwoBlocks {
    LabelBlock train, test;
    std::unordered_set<std::string> unknown;
};

// The labels of every row as numbers, to `train` and `test`. Names without a number are left out; returns how
// many there are.
std::int64_t number_labels(const Context& context, const ReadOptions& reading, const NamedRows& rows,
                           const Numbering& numbers, const HashedShare& test_share, LabelFileWriter& train,
                           LabelFileWriter* test) {
    NameTable unknown;
    const auto reader = rows.source->open();
    Progress progress(context, "importing labels", reader->total_bytes(), "bytes");
    for_each_block<TwoBlocks>(
        context, *reader,
        [&](const RecordBlock& records, TwoBlocks& blocks) {
            blocks = {};
            ImportCounts mended;
            std::vector<std::uint32_t> ids;
            visit_rows(records, rows, reading, mended,
                       [&](const Record&, std::string_view text, const std::vector<std::string>& names) {
                           ids.clear();
                           for (const std::string& name : names) {
                               if (const auto number = numbers.find(name))
                                   ids.push_back(*number);
                               else
                                   blocks.unknown.insert(name);
                           }
                           const bool is_train = split_of_text(text, test_share) == SplitName::kTrain;
                           (is_train ? blocks.train : blocks.test).add(ids);
                       });
            blocks.train.mended = mended;
        },
        [&](TwoBlocks& blocks, std::int64_t bytes) {
            train.add(blocks.train);
            if (test != nullptr) test->add(blocks.test);
            for (const std::string& name : blocks.unknown) unknown.add(name);
            progress.update(bytes);
        });
    progress.finish();
    return unknown.size();
}

// Names and training rows, and with `test_key` the test rows that the same file holds.
void import_training(const Context& context, const ReadOptions& reading, const Layout& layout,
                     const fs::path& folder, const CacheKey& names_key, const CacheKey& train_key,
                     const CacheKey* test_key) {
    const NamedRows rows{layout.train.labels, layout};
    Numbering numbers{collect_names(context, reading, rows), {}};
    std::vector<std::uint32_t> order = numbers.names.sorted();
    numbers.number.resize(order.size());
    CacheWriter file(folder, names_key);
    RaggedWriter<char> writer(file, "names");
    for (std::size_t i = 0; i < order.size(); ++i) {
        numbers.number[order[i]] = static_cast<std::uint32_t>(i);
        const std::string_view name = numbers.names.name(order[i]);
        const auto length = static_cast<std::int64_t>(name.size());
        writer.add(std::span<const char>(name), std::span(&length, 1));
    }
    writer.finish();
    std::vector<std::uint32_t>().swap(order);

    const std::int64_t num_labels = numbers.names.size();
    LabelFileWriter train(folder, train_key);
    std::optional<LabelFileWriter> test;
    if (test_key != nullptr) test.emplace(folder, *test_key);
    const std::int64_t unknown =
        number_labels(context, reading, rows, numbers, layout.test_share, train, test ? &*test : nullptr);
    if (test) test->finish(num_labels, unknown);
    train.finish(num_labels, 0);
    file.commit();
}

// Rows of a file of its own, whose labels have the numbers that training gave them.
void import_other(const Context& context, const ReadOptions& reading, const Layout& layout,
                  const fs::path& folder, const CacheKey& key, const fs::path& path,
                  const RaggedRows<char>& names) {
    const NamedRows rows{path, layout};
    Numbering numbers;
    numbers.number.resize(static_cast<std::size_t>(names.rows()));
    for (std::int64_t i = 0; i < names.rows(); ++i) {
        const auto name = names.row(i);
        numbers.number[numbers.names.add({name.data(), name.size()})] = static_cast<std::uint32_t>(i);
    }
    LabelFileWriter writer(folder, key);
    const std::int64_t unknown = number_labels(context, reading, rows, numbers, {}, writer, nullptr);
    writer.finish(names.rows(), unknown);
}

}  // namespace

void open_named_label_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const fs::path& folder, LabelCache& cache) {
    const auto key_with = [&](const Layout& of_file, const std::string& part) {
        CacheKey key(layout.data, part);
        key.add_file(layout.train.labels);
        add_row_options(reading, of_file, key);
        return key;
    };
    const auto key_of = [&](const std::string& part) { return key_with(layout, part); };
    const bool by_hash = layout.splits_by_hash();
    const CacheKey names = key_of("names"), train = key_of("train.labels"), test = key_of("test.labels");
    cache.names = CacheFile::open(folder, names);
    cache.train.labels = CacheFile::open(folder, train);
    if (by_hash) cache.test.labels = CacheFile::open(folder, test);
    if (!cache.names || !cache.train.labels || (by_hash && !cache.test.labels)) {
        cache.reused = false;
        import_training(context, reading, layout, folder, names, train, by_hash ? &test : nullptr);
        cache.names = CacheFile::read_back(folder, names);
        cache.train.labels = CacheFile::read_back(folder, train);
        if (by_hash) cache.test.labels = CacheFile::read_back(folder, test);
    }
    for (const SplitName split : {SplitName::kTest, SplitName::kValidation}) {
        const fs::path& file = layout.files(split).labels;
        if (file.empty() || (split == SplitName::kTest && by_hash)) continue;
        Layout of_file = layout;
        if (const auto& cells = layout.files(split).cells) of_file.cells = *cells;
        // Its labels are numbered by those of the training file.
        CacheKey key = key_with(of_file, fmt::format("{}.labels", name_of(split)));
        key.add("label_separator of training", layout.cells.name());
        key.add_file(file);
        auto& labels = cache.of(split).labels;
        labels = CacheFile::open(folder, key);
        if (labels) continue;
        cache.reused = false;
        import_other(context, reading, of_file, folder, key, file, read_ragged<char>(*cache.names, "names"));
        labels = CacheFile::read_back(folder, key);
    }
}

}  // namespace elmo
