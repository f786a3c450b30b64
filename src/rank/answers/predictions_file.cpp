#include "rank/answers/predictions_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"
#include "sources/matrices/sparse_matrix.h"
#include "sources/records/record_reader.h"

namespace elmo {

PredictionsWriter::PredictionsWriter(const std::filesystem::path& file, std::int64_t rows,
                                     std::int64_t labels)
    : file_(file), rows_(rows) {
    file_.write(fmt::format("{} {}\n", rows, labels));
}

void PredictionsWriter::add(std::span<const ScoredLabel> ranked) {
    fmt::memory_buffer line;
    for (const ScoredLabel& p : ranked)
        fmt::format_to(std::back_inserter(line), "{}{}:{}", line.size() == 0 ? "" : " ", p.label, p.score);
    line.push_back('\n');
    file_.write(std::string_view(line.data(), line.size()));
    ++written_;
}

void PredictionsWriter::commit() {
    if (written_ != rows_)
        throw Error(
            fmt::format("{}: {} rows were announced, {} written", file_.target().string(), rows_, written_));
    file_.commit();
}

void read_predictions(const std::filesystem::path& file, std::int64_t rows, std::int64_t labels,
                      const std::function<void(std::int64_t row, std::vector<ScoredLabel>& ranked)>& take) {
    RecordReader reader(file, Framing::kLines);
    const auto first = reader.next();
    if (!first)
        throw DataError(
            fmt::format("{}: expected a header 'rows labels', found an empty file", file.string()));
    const SparseHeader header = parse_sparse_header(*first);
    if (header.rows != rows || header.columns != labels)
        fail(*first, fmt::format("{} rows and {} labels, as the data has", rows, labels),
             fmt::format("{} and {}", header.rows, header.columns));
    SparseRow entries;
    ImportCounts counts;
    std::vector<ScoredLabel> ranked;
    for (std::int64_t row = 0; row < rows; ++row) {
        const auto record = reader.next();
        if (!record)
            throw DataError(
                fmt::format("{}: expected {} rows, as its header says, found {}", file.string(), rows, row));
        parse_sparse_row(*record, labels, {.ascending = false, .keep_zeros = true}, entries, counts);
        ranked.resize(entries.indices.size());
        for (std::size_t i = 0; i < ranked.size(); ++i) ranked[i] = {entries.values[i], entries.indices[i]};
        std::sort(ranked.begin(), ranked.end(), ranks_before);
        take(row, ranked);
    }
    if (const auto more = reader.next())
        fail(*more, fmt::format("the end of the file after {} rows", rows), "another row");
}

}  // namespace elmo
