#include "rank/answers/predictions_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"
#include "sources/matrices/sparse_matrix.h"
#include "sources/records/record_reader.h"

namespace elmo {
namespace {

constexpr std::string_view kForm =
    "stored predictions are a line 'rows labels', then a line of 'label:score' entries for each scored row, "
    "labels "
    "by number: 'elmo eval RUN DATA --save-predictions FILE' writes them, and 'elmo data convert DATA --to "
    "xmc' the "
    "numbers of the labels";

// parse(), whose errors say what the file should hold.
template <class Parse>
auto as_predictions(const Parse& parse) {
    try {
        return parse();
    } catch (const DataError& error) {
        throw DataError(fmt::format("{}; {}", error.what(), kForm));
    }
}

SparseHeader read_header(RecordReader& reader) {
    return as_predictions([&] {
        const auto first = reader.next();
        if (!first) throw DataError(reader.file() + ": expected a header 'rows labels', found an empty file");
        return parse_sparse_header(*first);
    });
}

}  // namespace

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

void require_predictions(const std::filesystem::path& file) {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
        for (const char* manifest : {"manifest.json", "best/manifest.json", "last/manifest.json"})
            if (std::filesystem::exists(file / manifest, error))
                throw DataError(fmt::format(
                    "{}: expected a file of predictions, found a run; score it with 'elmo eval {} DATA'",
                    file.string(), shell_word(file.string())));
        throw DataError(
            fmt::format("{}: expected a file of predictions, found a folder; {}", file.string(), kForm));
    }
    if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
        throw DataError(file.string() +
                        ": expected a file, found a pipe; store it first: it is read more than once");
    RecordReader reader(file, Framing::kLines);
    read_header(reader);
}

void read_predictions(const std::filesystem::path& file, std::int64_t rows, std::int64_t labels,
                      const std::function<void(std::int64_t row, std::vector<ScoredLabel>& ranked)>& take) {
    RecordReader reader(file, Framing::kLines);
    const SparseHeader header = read_header(reader);
    if (header.rows != rows || header.columns != labels)
        fail({{}, 1, reader.file()}, fmt::format("{} rows and {} labels, as the data has", rows, labels),
             fmt::format("{} and {}", header.rows, header.columns),
             header.rows != rows ? "--split chooses which rows are scored" : kForm);
    SparseRow entries;
    ImportCounts counts;
    std::vector<ScoredLabel> ranked;
    for (std::int64_t row = 0; row < rows; ++row) {
        const auto record = reader.next();
        if (!record)
            throw DataError(
                fmt::format("{}: expected {} rows, as its header says, found {}", file.string(), rows, row));
        as_predictions([&] {
            parse_sparse_row(*record, labels, {.ascending = false, .keep_zeros = true}, entries, counts);
        });
        ranked.resize(entries.indices.size());
        for (std::size_t i = 0; i < ranked.size(); ++i) ranked[i] = {entries.values[i], entries.indices[i]};
        std::sort(ranked.begin(), ranked.end(), ranks_before);
        take(row, ranked);
    }
    if (const auto more = reader.next())
        fail(*more, fmt::format("the end of the file after {} rows", rows), "another row");
}

}  // namespace elmo
