#include "sources/matrices/sparse_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text_util.h"
#include "elmo/error.h"
#include "sources/detect.h"
#include "sources/records/block_pipeline.h"

namespace elmo {
namespace {

constexpr float kLevels = 8;  // times that the largest value of a row stands in it
constexpr std::int64_t kMaxFeatures = (std::int64_t{1} << 24) - 16;  // token ids

SparseFileShape parse_header(const Record& record) {
    SparseFileShape shape;
    shape.has_header = true;
    std::string_view rest = record.bytes;
    for (std::int64_t* number : {&shape.rows, &shape.features, &shape.labels}) {
        rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
        const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), *number);
        if (status != std::errc())
            fail(record, "a header 'rows features labels'", fmt::format("'{}'", quoted(record.bytes)));
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    }
    if (shape.labels > std::numeric_limits<std::uint32_t>::max() || shape.features > kMaxFeatures)
        fail(record, fmt::format("at most {} features and 2^32 labels", kMaxFeatures),
             fmt::format("'{}'", quoted(record.bytes)));
    return shape;
}

// The labels as the entries of a sparse row: "3,5" -> "3 5".
std::string_view spaced(std::string_view labels, std::string& storage) {
    storage.assign(labels);
    std::replace(storage.begin(), storage.end(), ',', ' ');
    return storage;
}

class SparseLabelParser : public RowParser {
  public:
    SparseLabelParser(const SparseFileShape& shape, bool merge) : shape_(shape) { rules_.mend = merge; }
    void text(const Record&, std::string&) override { throw Error("a sparse file has no texts"); }
    void labels(const Record& record, RowLabels& labels, ImportCounts& counts) override {
        parse_sparse_record(record, shape_, rules_, &row_, nullptr, counts);
        labels.ids = row_.indices;
    }

  private:
    const SparseFileShape& shape_;
    SparseRules rules_;
    SparseRow row_;
};

class SparseLabels : public RowSource {
  public:
    SparseLabels(std::filesystem::path file, const SparseFileShape& shape, bool merge)
        : file_(std::move(file)), shape_(shape), merge_(merge) {
        shape_.rows = -1;
        RecordReader reader(file_, Framing::kLines);
        if (const auto first = reader.next(); first && is_sparse_header(first->bytes))
            shape_.rows = parse_header(*first).rows;
    }
    std::unique_ptr<RecordReader> open() const override { return open_sparse_rows(file_); }
    std::unique_ptr<RowParser> parser() const override {
        return std::make_unique<SparseLabelParser>(shape_, merge_);
    }
    std::int64_t promised_rows() const override { return shape_.rows; }

  private:
    std::filesystem::path file_;
    SparseFileShape shape_;
    bool merge_;
};

std::string_view labels_part(std::string_view row) {
    const std::string_view list = row.substr(0, row.find_first_of(" \t"));
    return list.find(':') == list.npos ? list : std::string_view();  // features only
}

SparseRow features_of(const Record& record) {
    SparseFileShape any;
    any.features = kMaxFeatures;
    SparseRow features;
    ImportCounts ignored;
    SparseRules rules;
    rules.mend = true;
    parse_sparse_record(record, any, rules, nullptr, &features, ignored);
    return features;
}

}  // namespace

std::unique_ptr<RecordReader> open_sparse_rows(const std::filesystem::path& file) {
    auto reader = std::make_unique<RecordReader>(file, Framing::kLines);
    const auto first = reader->next();
    if (first && is_sparse_header(first->bytes)) return reader;
    return std::make_unique<RecordReader>(file, Framing::kLines);
}

SparseFileShape read_sparse_shape(const Context& context, const std::filesystem::path& file) {
    {
        RecordReader reader(file, Framing::kLines);
        const auto first = reader.next();
        if (!first)
            throw DataError(fmt::format("{}: expected a header 'rows features labels', found an empty file",
                                        file.string()));
        if (is_sparse_header(first->bytes)) return parse_header(*first);
    }
    struct Most {
        std::int64_t features = 0, labels = 0;
    };
    SparseFileShape shape;
    RecordReader reader(file, Framing::kLines);
    for_each_block<Most>(
        context, reader,
        [&](const RecordBlock& records, Most& most) {
            most = {};
            SparseFileShape any;
            any.features = kMaxFeatures;
            any.labels = std::numeric_limits<std::uint32_t>::max();
            SparseRules rules;
            rules.mend = true;
            SparseRow labels, features;
            ImportCounts ignored;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                parse_sparse_record(records.record(i), any, rules, &labels, &features, ignored);
                if (!labels.indices.empty())
                    most.labels =
                        std::max<std::int64_t>(most.labels, labels.indices.back() + std::int64_t{1});
                if (!features.indices.empty())
                    most.features =
                        std::max<std::int64_t>(most.features, features.indices.back() + std::int64_t{1});
            }
        },
        [&](const Most& most) {
            shape.labels = std::max(shape.labels, most.labels);
            shape.features = std::max(shape.features, most.features);
        });
    return shape;
}

SparseFileShape join_sparse_shapes(const Context& context, const std::vector<std::filesystem::path>& files) {
    SparseFileShape all;
    std::string first;
    for (const auto& file : files) {
        if (file.empty()) continue;
        const SparseFileShape shape = read_sparse_shape(context, file);
        if (all.has_header && shape.has_header &&
            (all.features != shape.features || all.labels != shape.labels))
            throw DataError(
                fmt::format("{}:1: expected {} features and {} labels, as {} has, found {} and {}",
                            file.string(), all.features, all.labels, first, shape.features, shape.labels));
        if (shape.has_header && !all.has_header) first = file.string();
        all.has_header |= shape.has_header;
        all.features = std::max(all.features, shape.features);
        all.labels = std::max(all.labels, shape.labels);
    }
    return all;
}

void parse_sparse_record(const Record& record, const SparseFileShape& shape, const SparseRules& rules,
                         SparseRow* labels, SparseRow* features, ImportCounts& counts) {
    const std::string_view list = labels_part(record.bytes);
    if (labels != nullptr) {
        std::string storage;
        const Record part{spaced(list, storage), record.line, record.file};
        parse_sparse_row(part, shape.labels, rules, *labels, counts);
    }
    if (features != nullptr) {
        const Record part{record.bytes.substr(list.size()), record.line, record.file};
        parse_sparse_row(part, shape.features, rules, *features, counts);
    }
}

std::unique_ptr<RowSource> open_sparse_labels(const std::filesystem::path& file, const SparseFileShape& shape,
                                              bool merge) {
    return std::make_unique<SparseLabels>(file, shape, merge);
}

std::string sparse_record_features(const Record& record) {
    features_of(record);  // DataError
    const std::string_view features = record.bytes.substr(labels_part(record.bytes).size());
    return std::string(features.substr(std::min(features.find_first_not_of(" \t"), features.size())));
}

std::string sparse_record_text(const Record& record) {
    std::vector<std::int32_t> tokens;
    append_feature_tokens(features_of(record), tokens);
    return fmt::format("{}", fmt::join(tokens, " "));
}

void append_feature_tokens(const SparseRow& features, std::vector<std::int32_t>& tokens) {
    float largest = 0;
    for (const float value : features.values) largest = std::max(largest, std::abs(value));
    std::vector<int> times;
    int common = 0;
    for (const float value : features.values) {
        times.push_back(std::max(1, static_cast<int>(std::lround(kLevels * (std::abs(value) / largest)))));
        common = std::gcd(common, times.back());
    }
    for (std::size_t i = 0; i < times.size(); ++i)
        tokens.insert(tokens.end(), times[i] / common, static_cast<std::int32_t>(features.indices[i]));
}

}  // namespace elmo
