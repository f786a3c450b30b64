// Any bytes as a plain file, compressed or not, of every format with label names. The first byte says which:
// the format is guessed, or a reader goes through all rows. (All readers at every input would be ten times
// slower.) Reading ends in texts and names that are UTF-8, or in an elmo::Error.
#include <cstdint>
#include <cstdlib>

#include "base/text_util.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "memory_file.h"
#include "sources/detect.h"
#include "sources/row_source.h"

namespace {

void read_all(const elmo::RowSource& source) {
    const auto reader = source.open();
    const auto parser = source.parser();
    std::string storage, text;
    elmo::RowLabels labels;
    elmo::ImportCounts counts;
    elmo::RecordBlock block;
    while (reader->next_block(block))
        for (std::int64_t i = 0; i < block.size(); ++i) {
            elmo::Record record = block.record(i);
            record.bytes = valid_utf8(record, {.allow_invalid = true}, storage, counts);
            parser->text(record, text);
            parser->labels(record, labels, counts);
            if (elmo::find_invalid_utf8(text) != std::string::npos) std::abort();
            for (const std::string& name : labels.names)
                if (name.empty() || elmo::find_invalid_utf8(name) != std::string::npos) std::abort();
        }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const elmo::fuzz::MemoryFile file(data + 1, size - 1);
    using enum elmo::DataFormat;
    constexpr elmo::DataFormat kFormats[] = {kTsv, kCsv, kJsonl, kFastText};
    constexpr const char* kDetected[] = {"tsv", "csv", "jsonl"};
    const unsigned way = data[0] % 12;
    try {
        if (way < 8) {
            const bool lenient = way >= 4;
            elmo::Layout layout;
            layout.text_columns = {"text"};
            layout.label_column = "labels";
            layout.format = kFormats[way % 4];
            layout.cells.allow_null = layout.table.allow_stray_quotes = lenient;
            layout.table.quotes = lenient ? elmo::QuoteChoice::kDouble : elmo::QuoteChoice::kAuto;
            read_all(*open_named_labels(file.path(), layout));
        } else if (way < 11) {  // with what its first rows tell of columns, separators and lists
            elmo::Config config;
            config.data = file.path();
            config.format = kDetected[way - 8];
            read_all(*open_named_labels(file.path(), find_layout(config)));
        } else {
            elmo::detect_format(file.path());
        }
    } catch (const elmo::Error&) {
    }
    return 0;
}
