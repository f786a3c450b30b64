#include "data/label_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text_util.h"
#include "cache/label_blocks.h"
#include "cache/ragged_writer.h"
#include "data/named_labels.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "sources/detect.h"
#include "sources/matrices/npz_matrix.h"
#include "sources/matrices/sparse_source.h"
#include "sources/records/block_pipeline.h"
#include "sources/row_source.h"

namespace elmo {
namespace fs = std::filesystem;

LabelCache::OfSplit& LabelCache::of(SplitName split) {
    return split == SplitName::kTrain ? train : split == SplitName::kTest ? test : validation;
}

void LabelFileWriter::finish(std::int64_t num_labels, std::int64_t unknown_labels) {
    rows_.finish();
    counts_.resize(num_labels);
    file_.section("counts", counts_);
    file_.section("stats",
                  std::vector<LabelStats>{{num_labels, mended_.merged_labels, mended_.unsorted_rows,
                                           unknown_labels, mended_.stray_quotes, mended_.null_labels}});
    file_.commit();
}

void LabelFileWriter::add(const LabelBlock& block) {
    rows_.add(block.ids, block.lengths);
    mended_ += block.mended;
    for (const std::uint32_t id : block.ids) {
        if (id >= counts_.size()) counts_.resize(id + std::int64_t{1});
        ++counts_[id];
    }
}

namespace {

CacheFile import_names(const Context& context, const fs::path& folder, const CacheKey& key,
                       const RowSource& source, Encoding encoding) {
    struct Block {
        std::string bytes;
        std::vector<std::int64_t> lengths;
    };
    CacheWriter file(folder, key);
    RaggedWriter<char> names(file, "names");
    const auto reader = source.open();
    for_each_block<Block>(
        context, *reader,
        [&](const RecordBlock& records, Block& block) {
            block = {};
            const auto parser = source.parser();
            std::string storage, name;
            ImportCounts ignored;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                Record record = records.record(i);
                record.bytes = valid_utf8(record, encoding, storage, ignored);
                parser->text(record, name);
                block.bytes += name;
                block.lengths.push_back(static_cast<std::int64_t>(name.size()));
            }
        },
        [&](const Block& block) { names.add(std::span<const char>(block.bytes), block.lengths); });
    names.finish();
    file.commit();
    return CacheFile::read_back(folder, key);
}

CacheFile import_numbered(const Context& context, const fs::path& folder, const CacheKey& key,
                          const RowSource& source, bool is_json, std::int64_t num_labels,
                          const ReadOptions& reading) {
    LabelFileWriter writer(folder, key);
    const auto reader = source.open();
    const std::int64_t promised = source.promised_rows();
    for_each_block<LabelBlock>(
        context, *reader,
        [&](const RecordBlock& records, LabelBlock& block) {
            block = {};
            const auto parser = source.parser();
            std::string storage;
            RowLabels labels;
            ImportCounts ignored;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                Record record = records.record(i);
                if (is_json) record.bytes = valid_utf8(record, encoding_of(reading), storage, ignored);
                parser->labels(record, labels, block.mended);
                block.add(labels.ids);
            }
        },
        [&](const LabelBlock& block) {
            writer.add(block);
            if (promised >= 0 && writer.rows() > promised)
                throw DataError(fmt::format("{}:1: expected {} rows, as the header says, found more",
                                            reader->file(), promised));
        });
    if (promised >= 0 && writer.rows() != promised)
        throw DataError(fmt::format("{}:1: expected {} rows, as the header says, found {}", reader->file(),
                                    promised, writer.rows()));
    writer.finish(num_labels, 0);
    return CacheFile::read_back(folder, key);
}

CacheFile import_npz(const fs::path& folder, const CacheKey& key, const NpzMatrix& matrix, bool merge) {
    constexpr std::int64_t kRowsABlock = 65536;
    LabelFileWriter writer(folder, key);
    LabelBlock block;
    SparseRules rules;
    rules.mend = merge;
    const auto flush = [&] {
        writer.add(block);
        block = {};
    };
    matrix.read(rules, block.mended, [&](const SparseRow& row) {
        block.add(row.indices);
        if (block.lengths.size() == kRowsABlock) flush();
    });
    flush();
    writer.finish(matrix.columns(), 0);
    return CacheFile::read_back(folder, key);
}

// A number at the front of `rest`, which moves past it and the spaces behind it.
bool take_number(std::string_view& rest, std::int64_t& number) {
    const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (status != std::errc()) return false;
    rest.remove_prefix(end - rest.data());
    const bool separated = rest.empty() || rest.front() == ' ' || rest.front() == '\t';
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    return separated;
}

CacheFile import_filter(const fs::path& folder, const CacheKey& key, const fs::path& path,
                        std::int64_t num_rows, std::int64_t num_labels) {
    std::vector<std::pair<std::int64_t, std::uint32_t>> pairs;
    RecordReader reader(path, Framing::kObjects);
    while (const auto record = reader.next()) {
        std::int64_t row = -1, label = -1;
        std::string_view rest = record->bytes;
        if (!take_number(rest, row) || !take_number(rest, label) || !rest.empty())
            fail(*record, "'row label'", fmt::format("'{}'", quoted(record->bytes)));
        if (row < 0 || row >= num_rows || label < 0 || label >= num_labels)
            fail(*record, fmt::format("a row below {} and a label below {}", num_rows, num_labels),
                 fmt::format("'{}'", quoted(record->bytes)));
        pairs.emplace_back(row, static_cast<std::uint32_t>(label));
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());

    CacheWriter file(folder, key);
    RaggedWriter<std::uint32_t> rows(file, "filter");
    std::vector<std::uint32_t> ids;
    std::vector<std::int64_t> lengths(num_rows);
    for (const auto& [row, label] : pairs) {
        ids.push_back(label);
        ++lengths[row];
    }
    rows.add(ids, lengths);
    rows.finish();
    file.commit();
    return CacheFile::read_back(folder, key);
}

// Numbers of labels have 32 bits in the cache, and the options count as far as this.
constexpr std::int64_t kMaxLabels = (std::int64_t{1} << 31) - 1;

// A header may count more labels than the rows have: they may be a part of a larger set. But many millions of
// labels in a few bytes are a mistake, unless they have names.
constexpr std::int64_t kBelievedLabels = std::int64_t{1} << 24;
constexpr std::int64_t kLabelsAByte = 64;

std::int64_t label_bytes(const Layout& layout) {
    std::int64_t bytes = 0;
    for (const SplitName split : kAllSplits) {
        std::error_code error;
        const auto size = fs::file_size(layout.files(split).labels, error);
        if (!error) bytes += static_cast<std::int64_t>(size);
    }
    return bytes;
}

// Before anything as large as the number of labels is allocated. `names` is -1 where labels have none.
void check_num_labels(const fs::path& file, std::int64_t num_labels, const Layout& layout,
                      std::int64_t names) {
    if (names >= 0 && names != num_labels)
        throw DataError(fmt::format("{}: expected {} lines, one a label of {}, found {}",
                                    layout.label_names.string(), num_labels, file.string(), names));
    if (num_labels > kMaxLabels)
        throw DataError(fmt::format("{}: expected at most {} labels, found {}", file.string(),
                                    with_commas(kMaxLabels), with_commas(num_labels)));
    if (names < 0 && num_labels > kBelievedLabels && num_labels / kLabelsAByte > label_bytes(layout))
        throw DataError(
            fmt::format("{}: expected at most {} labels in files of {}, found {} in the header; labels that "
                        "no row has are believed where a file names them",
                        file.string(), with_commas(kBelievedLabels), human_bytes(label_bytes(layout)),
                        with_commas(num_labels)));
}

// Label matrices with numbers.
void open_numbered(const Context& context, const ReadOptions& reading, const Layout& layout,
                   const fs::path& folder, LabelCache& cache) {
    const bool is_json = layout.format == DataFormat::kJsonFolder;
    std::int64_t num_labels = -1, num_names = -1;
    SparseFileShape shape;
    const std::vector<fs::path> all = {layout.train.labels, layout.test.labels, layout.validation.labels};
    if (layout.format == DataFormat::kSparse) {
        shape = join_sparse_shapes(context, all);
        num_labels = shape.labels;
    }
    if (!layout.label_names.empty()) {
        CacheKey key(layout.data, "names");
        key.add_file(layout.label_names);
        add_encoding(reading, key);
        cache.names = CacheFile::open(folder, key);
        if (!cache.names) {
            cache.reused = false;
            Layout titles = layout;
            titles.text_columns = {"title"};
            const auto source = is_json ? open_json_folder_file(layout.label_names, titles, 0, false)
                                        : open_text_lines(layout.label_names);
            cache.names = import_names(context, folder, key, *source, encoding_of(reading));
        }
        num_names = read_ragged<char>(*cache.names, "names").rows();
        if (is_json && num_names == 0)
            throw DataError(
                fmt::format("{}: expected a label a line, found an empty file", layout.label_names.string()));
        if (is_json) num_labels = num_names;
    }
    for (const SplitName split : kAllSplits) {
        const fs::path& file = layout.files(split).labels;
        if (file.empty()) continue;
        CacheKey key(layout.data, fmt::format("{}.labels", name_of(split)));
        key.add_file(file);
        if (is_json) {
            key.add_file(layout.label_names);
            key.add("label_column", layout.label_column);
            add_encoding(reading, key);
        }
        if (layout.format == DataFormat::kSparse) key.add("labels", fmt::format("{}", num_labels));
        key.add("allow_repeated_labels", reading.allow_repeated_labels ? "1" : "0");
        auto& labels = cache.of(split).labels;
        labels = CacheFile::open(folder, key);
        if (labels) {
            if (num_labels < 0) num_labels = labels->value<LabelStats>("stats").num_labels;
            continue;
        }
        cache.reused = false;
        if (is_json) {
            const auto source =
                open_json_folder_file(file, layout, num_labels, reading.allow_repeated_labels);
            labels = import_numbered(context, folder, key, *source, true, num_labels, reading);
        } else if (layout.format == DataFormat::kSparse) {
            check_num_labels(file, num_labels, layout, num_names);
            const auto source = open_sparse_labels(file, shape, reading.allow_repeated_labels);
            labels = import_numbered(context, folder, key, *source, false, num_labels, reading);
        } else if (plain_name(file).ends_with(".npz")) {
            const NpzMatrix matrix(file);
            if (num_labels >= 0 && matrix.columns() != num_labels)
                throw DataError(
                    fmt::format("{}: expected {} columns (labels), as the rest of the data set has, "
                                "found {}",
                                file.string(), num_labels, matrix.columns()));
            num_labels = matrix.columns();
            check_num_labels(file, num_labels, layout, num_names);
            labels = import_npz(folder, key, matrix, reading.allow_repeated_labels);
        } else {
            const auto source = open_label_matrix(file, num_labels, reading.allow_repeated_labels);
            num_labels = source->num_labels();
            check_num_labels(file, num_labels, layout, num_names);
            labels = import_numbered(context, folder, key, *source, false, num_labels, reading);
        }
    }
}

}  // namespace

LabelCache open_label_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const fs::path& folder) {
    LabelCache cache;
    if (layout.names_labels())
        open_named_label_cache(context, reading, layout, folder, cache);
    else
        open_numbered(context, reading, layout, folder, cache);
    for (const SplitName split : kAllSplits) {
        const fs::path& file = layout.files(split).filter;
        LabelCache::OfSplit& of_split = cache.of(split);
        if (file.empty() || !of_split.labels) continue;
        const std::int64_t rows = read_ragged<std::uint32_t>(*of_split.labels, "labels").rows();
        const std::int64_t num_labels = of_split.labels->value<LabelStats>("stats").num_labels;
        CacheKey key(layout.data, fmt::format("{}.filter", name_of(split)));
        key.add_file(file);
        key.add("rows", fmt::format("{}", rows));
        key.add("labels", fmt::format("{}", num_labels));
        of_split.filter = CacheFile::open(folder, key);
        if (of_split.filter) continue;
        cache.reused = false;
        of_split.filter = import_filter(folder, key, file, rows, num_labels);
    }
    return cache;
}

}  // namespace elmo
