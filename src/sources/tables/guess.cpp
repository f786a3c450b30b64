#include "sources/tables/guess.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "elmo/error.h"
#include "elmo/messages.h"
#include "sources/tables/json_rows.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/label_lists.h"
#include "sources/tables/table_shape.h"
#include "sources/unlabelled_test.h"

namespace elmo {
namespace {

constexpr std::size_t kRows = 2000;

// Names that columns of texts and of labels have, in lower case.
constexpr std::string_view kTextNames[] = {"text",        "texts",    "sentence", "content",  "body",
                                           "description", "document", "comment",  "review",   "message",
                                           "tweet",       "question", "abstract", "utterance"};
// Those that are the texts where none of the others is there, and else stand beside them.
constexpr std::string_view kShortTextNames[] = {"title", "headline", "subject", "summary",
                                                "name",  "query",    "prompt",  "caption"};
constexpr std::string_view kLabelNames[] = {"labels",   "label",   "tags",     "tag",    "categories",
                                            "category", "classes", "class",    "topics", "topic",
                                            "genres",   "genre",   "keywords", "target", "targets"};

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

// The one name of the header that is among the usual ones; "" where none is, or several are.
template <class Usual>
std::string only_one(const std::vector<std::string>& names, const Usual& usual) {
    std::string found;
    for (const std::string& name : names) {
        if (std::ranges::find(usual, lower(trim(name))) == std::end(usual)) continue;
        if (!found.empty()) return {};
        found = name;
    }
    return found;
}

// The first of the usual names, or the only one.
template <class Usual>
std::string only_plausible(const std::vector<std::string>& names, const Usual& usual) {
    return std::ranges::find(names, usual[0]) != names.end() ? std::string(usual[0]) : only_one(names, usual);
}

// Words with a letter in the values of a column.
using WordCounts = std::map<std::string, std::size_t>;

std::size_t words_of(std::string_view text) {
    std::size_t words = 0;
    for (bool within = false; const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool letter = byte >= 0x80 || std::isalpha(byte) != 0;
        words += letter && !within;
        within = letter || (within && std::isspace(byte) == 0);
    }
    return words;
}

// Of rows with labels also a short text's column, if none but those of labels has longer texts; `words` is
// empty where texts alone are read.
std::string only_plausible_text(const std::vector<std::string>& names, const std::string& labels,
                                const WordCounts& words) {
    const auto is_one_of = [](const auto& usual, const std::string& name) {
        return std::ranges::find(usual, lower(trim(name))) != std::end(usual);
    };
    if (words.empty() ||
        std::ranges::any_of(names, [&](const std::string& name) { return is_one_of(kTextNames, name); }))
        return only_plausible(names, kTextNames);
    const std::string found = only_one(names, kShortTextNames);
    const auto is_longer = [&](const auto& column) {
        return column.first != labels && !is_one_of(kLabelNames, column.first) &&
               column.second > words.at(found);
    };
    return found.empty() || std::ranges::any_of(words, is_longer) ? std::string() : found;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Which columns are left to be found, and what was found.
struct Columns {
    bool text_open = false, labels_open = false;
    std::string text, labels;  // "" as the layout has them
};

// Whether a column holds nothing but flags below the header; `set`: and one that is set at least.
bool holds_flags(const SampleRows& rows, std::size_t at, bool& set,
                 FlagWriting writing = FlagWriting::kDigits) {
    bool flags = rows.size() > 1;
    set = false;
    for (std::size_t r = 1; r < rows.size() && flags; ++r) {
        flags = at < rows[r].size() && is_flag(rows[r][at], writing);
        set = set || (flags && is_set_flag(rows[r][at], writing));
    }
    return flags;
}

// The columns of flags, how many of them have one that is set, and those of the others that can be the text.
struct FlagColumns {
    std::vector<std::string> flags, others;
    std::size_t set = 0;

    FlagColumns(const std::vector<std::string>& names, const SampleRows& rows,
                const std::vector<std::string>& texts, FlagWriting writing = FlagWriting::kDigits) {
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (bool any = false; holds_flags(rows, i, any, writing) && !has(texts, names[i])) {
                flags.push_back(names[i]);
                set += any;
            } else if (!numbers_rows(names[i]))
                others.push_back(names[i]);
        }
    }
    bool several() const { return flags.size() > 1 && set > 1; }
};

// ConfigError where the column that is called as labels are holds 0 and 1, and others do too: it may be one
// label of many, or the only one.
void refuse_one_flag_of_many(const std::vector<std::string>& names, const SampleRows& rows,
                             const Layout& layout, const std::vector<std::string>& texts,
                             const std::string& labels) {
    std::vector<std::string> flags;
    for (std::size_t i = 0; i < names.size(); ++i)
        // The column itself may have its first 1 far below.
        if (bool set = false;
            !has(texts, names[i]) && holds_flags(rows, i, set) && (set || names[i] == labels))
            flags.push_back(names[i]);
    if (flags.size() > 1 && has(flags, labels))
        throw ConfigError(
            fmt::format("label_column: {}: expected one column that can hold the labels, found {} of 0 and 1 "
                        "({}): --label-column '*' takes each of them as a label, --label-column '{}' "
                        "the values of that one",
                        layout.train.text.string(), flags.size(), fmt::join(flags, ", "), labels));
}

// Columns of a table under one delimiter; false where they are not to be found in it.
bool find_columns(const std::vector<std::string>& names, const SampleRows& rows, const Layout& layout,
                  Columns& columns) {
    // A column of 0 and 1 beside others of them is a label, whatever its name, if another can be the text.
    std::vector<std::string> texts = layout.text_columns, candidates = names;
    if (const FlagColumns all(names, rows, {}); columns.text_open && all.several() && !all.others.empty()) {
        candidates = all.others;
        if (std::ranges::any_of(texts, [&](const std::string& name) { return has(all.flags, name); }))
            texts.clear();
    }
    const bool text_there = !texts.empty() && std::ranges::all_of(texts, [&](const std::string& name) {
        return has(names, name);
    });
    const bool flags_given = !columns.labels_open && layout.label_column.ends_with('*');
    const bool labels_there = flags_given || layout.label_column.empty() || has(names, layout.label_column);
    if (!text_there && columns.text_open) {
        WordCounts words;
        for (std::size_t i = 0; i < names.size() && !layout.label_column.empty(); ++i) {
            std::size_t& count = words[names[i]];
            for (std::size_t r = 1; r < rows.size(); ++r)
                if (i < rows[r].size()) count += words_of(rows[r][i]);
        }
        columns.text = only_plausible_text(candidates, layout.label_column, words);
    }
    if (!labels_there && columns.labels_open) columns.labels = only_plausible(names, kLabelNames);
    if (!columns.labels.empty()) refuse_one_flag_of_many(names, rows, layout, texts, columns.labels);
    if ((text_there || !columns.text.empty()) && (labels_there || !columns.labels.empty())) return true;
    if (!flags_given && (labels_there || !columns.labels_open)) return false;
    // Columns of 0 and 1, or of yes and no, beside one column that can be the text.
    columns.text.clear();
    FlagColumns found(names, rows, texts);
    if (found.set == 0) found = FlagColumns(names, rows, texts, FlagWriting::kWords);
    if (!found.several()) return false;
    if (!flags_given) columns.labels = "*";
    if (text_there) return true;
    if (!columns.text_open || found.others.size() != 1) return false;
    columns.text = found.others[0];
    return true;
}

// False where the columns are not there, nor any that must be meant.
bool settle_table_columns(const Layout& layout, Columns& columns) {
    for (TableShape shape : possible_shapes(layout.train.text, layout)) {
        // A line of two fields is a row of a TSV without a header, unless both are such names.
        --shape.records_before_rows;
        const SampleRows rows = sample_rows(layout.train.text, shape, kRows / 10);
        Columns found = columns;
        if (!rows.empty() && find_columns(shape.names, rows, layout, found)) {
            columns = found;
            return true;
        }
        if (layout.format == DataFormat::kTsv && shape.delimiter == '\t' && shape.names.size() == 2)
            return false;
    }
    return false;
}

void settle_json_columns(const Layout& layout, Columns& columns) {
    JsonRows json;
    std::vector<std::string> of_first, names;
    bool text_there = !columns.text_open, labels_there = !columns.labels_open || layout.label_column.empty();
    std::size_t rows = 0;
    WordCounts words;
    visit_json(layout, layout.train.text, kRows, [&](const Record& record) {
        for (std::string& name : json.keys(record))
            if (!has(names, name)) names.push_back(std::move(name));
        if (rows++ == 0) of_first = names;
        for (std::size_t i = 0; i < names.size() && !text_there && !layout.label_column.empty(); ++i)
            words[names[i]] += words_of(json.string_at(record, names[i]));
        text_there = text_there || json.has(record, layout.text_columns[0]);
        labels_there = labels_there || json.has(record, layout.label_column);
        return rows < kRows / 10 && (!text_there || !labels_there);
    });
    // Those of the first object, unless it lacks what others have.
    for (const std::vector<std::string>& keys : {of_first, names}) {
        if (!text_there && columns.text.empty())
            columns.text = only_plausible_text(keys, layout.label_column, words);
        if (!labels_there && columns.labels.empty()) columns.labels = only_plausible(keys, kLabelNames);
    }
}

std::vector<std::string> label_fields(const Layout& layout, const std::filesystem::path& file) {
    std::vector<std::string> fields;
    if (layout.format == DataFormat::kJsonl) {
        JsonRows json;
        visit_json(layout, file, kRows, [&](const Record& record) {
            fields.push_back(json.string_at(record, layout.label_column));
            return true;
        });
        return fields;
    }
    const TableShape shape = find_table_shape(file, layout);
    if (shape.one_hot || shape.labels.empty()) return fields;
    for (std::vector<std::string>& row : sample_rows(file, shape, kRows))
        if (row.size() == shape.names.size()) fields.push_back(std::move(row[shape.labels[0]]));
    return fields;
}

// Whether at least half of the fields have, in two places that are the same in all of them, pieces that each
// stand beside several others (red;glossy;small, red;glossy;large, blue;matt;small: colours and sizes). The
// finish follows from the colour, so that pieces beside each other do not show it. A piece of a path has one
// other before it.
bool crosses(const std::vector<std::vector<std::string>>& fields) {
    std::size_t most = 0;
    for (const auto& field : fields) most = std::max(most, field.size());
    for (std::size_t a = 0; a + 1 < most; ++a)
        for (std::size_t b = a + 1; b < most; ++b) {
            std::map<std::string, std::set<std::string>> beside_a, beside_b;
            for (const auto& field : fields)
                if (b < field.size()) {
                    beside_a[field[a]].insert(field[b]);
                    beside_b[field[b]].insert(field[a]);
                }
            std::size_t both = 0, several = 0;
            for (const auto& field : fields)
                if (b < field.size()) {
                    ++both;
                    several += beside_a[field[a]].size() > 1 && beside_b[field[b]].size() > 1;
                }
            if (2 * both >= fields.size() && 2 * several >= both && several >= 4) return true;
        }
    return false;
}

// Names for the columns of a file without a header say nothing about a file whose first line they are. Those
// of a run say nothing either about one with another number of columns, or with its columns or usual ones in
// the first line.
void settle_names(const ReadOptions& reading, Layout& layout) {
    std::vector<std::string>& names = layout.table.columns;
    if (names.empty()) return;
    bool same = false, fit = false, usual = false;
    for (const TableShape& shape : possible_shapes(layout.train.text, layout)) {
        same = same || shape.names == names;
        fit = fit || shape.names.size() == names.size();
        usual = usual || has_usual_columns(shape.names);
    }
    if (same || (reading.columns_of_run && (!fit || usual || has_header(layout.train.text, layout))))
        names.clear();
}

// A run's '*' says nothing about a file whose labels stand in a usual column, and not in columns of 0 and 1.
bool has_other_labels_than_flags(const Layout& layout) {
    if (!layout.label_column.ends_with('*')) return false;
    const std::string_view start =
        std::string_view(layout.label_column).substr(0, layout.label_column.size() - 1);
    bool usual = false;
    for (TableShape shape : possible_shapes(layout.train.text, layout)) {
        --shape.records_before_rows;
        const SampleRows rows = sample_rows(layout.train.text, shape, kRows / 10);
        std::size_t flags = 0;
        for (std::size_t i = 0; i < shape.names.size(); ++i)
            if (bool set = false;
                shape.names[i].starts_with(start) && !has(layout.text_columns, shape.names[i]) &&
                (holds_flags(rows, i, set) || holds_flags(rows, i, set, FlagWriting::kWords)))
                ++flags;
        if (flags > 1) return false;
        usual = usual || !only_plausible(shape.names, kLabelNames).empty();
    }
    return usual;
}

void settle_columns(const ReadOptions& reading, Layout& layout) {
    Columns columns;
    columns.text_open = reading.text_column_open;
    columns.labels_open = reading.label_column_open;
    // Those of a run hold where the file has them.
    Columns of_any = columns;
    of_any.text_open = columns.text_open || reading.text_column_of_run;
    of_any.labels_open = columns.labels_open || reading.label_column_of_run;
    const bool json = layout.format == DataFormat::kJsonl;
    if ((!of_any.text_open && !of_any.labels_open) || (!json && !layout.table.columns.empty())) return;
    if (json)
        settle_json_columns(layout, columns = of_any);
    else if (reading.label_column_of_run && has_other_labels_than_flags(layout) &&
             settle_table_columns(layout, of_any))
        columns = of_any;
    else if (!settle_table_columns(layout, columns) && settle_table_columns(layout, of_any))
        columns = of_any;
    if (!columns.text.empty()) {
        layout.text_columns = {columns.text};
        // A plus in a name would be read as two columns: then only this reading knows the name.
        if (columns.text.find('+') == columns.text.npos)
            layout.detected.push_back({"text_column", columns.text});
    }
    if (!columns.labels.empty()) {
        layout.label_column = columns.labels;
        layout.detected.push_back({"label_column", columns.labels});
    }
}

DetectedOption detected_delimiter(const TableShape& shape) {
    return {"delimiter", shape.delimiter == '\t' ? std::string("tab") : std::string(1, shape.delimiter),
            false};
}

// Each file of the data set is asked anew when it is opened: this is to say it.
void settle_writing(Layout& layout) {
    const std::filesystem::path& file = layout.train.text;
    const bool tsv = layout.format == DataFormat::kTsv, called_csv = plain_name(file).ends_with(".csv");
    const TableShape shape = find_table_shape(file, layout);
    if (layout.table.delimiter == 0 && shape.delimiter != (tsv && !called_csv ? '\t' : ','))
        layout.detected.push_back(detected_delimiter(shape));
    if (layout.table.quotes == QuoteChoice::kAuto && tsv && shape.quotes)
        layout.detected.push_back({"quotes", "double", false});
    if (shape.blank.empty()) return;
    constexpr std::size_t kNamed = 5;
    std::vector<std::string> names;
    for (const std::size_t at : shape.blank)
        if (names.size() < kNamed) names.push_back(fmt::format("'{}'", quoted(shape.names[at])));
    const bool digits = shape.flags == FlagWriting::kDigits;
    layout.notes.push_back(fmt::format(
        "{}: {} without {} in the first rows left out of the labels ({}{}); write {} where a row does not "
        "have a label",
        layout.shown(layout.train.text), counted(std::ssize(shape.blank), "column"),
        digits ? "0 or 1" : "yes or no", fmt::join(names, ", "), shape.blank.size() > kNamed ? ", ..." : "",
        digits ? "0" : "no"));
}

// Fields of labels, each once.
struct DistinctFields {
    std::set<std::string> fields;
    bool lists = true;      // all of them
    bool any_list = false;  // one that can be nothing else

    explicit DistinctFields(const std::vector<std::string>& all) {
        for (const std::string& field : all) {
            const std::string_view content = trim(field);
            if (content.empty() || is_null_word(content)) continue;
            const auto list = parse_label_list(content);
            lists = lists && list;
            any_list = any_list || (list && list->certain);
            fields.emplace(content);
        }
        lists = lists && any_list;
    }
    bool has(std::string_view part) const {
        return std::any_of(fields.begin(), fields.end(),
                           [&](const std::string& field) { return field.find(part) != field.npos; });
    }
    std::string recombining(std::string_view separators) const {
        for (const char separator : separators)
            if (recombines(fields, separator)) return {separator};
        return {};
    }
};

LabelCells written_as(const std::string& separator, LabelCells cells) {
    cells.lists = separator == "list";
    cells.separator = separator;
    return cells;
}

// Nobody gave a separator in this call.
bool is_separator_open(const ReadOptions& reading) {
    return reading.label_separator == "auto" || reading.label_separator_of_run;
}

// That of the training file was found when the call was resolved: it says nothing about files beside it.
bool is_separator_found(const ReadOptions& reading) {
    return std::ranges::any_of(reading.detected,
                               [](const auto& option) { return option.first == "label_separator"; });
}

void settle_separator(const ReadOptions& reading, Layout& layout) {
    if (is_separator_found(reading) || !is_separator_open(reading)) return;
    const std::vector<std::string> fields = label_fields(layout, layout.train.text);
    const std::string separator = reading.label_separator == "auto"
                                      ? guess_separator(fields)
                                      : guess_other_separator(fields, reading.label_separator);
    if (separator.empty()) return;
    layout.cells = written_as(separator, layout.cells);
    layout.detected.push_back({"label_separator", separator});
}

// How a test or validation file is written otherwise than the training file.
void settle_other_file(const ReadOptions& reading, const Layout& layout, SplitFiles& split) {
    if (layout.format != DataFormat::kJsonl) {
        const TableShape of_train = find_table_shape(layout.train.text, layout),
                         own = find_table_shape(split.text, layout);
        if (own.delimiter != of_train.delimiter) split.detected.push_back(detected_delimiter(own));
    }
    if (!is_separator_found(reading) && !is_separator_open(reading)) return;
    const std::string separator =
        guess_other_separator(label_fields(layout, split.labels), layout.cells.name());
    if (separator.empty()) return;
    split.cells = written_as(separator, layout.cells);
    split.detected.push_back({"label_separator", separator});
}

}  // namespace

bool numbers_rows(const std::string& column) {
    const std::string name = lower(trim(column));
    return name.empty() || name == "id" || name == "index" || name.ends_with("_id") ||
           name.starts_with("unnamed");
}

// Whether pieces between `separator` recombine as labels do: fewer pieces than fields, or each in two fields
// on average, and many that stand in different places, or each in its place beside several others (red;small,
// red;large, blue;small). Names that hold a separator do neither; in paths (Books|Fiction) a piece has one
// other before it, or one behind it.
bool recombines(const std::set<std::string>& fields, char separator) {
    struct Piece {
        std::size_t fields = 0;
        std::set<std::size_t> places;
        std::set<std::string> before, after;
    };
    std::map<std::string, Piece> pieces;
    std::vector<std::vector<std::string>> cut_fields;
    std::size_t found = 0;  // pieces, each as often as it occurs
    for (const std::string& field : fields) {
        std::vector<std::string> names;
        split_labels(field, {&separator, 1}, names);
        found += names.size();
        for (std::size_t i = 0; i < names.size(); ++i) {
            ++pieces[names[i]].fields;
            pieces[names[i]].places.insert(i);
            if (i > 0) pieces[names[i]].before.insert(names[i - 1]);
            if (i + 1 < names.size()) pieces[names[i]].after.insert(names[i + 1]);
        }
        if (names.size() > 1) cut_fields.push_back(std::move(names));
    }
    std::size_t repeated = 0, moving = 0;
    // Repeated pieces with a neighbour on that side, and those with several.
    std::size_t led = 0, led_by_several = 0, followed = 0, followed_by_several = 0;
    for (const auto& [name, piece] : pieces) {
        repeated += piece.fields > 1;
        moving += piece.places.size() > 1;
        if (piece.fields < 2) continue;
        led += !piece.before.empty();
        led_by_several += piece.before.size() > 1;
        followed += !piece.after.empty();
        followed_by_several += piece.after.size() > 1;
    }
    const bool crossed = led_by_several >= 2 && followed_by_several >= 2 && 3 * led_by_several >= 2 * led &&
                         3 * followed_by_several >= 2 * followed;
    const std::size_t cut = cut_fields.size();
    return cut >= 2 && 10 * cut >= fields.size() &&
           (pieces.size() <= fields.size() || 2 * pieces.size() <= found) &&
           ((moving >= 1 && 3 * moving >= repeated) || crossed || crosses(cut_fields));
}

bool has_label_fields(const Layout& layout) {
    return layout.format != DataFormat::kJsonl ||
           std::ranges::any_of(label_fields(layout, layout.train.labels),
                               [](const std::string& field) { return !field.empty(); });
}

bool has_null_fields(const Layout& layout) {
    return std::ranges::any_of(label_fields(layout, layout.train.labels),
                               [](const std::string& field) { return is_null_word(trim(field)); });
}

std::vector<DetectedOption> detect_table_columns(const ReadOptions& reading,
                                                 const std::vector<std::string>& text_columns,
                                                 const std::vector<std::vector<std::string>>& first_rows) {
    Layout layout;
    layout.train.text = "rows from memory";
    layout.text_columns = text_columns;
    layout.label_column = reading.label_column;
    Columns columns{reading.text_column_open, reading.label_column_open, {}, {}};
    const std::vector<std::string>& names = first_rows.front();
    if (!find_columns(names, first_rows, layout, columns)) return {};
    // Columns of yes and no are labels in files only, where other values are texts too.
    if (columns.labels == "*" && FlagColumns(names, first_rows, text_columns).set == 0) return {};
    std::vector<DetectedOption> detected;
    if (!columns.text.empty()) detected.push_back({"text_column", columns.text});
    if (!columns.labels.empty()) detected.push_back({"label_column", columns.labels});
    return detected;
}

std::vector<std::string> missing_text_keys(const Layout& layout) {
    std::vector<std::string> missing, paths;
    if (layout.format != DataFormat::kJsonl) return missing;
    missing.assign(layout.text_columns.begin() + 1, layout.text_columns.end());
    if (missing.empty()) return missing;
    JsonRows json;
    visit_json(layout, layout.train.text, kRows, [&](const Record& record) {
        if (paths.empty()) paths = json.paths(record);
        std::erase_if(missing, [&](const std::string& key) { return json.has(record, key); });
        return !missing.empty();
    });
    for (std::string& key : missing) key = fmt::format("'{}'{}", quoted(key), did_you_mean(key, paths));
    return missing;
}

std::string usual_text_column(const std::vector<std::string>& names) {
    return only_plausible(names, kTextNames);
}

bool has_usual_columns(const std::vector<std::string>& names) {
    return (!only_plausible(names, kTextNames).empty() || !only_one(names, kShortTextNames).empty()) &&
           !only_plausible(names, kLabelNames).empty();
}

std::string guess_separator(const std::vector<std::string>& fields) {
    const DistinctFields distinct(fields);
    if (distinct.fields.empty()) return {};
    if (distinct.lists) return "list";
    return distinct.has(",") ? std::string() : distinct.recombining(";|");
}

std::string guess_other_separator(const std::vector<std::string>& fields, const std::string& of_run) {
    const DistinctFields distinct(fields);
    if (distinct.fields.empty()) return {};
    if (distinct.lists) return of_run == "list" ? "" : "list";  // whose commas separate nothing by themselves
    if (of_run == "none" || (of_run == "list" ? distinct.any_list : distinct.has(of_run))) return {};
    return distinct.recombining(",;|");
}

void refuse_columns_in_one_object(const Layout& layout) {
    if (layout.format != DataFormat::kJsonl || layout.train.text.empty()) return;
    JsonRows json;
    int records = 0;
    bool columns = false;
    visit_json(layout, layout.train.text, kRows, [&](const Record& record) {
        if (++records == 1)
            columns = json.holds_columns(record, layout.text_columns.front(), layout.label_column);
        return columns && records == 1;
    });
    if (columns && records == 1)
        throw DataError(fmt::format(
            "{}:1: expected an object per row, found one with the columns of all rows; write an object "
            "per line, as to_json(orient='records', lines=True) of pandas does",
            layout.train.text.string()));
}

void settle_reading(const ReadOptions& reading, Layout& layout) {
    for (const auto& [key, value] : reading.detected) layout.detected.push_back({key, value});
    try {
        if (layout.format != DataFormat::kJsonl) settle_names(reading, layout);
        settle_columns(reading, layout);
        if (layout.format != DataFormat::kJsonl) settle_writing(layout);
        settle_separator(reading, layout);
        leave_out_unlabelled_test(reading, layout);
        for (SplitFiles* split : {&layout.test, &layout.validation})
            if (!split->labels.empty() && split->labels != layout.train.labels)
                settle_other_file(reading, layout, *split);
    } catch (const DataError&) {  // the import says it, with its line
    }
}

}  // namespace elmo
