#include "sources/unlabelled_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "elmo/error.h"
#include "sources/records/record_reader.h"
#include "sources/row_source.h"
#include "sources/tables/guess.h"
#include "sources/tables/json_rows.h"
#include "sources/tables/table_shape.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Of most files the first row tells it. An empty one is not this, nor one that is not written as the training
// file.
bool has_no_labelled_row(const fs::path& file, Layout layout) try {
    layout.cells.allow_null = true;  // a row without labels, whether that is allowed or not
    const auto source = open_named_labels(file, layout);
    const auto parser = source->parser();
    const auto records = source->open();
    RowLabels labels;
    ImportCounts counts;
    std::string storage;
    bool any = false;
    while (auto record = records->next()) {
        any = true;
        record->bytes = valid_utf8(*record, {layout.table.latin1, true}, storage, counts);
        parser->labels(*record, labels, counts);
        if (!labels.names.empty()) return false;
    }
    return any;
} catch (const DataError&) {
    return false;
}

// Beside a training file without a header: texts, and no tab behind them.
bool holds_lines_of_text(const fs::path& file) {
    RecordReader lines(file, Framing::kObjects);
    while (const auto line = lines.next())
        if (line->bytes.find('\t') != line->bytes.npos) return false;
    return true;
}

// Whether every name is known, or says that its column numbers rows: any other may be that of the labels.
template <class Names>
bool are_known(const Names& names, const Names& known) {
    return std::ranges::all_of(names, [&](const std::string& name) {
        return std::ranges::find(known, name) != known.end() || numbers_rows(name);
    });
}

// "" where it has the columns, or another may be meant.
std::string lacking_column(const fs::path& test, const Layout& layout) {
    if (!layout.table.columns.empty() || has_header(test, layout)) return {};
    const TableShape train = find_table_shape(layout.train.text, layout);
    if (!train.has_header) return holds_lines_of_text(test) ? "it has no labels behind a tab" : "";
    Layout texts = layout;
    texts.label_column.clear();
    if (!has_header(test, texts) || !are_known(find_table_shape(test, texts).names, train.names)) return {};
    return layout.label_column.ends_with('*')
               ? "it has no columns of labels"
               : fmt::format("it has no column '{}'", quoted(layout.label_column));
}

// Which keys the first rows have.
struct Keys {
    std::set<std::string> names;
    bool text = false, labels = false;

    Keys(const fs::path& file, const Layout& layout) {
        constexpr std::size_t kRows = 200;
        JsonRows json;
        visit_json(layout, file, kRows, [&](const Record& record) {
            for (std::string& key : json.keys(record)) names.insert(std::move(key));
            text = text || json.has(record, layout.text_columns[0]);
            labels = labels || json.has(record, layout.label_column);
            return true;
        });
    }
};

// What the test file lacks; "" where it has labels, or may have them.
std::string lacking(const fs::path& test, const Layout& layout) {
    if (layout.format == DataFormat::kJsonl) {
        const Keys keys(test, layout), known(layout.train.text, layout);
        if (!keys.labels)  // which any row may lack, if that is allowed
            return keys.text && !layout.cells.allow_null && are_known(keys.names, known.names)
                       ? fmt::format("it has no key '{}'", quoted(layout.label_column))
                       : "";
    } else if (layout.format != DataFormat::kFastText) {
        if (std::string lack = lacking_column(test, layout); !lack.empty()) return lack;
    }
    return has_no_labelled_row(test, layout) ? "none of its rows has a label" : "";
}

}  // namespace

void leave_out_unlabelled_test(const ReadOptions& reading, Layout& layout) {
    const fs::path test = layout.test.labels;
    if (test.empty() || test == layout.train.labels) return;
    const std::string lack = lacking(test, layout);
    if (lack.empty()) return;
    layout.test_share = {reading.test_share, reading.equal_texts_together};
    layout.test.text = layout.test.labels = layout.splits_by_hash() ? layout.train.text : fs::path();
    layout.warnings.push_back(
        fmt::format("{}: {}, so it is left out, as if it were not there; elmo predict RUN {} answers it, and "
                    "elmo eval RUN "
                    "FILE scores a file that has labels",
                    test.string(), lack, shell_word(test.string())));
}

}  // namespace elmo
