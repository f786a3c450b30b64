#include "sources/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <optional>
#include <vector>

#include "base/nearest_file.h"
#include "base/text_util.h"
#include "config/rows_path.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "io/byte_source.h"
#include "sources/detect.h"
#include "sources/foreign.h"
#include "sources/known_paths.h"
#include "sources/records/record_reader.h"
#include "sources/tables/guess.h"
#include "sources/tables/json_rows.h"
#include "sources/tables/label_fields.h"
#include "sources/tables/table_shape.h"
#include "sources/unlabelled_test.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::pair<std::string_view, DataFormat>, 9> kFormats = {{
    {"xmc", DataFormat::kXmc},
    {"pecos", DataFormat::kPecos},
    {"jsonl-folder", DataFormat::kJsonFolder},
    {"raw", DataFormat::kRaw},
    {"sparse", DataFormat::kSparse},
    {"fasttext", DataFormat::kFastText},
    {"tsv", DataFormat::kTsv},
    {"csv", DataFormat::kCsv},
    {"jsonl", DataFormat::kJsonl},
}};

// Formats of one file; the others are folders of files with fixed names.
bool is_one_file(DataFormat format) {
    return format >= DataFormat::kSparse;
}

bool is_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// The first of `names` that is in the folder, itself or compressed; "" when none is.
fs::path find_file(const fs::path& folder, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        if (const fs::path path = folder / name; is_file(path)) return path;
        for (const std::string_view ending : kPackedEndings)
            if (const fs::path path = folder / (name + std::string(ending)); is_file(path)) return path;
    }
    return {};
}

// Where a name of a file says that it holds training rows.
struct TrainingWord {
    std::size_t at = 0;
    std::string_view train, test;  // in the case of the name: "Trn" and "Tst"
    bool alone = false;            // a word of its own; else as in trainset, train1 or mytrain
    bool ing = false;              // training
};

// The last train or trn that is a word of its own; else the last that has only -ing, "set" or "data" and
// digits behind it, where strain and mytrain cannot be told apart. Not trains, constraint or trainer.
std::optional<TrainingWord> training_word(const std::string& name) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {
        {{"train", "test"},
         {"trn", "tst"},
         {"Train", "Test"},
         {"TRAIN", "TEST"},
         {"Trn", "Tst"},
         {"TRN", "TST"}}};
    const auto edge = [&](std::size_t at) {
        return at >= name.size() || !std::isalnum(static_cast<unsigned char>(name[at]));
    };
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const auto skip = [&](std::size_t& at, std::string_view word) {
        const bool there = std::string_view(lower).substr(at).starts_with(word);
        if (there) at += word.size();
        return there;
    };
    // Beside retest, pretest and detest these are other words.
    const auto is_verb = [&](std::size_t at) {
        std::size_t begin = at;
        while (begin > 0 && !edge(begin - 1)) --begin;
        const std::string_view before = std::string_view(lower).substr(begin, at - begin);
        return before == "re" || before == "pre" || before == "de";
    };
    std::optional<TrainingWord> part;
    for (const auto& [train, test] : kWords)
        for (std::size_t at = name.rfind(train); at != name.npos;
             at = at > 0 ? name.rfind(train, at - 1) : name.npos) {
            const bool begins = at == 0 || edge(at - 1);
            std::size_t end = at + train.size();
            if (begins && edge(end)) return TrainingWord{at, train, test, true, false};
            const bool ing = skip(end, "ing");
            if (!skip(end, "set")) skip(end, "data");
            while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
            if (!part && edge(end) && !is_verb(at)) part = TrainingWord{at, train, test, false, ing};
        }
    return part;
}

// The test file that lies beside a training file, compressed or not; "" when there is none. Its name has test
// where that of the training file has train. Training rows and test rows, too, are a pair, unless there is a
// file of train or testing rows, of which one of them could be the other half.
fs::path test_beside(const fs::path& file) {
    const std::string name = without_packed_ending(file.filename().string());
    const std::optional<TrainingWord> word = training_word(name);
    if (!word) return {};
    const fs::path folder = file.parent_path();
    const auto with = [&](std::string_view stem, bool ing) {
        const std::size_t end = word->at + word->train.size() + (word->ing ? 3 : 0);
        const std::string_view ending = !ing ? "" : word->train == "TRAIN" ? "ING" : "ing";
        return find_file(folder,
                         {fmt::format("{}{}{}{}", name.substr(0, word->at), stem, ending, name.substr(end))});
    };
    if (const fs::path same = with(word->test, word->ing); !same.empty()) return same;
    return with(word->train, !word->ing).empty() ? with(word->test, !word->ing) : fs::path();
}

// The file that would be the test file if it were in the format of the training file; "" when there is none.
fs::path test_in_other_format(const fs::path& train) {
    const fs::path name = without_packed_ending(train.string());
    for (const char* ending : {".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".txt"})
        if (fs::path other = name; other.replace_extension(ending) != name &&
                                   find_file(other.parent_path(), {other.filename().string()})
                                       .empty())  // whose test file it would be
            if (const fs::path test = test_beside(other); !test.empty()) return test;
    return {};
}

// Whether a file's ending says that elmo does not read it: an original that lies beside what was made of it.
bool is_named_foreign(const fs::path& file) {
    constexpr std::string_view kEndings[] = {".parquet", ".arrow", ".feather", ".ipc",    ".orc", ".xlsx",
                                             ".xls",     ".ods",   ".pkl",     ".pickle", ".h5",  ".npy"};
    return std::ranges::find(kEndings, file.extension().string()) != std::end(kEndings);
}

// Whether a file's name says that it holds no rows: a script, a log or the options of a training that lies
// beside data.
bool is_named_otherwise(const fs::path& file) {
    constexpr std::string_view kEndings[] = {".py",  ".ipynb", ".sh",  ".log",  ".md",
                                             ".rst", ".yaml",  ".yml", ".toml", ".ini",
                                             ".cfg", ".pdf",   ".png", ".svg",  ".html"};
    constexpr std::string_view kOptions[] = {"_config.json", "_args.json",    "_params.json",
                                             "_state.json",  "_results.json", "_metrics.json"};
    return std::ranges::find(kEndings, file.extension().string()) != std::end(kEndings) ||
           std::ranges::any_of(kOptions, [name = file.string()](auto end) { return name.ends_with(end); });
}

// The one file of the folder that is named as a training file, one that elmo reads if there is one; "" when
// none is. Where train is no word of its own, the test file tells it: training_log.txt is none. It counts
// where no file in whose name train is a word has a test file.
fs::path training_file(const fs::path& folder) {
    std::vector<fs::path> found, paired;
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = plain_name(entry.path());
        const std::optional<TrainingWord> word = training_word(name);
        if (!is_file(entry.path()) || !word || is_named_otherwise(name) || name.find("label") != name.npos ||
            name.ends_with(".npz"))
            continue;
        if (word->alone)
            found.push_back(entry.path());
        else if (!test_beside(entry.path()).empty())
            paired.push_back(entry.path());
    }
    if (std::ranges::none_of(found, [](const fs::path& file) { return !test_beside(file).empty(); }))
        found.insert(found.end(), paired.begin(), paired.end());
    std::sort(found.begin(), found.end());
    const auto foreign = std::stable_partition(found.begin(), found.end(), std::not_fn(is_named_foreign));
    const bool any_read = foreign != found.begin();
    if (any_read) found.erase(foreign, found.end());
    if (any_read && found.size() > 1)
        throw ConfigError(fmt::format("{}: found several training files ({}, {}{}); name one of them",
                                      folder.string(), found[0].filename().string(),
                                      found[1].filename().string(), found.size() > 2 ? ", ..." : ""));
    return found.empty() ? fs::path() : found[0];
}

// DataError that names the tables and JSON lines of a folder none of which is called a training file.
void refuse_other_files(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        const fs::path ending = fs::path(plain_name(entry.path())).extension();
        if (is_file(entry.path()) && (ending == ".csv" || ending == ".tsv" || ending == ".jsonl"))
            names.push_back(entry.path().filename().string());
    }
    if (names.empty()) return;
    std::sort(names.begin(), names.end());
    constexpr std::size_t kShown = 3;
    const std::size_t shown = std::min(names.size(), kShown);
    throw DataError(fmt::format("{}: expected a file named like train.csv, found {}{}; name the one to read",
                                folder.string(), fmt::join(names.begin(), names.begin() + shown, ", "),
                                names.size() > shown ? ", ..." : ""));
}

// DataError for data that elmo does not read, which of a run that was trained in Python may be what Python
// reads.
void refuse_foreign(const ReadOptions& reading, const fs::path& data) {
    try {
        fs::is_directory(data) ? refuse_foreign_folder(data, reading) : refuse_foreign_file(data, &reading);
    } catch (const DataError& error) {
        if (!reading.data_of_run) throw;
        throw DataError(fmt::format(
            "{}, and name what that writes with --data; the run was trained on it in Python, which reads it "
            "as it is",
            error.what()));
    }
}

DataFormat format_of_folder(const ReadOptions& reading, const fs::path& folder) {
    struct Kind {
        DataFormat format;
        std::vector<std::string> names;
    };
    static const std::vector<Kind> kKinds = {
        {DataFormat::kXmc, {"trn_X.txt", "trn_X_Y.txt", "trn_X_Y.npz", "tst_X_Y.txt", "tst_X_Y.npz"}},
        {DataFormat::kPecos, {"X.trn.txt", "Y.trn.npz", "Y.tst.npz"}},
        {DataFormat::kJsonFolder, {"trn.json", "tst.json"}},
        {DataFormat::kRaw, {"train_raw_texts.txt", "train_labels.txt"}},
    };
    std::vector<const Kind*> found;
    for (const Kind& kind : kKinds)
        if (!find_file(folder, kind.names).empty()) found.push_back(&kind);
    if (found.size() > 1)
        throw ConfigError(fmt::format("{}: found both {} and {}; say which to read with --format {} or {}",
                                      folder.string(), find_file(folder, found[0]->names).filename().string(),
                                      find_file(folder, found[1]->names).filename().string(),
                                      name_of(found[0]->format), name_of(found[1]->format)));
    if (found.size() == 1) return found[0]->format;
    const fs::path train = training_file(folder);
    if (!train.empty() && !is_named_foreign(train)) {
        try {
            return detect_format(train);
        } catch (const Error&) {  // a script, say, beside what Python reads
            refuse_foreign(reading, folder);
            throw;
        }
    }
    refuse_foreign(reading, folder);
    if (!train.empty()) return detect_format(train);
    refuse_other_files(folder);
    refuse_folder_of_texts(folder);
    throw DataError(
        fmt::format("{}: expected trn_X.txt and trn_X_Y.txt (XMC repository), X.trn.txt and Y.trn.npz "
                    "(PECOS), trn.json (JSON lines), train_raw_texts.txt (raw pairs) or a file named like "
                    "train.csv, found none of them",
                    folder.string()));
}

// trn_X.txt -> trn_X_Y.txt or .npz, X.trn.txt -> Y.trn.npz, train_raw_texts.txt -> train_labels.txt;
// compressed or not.
fs::path labels_beside(const fs::path& text) {
    const std::string name = without_packed_ending(text.filename().string());
    std::vector<std::string> names;
    if (name.ends_with("X.txt"))
        names = {name.substr(0, name.size() - 4) + "_Y.txt", name.substr(0, name.size() - 4) + "_Y.npz"};
    else if (name.starts_with("X.") && name.ends_with(".txt"))
        names = {"Y" + name.substr(1, name.size() - 5) + ".npz"};
    else if (name.ends_with("_raw_texts.txt"))
        names = {name.substr(0, name.size() - 14) + "_labels.txt"};
    else
        throw ConfigError(
            fmt::format("validation: expected a file of texts named like val_X.txt with its labels beside it "
                        "in val_X_Y.txt, found '{}'",
                        text.string()));
    const fs::path found = find_file(text.parent_path(), names);
    if (found.empty())
        throw DataError(fmt::format("{}: not found; it should hold the labels of {}",
                                    (text.parent_path() / names[0]).string(), text.string()));
    return found;
}

// DataError for the texts of a folder whose labels are in another file of it.
void refuse_texts_alone(const fs::path& file) {
    const std::string name = without_packed_ending(file.filename().string());
    for (const char* texts : {"trn_X.txt", "X.trn.txt", "train_raw_texts.txt"}) {
        if (name != texts) continue;
        fs::path labels;
        try {
            labels = labels_beside(file);
        } catch (const DataError&) {
            return;  // a file by itself that is called so
        }
        const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
        throw DataError(
            fmt::format("{}: expected a data set, found its texts without the labels, which are "
                        "in {} beside it; name the folder: {}",
                        file.string(), labels.filename().string(), folder));
    }
}

void find_filters(const ReadOptions& reading, Layout& layout) {
    if (reading.filter == "none") return;
    if (reading.filter != "auto") {
        require_known_path(reading, reading.filter, reading.filter_of_run, "filter");
        if (!fs::is_regular_file(reading.filter))
            throw ConfigError(
                fmt::format("filter: expected auto, none or a file of 'row label' lines, found '{}'",
                            quoted(reading.filter)));
        const auto scored = [&]() -> SplitFiles& {
            switch (reading.split) {
                case SplitChoice::kTrain:
                    return layout.train;
                case SplitChoice::kValidation:  // a share of the training rows, or a file
                    return layout.validation.labels.empty() ? layout.train : layout.validation;
                case SplitChoice::kAll:
                    return layout.test.labels.empty() ? layout.train : layout.test;
                default:
                    return layout.test;
            }
        };
        scored().filter = reading.filter;
        return;
    }
    if (layout.names_labels() || is_one_file(layout.format)) return;
    layout.train.filter = find_file(layout.data, {"trn_filter_labels.txt", "filter_labels_train.txt"});
    layout.test.filter =
        find_file(layout.data, {"tst_filter_labels.txt", "filter_labels_test.txt", "filter_labels.txt"});
}

}  // namespace

const SplitFiles& Layout::files(SplitName split) const {
    return split == SplitName::kTrain ? train : split == SplitName::kTest ? test : validation;
}

const char* name_of(SplitName split) {
    return split == SplitName::kTrain ? "train" : split == SplitName::kTest ? "test" : "validation";
}

std::string name_of(DataFormat format) {
    for (const auto& [name, value] : kFormats)
        if (value == format) return std::string(name);
    throw Error("unknown format");
}

DataFormat format_named(const std::string& name, std::string_view option) {
    std::vector<std::string> names;
    for (const auto& [known, format] : kFormats) {
        if (known == name) return format;
        names.emplace_back(known);
    }
    throw ConfigError(fmt::format("{}: expected {}{}, found '{}'{}", option,
                                  option == "format" ? "auto, " : "", fmt::join(names, ", "), quoted(name),
                                  did_you_mean(name, names)));
}

std::string Layout::shown(const fs::path& file) const {
    return file == data ? data_name : file.string();
}

std::string Layout::describe() const {
    const std::string test_file = test.labels.empty() || test.labels == train.labels
                                      ? std::string()
                                      : fmt::format(", test rows in {}", test.labels.filename().string());
    switch (format) {
        case DataFormat::kXmc:
            return "XMC repository text layout";
        case DataFormat::kPecos:
            return "PECOS layout (texts and scipy matrices)";
        case DataFormat::kJsonFolder:
            return fmt::format("JSON lines folder (text: {})", fmt::join(text_columns, " + "));
        case DataFormat::kRaw:
            return "raw text and label pairs";
        case DataFormat::kSparse:
            return "sparse bag-of-words file" + test_file;
        case DataFormat::kFastText:
            return "plain file, fastText" + test_file;
        case DataFormat::kTsv:
            if (!has_named_columns(*this)) return "plain file, tab-separated" + test_file;
            return fmt::format("plain file, tab-separated (text: {}){}", fmt::join(text_columns, " + "),
                               test_file);
        case DataFormat::kCsv:
            return fmt::format("plain file, CSV (text: {}){}", fmt::join(text_columns, " + "), test_file);
        case DataFormat::kJsonl:
            return fmt::format("plain file, JSON lines (text: {}){}", fmt::join(text_columns, " + "),
                               test_file);
    }
    return {};
}

namespace {

void find_matrix_files(Layout& layout) {
    const fs::path& data = layout.data;
    if (layout.format == DataFormat::kXmc) {
        layout.train = {find_file(data, {"trn_X.txt"}), find_file(data, {"trn_X_Y.txt", "trn_X_Y.npz"}), {}};
        layout.test = {find_file(data, {"tst_X.txt"}), find_file(data, {"tst_X_Y.txt", "tst_X_Y.npz"}), {}};
        layout.label_names = find_file(data, {"Y.txt"});
    } else {
        layout.train = {find_file(data, {"X.trn.txt"}), find_file(data, {"Y.trn.npz"}), {}};
        layout.test = {find_file(data, {"X.tst.txt"}), find_file(data, {"Y.tst.npz"}), {}};
        layout.label_names = find_file(data, {"output-items.txt", "Y.txt"});
    }
    for (const SplitFiles* split : {&layout.train, &layout.test})
        if (!split->text.empty() && split->labels.empty())
            labels_beside(split->text);  // says what is missing
}

void find_json_files(const ReadOptions& reading, Layout& layout) {
    const fs::path& data = layout.data;
    const fs::path train = find_file(data, {"trn.json"}), test = find_file(data, {"tst.json"});
    layout.train = {train, train, {}};
    layout.test = {test, test, {}};
    layout.label_names = find_file(data, {"lbl.json"});
    if (layout.label_names.empty())
        throw DataError(
            fmt::format("{}: not found; a label's number is its line in it", (data / "lbl.json").string()));
    // The format's own names, unless somebody gave others, or the run was trained on such a folder with
    // others.
    const auto is_there = [&](const std::string& key) {
        RecordReader records(train.empty() ? test : train, Framing::kObjects);
        auto first = records.next();
        if (!first) return false;
        std::string storage;
        ImportCounts counts;
        first->bytes = valid_utf8(*first, {layout.table.latin1, true}, storage, counts);
        return JsonRows().has(*first, key);
    };
    if (reading.text_column_open || (reading.text_column_of_run && !is_there(layout.text_columns[0]))) {
        layout.text_columns = {"title"};
        const fs::path folder = fs::absolute(data).lexically_normal();
        const std::string name = plain_name(folder.has_filename() ? folder : folder.parent_path());
        if (name.find("titles") == name.npos) layout.text_columns.push_back("content");
    }
    if (reading.label_column_open || (reading.label_column_of_run && !is_there(layout.label_column)))
        layout.label_column = "target_ind";
}

void find_raw_files(const ReadOptions& reading, Layout& layout) {
    const fs::path& data = layout.data;
    const auto split = [&](const std::string& name) {
        return SplitFiles{
            find_file(data, {name + "_raw_texts.txt"}), find_file(data, {name + "_labels.txt"}), {}};
    };
    layout.train = split("train");
    layout.test = split("test");
    if (layout.train.labels.empty())
        throw DataError(fmt::format("{}: not found", (data / "train_labels.txt").string()));
    // The format's own: labels are words here, whatever separates them in the data of a run.
    if (reading.label_separator_open || reading.label_separator_of_run) layout.cells.separator = " ";
}

void find_one_file(const ReadOptions& reading, Layout& layout) {
    const fs::path train = fs::is_directory(layout.data) ? training_file(layout.data) : layout.data;
    if (train.empty())
        throw DataError(fmt::format("{}: expected a file named like train.{}, found none",
                                    layout.data.string(), name_of(layout.format)));
    layout.train = {train, train, {}};
    if (const fs::path test = test_beside(train); !test.empty()) {
        layout.test = {test, test, {}};
    } else if (layout.format != DataFormat::kSparse) {
        layout.test_share = {reading.test_share, reading.equal_texts_together};
        if (layout.splits_by_hash()) layout.test = layout.train;
        if (const fs::path other = test_in_other_format(train); !other.empty())
            layout.warnings.push_back(fmt::format(
                "{}: it is left out, as the name of {} ends otherwise; give both the same ending (in another "
                "format, convert one of them with 'elmo data convert'), or score it with 'elmo eval RUN {}'",
                other.string(), train.filename().string(), shell_word(other.string())));
    }
}

// Of a folder from which files were chosen by their names.
void note_chosen_files(Layout& layout) {
    const fs::path &train = layout.train.text, &test = layout.test.text;
    if (is_one_file(layout.format) && train != layout.data && !is_rows_path(layout.data))
        layout.notes.push_back(
            fmt::format("{}: read from {}{}", layout.data.string(), train.filename().string(),
                        test.empty() || test == train ? "" : " and " + test.filename().string()));
}

void note_unused_share(const ReadOptions& reading, Layout& layout) {
    const fs::path &train = layout.train.text, &test = layout.test.text;
    if (!test.empty() && test != train && reading.test_share_given && reading.test_share > 0)
        layout.notes.push_back(fmt::format(
            "{} holds the test rows: --test-share {} has no part in this{}", test.string(),
            reading.test_share,
            is_one_file(layout.format)
                ? fmt::format("; to hold rows out of {}, move that file elsewhere", train.filename().string())
                : std::string()));
}

bool is_table(DataFormat format) {
    return format == DataFormat::kTsv || format == DataFormat::kCsv;
}

// What the call says of a writing that the format does not have.
void note_unused_writing(const ReadOptions& reading, Layout& layout) {
    const auto note = [&](bool given, const char* key, const char* what) {
        if (given)
            layout.notes.push_back(fmt::format("{} has no effect: {} was found to be of the format {}, {}",
                                               flag_of(key), layout.data_name, name_of(layout.format), what));
    };
    const bool table = is_table(layout.format), columns_of_labels = layout.label_column.ends_with('*');
    const bool fields = (table && !columns_of_labels) || layout.format == DataFormat::kJsonl ||
                        layout.format == DataFormat::kRaw;
    note(reading.delimiter_given && !table, "delimiter", "which has no columns");
    note(reading.quotes_given && !table, "quotes", "which has no columns");
    note(reading.label_separator_given && !fields, "label_separator",
         table ? "with a column per label" : "whose labels are not in a field");
}

// DataError for validation rows that would be read as what they are not: JSON lines as texts without labels,
// where the data is fastText's.
void refuse_other_format(const fs::path& validation, DataFormat format, bool of_run) {
    if (format < DataFormat::kFastText) return;
    DataFormat found = format;
    try {
        found = detect_format(validation);
    } catch (const ConfigError&) {  // not to be told from the content
    }
    if (found == format || (is_table(found) && is_table(format))) return;
    throw DataError(fmt::format(
        "{}{}: expected validation rows in the format of the data, {}, found {}; give a file in that format, "
        "or a share of the data's rows{}",
        validation.string(), of_run ? ", which validated the run" : "", name_of(format),
        is_rows_path(validation) ? "rows that Python read" : name_of(found),
        of_run ? ", with --validation" : ""));
}

// ConfigError for columns that the call names and that the format cannot have.
void refuse_columns(const ReadOptions& reading, const Layout& layout) {
    const auto refuse = [&](const char* key, const char* what) {
        throw ConfigError(fmt::format("{}: {} {} the format {}, which has no {}; leave {} out, or {}", key,
                                      layout.data_name,
                                      reading.format == "auto" ? "was found to be of" : "is read in",
                                      name_of(layout.format), what, flag_of(key),
                                      reading.format == "auto" ? "give --format if it is another"
                                                               : "--format, so that the format is found"));
    };
    const bool json = layout.format == DataFormat::kJsonl || layout.format == DataFormat::kJsonFolder;
    if (is_table(layout.format)) return;
    if (!reading.columns.empty() && !reading.columns_of_run)
        refuse("columns", json ? "columns, but keys" : "columns");
    if (!json && reading.text_column_given) refuse("text_column", "columns");
    if (!json && reading.label_column_given) refuse("label_column", "columns");
}

// ConfigError for one column that is to hold both texts and labels.
void refuse_same_column(const Layout& layout) {
    if (!is_table(layout.format) && layout.format != DataFormat::kJsonl) return;
    if (std::ranges::count(layout.text_columns, layout.label_column) > 0)
        throw ConfigError(
            fmt::format("label_column: expected another column than those of --text-column, found '{}' in "
                        "both; name the column of the labels with --label-column",
                        quoted(layout.label_column)));
}

LabelCells label_cells(const ReadOptions& reading) {
    LabelCells cells;
    cells.lists = reading.label_separator == "list";
    if (reading.label_separator == "none")
        cells.separator.clear();
    else if (reading.label_separator != "auto")
        cells.separator = reading.label_separator;
    cells.allow_null = reading.allow_null_labels;
    cells.given = !reading.label_separator_open && !reading.label_separator_of_run;
    return cells;
}

}  // namespace

TableWriting table_writing(const ReadOptions& reading) {
    TableWriting table;
    if (reading.delimiter == "tab")
        table.delimiter = '\t';
    else if (reading.delimiter != "auto")
        table.delimiter = reading.delimiter[0];
    table.quotes = reading.quotes;
    table.allow_stray_quotes = reading.allow_stray_quotes;
    table.latin1 = reading.encoding == TextEncoding::kLatin1;
    table.needs_header = reading.needs_header;
    if (!reading.columns.empty()) split_labels(reading.columns, ",", table.columns);
    return table;
}

Layout find_layout(const ReadOptions& reading) {
    if (reading.data.empty()) throw ConfigError("data: expected a folder or file, found nothing");
    Layout layout;
    layout.data = reading.data;
    layout.data_name = reading.data_name;
    if (reading.data == "-")
        throw DataError(
            "data: expected a folder or a file, found '-'; train, data import and data inspect read "
            "standard input");
    require_known_path(reading, reading.data, reading.data_of_run, "data");
    if (!fs::exists(layout.data))
        throw DataError(reading.data_of_run ? gone_data_of_run(reading.data)
                                            : fmt::format("{}: no such file or folder{}", reading.data,
                                                          did_you_mean_file(layout.data)));
    const bool is_folder = fs::is_directory(layout.data);
    if (!is_folder && !is_file(layout.data))
        throw DataError(fmt::format(
            "{}: expected a folder or a file, found a pipe or a device; data is read more than once: save it "
            "to a file first",
            reading.data));
    if (!is_folder) refuse_foreign(reading, layout.data);
    if (!is_folder && reading.format == "auto") refuse_texts_alone(layout.data);
    if (reading.format != "auto")
        layout.format = format_named(reading.format);
    else
        layout.format = is_folder ? format_of_folder(reading, layout.data) : detect_format(layout.data);
    if (!is_folder && !is_one_file(layout.format))
        throw DataError(fmt::format("{}: expected a folder, found a file", reading.data));

    refuse_columns(reading, layout);
    layout.text_columns = split_columns(reading.text_column);
    layout.label_column = reading.label_column;
    layout.cells = label_cells(reading);
    layout.table = table_writing(reading);
    if (layout.has_matrix())
        find_matrix_files(layout);
    else if (layout.format == DataFormat::kJsonFolder)
        find_json_files(reading, layout);
    else if (layout.format == DataFormat::kRaw)
        find_raw_files(reading, layout);
    else
        find_one_file(reading, layout);

    const fs::path validation = parse_validation(reading).file;
    if (!validation.empty())
        refuse_foreign_validation(validation, reading,
                                  is_table(layout.format) ? Beside::kTable : Beside::kRows);
    if (!validation.empty() && (reading.format == "auto" || reading.validation_of_run))
        refuse_other_format(validation, layout.format, reading.validation_of_run);
    if (!validation.empty())
        layout.validation = {
            validation,
            layout.has_matrix() || layout.format == DataFormat::kRaw ? labels_beside(validation) : validation,
            {}};
    find_filters(reading, layout);
    if (is_table(layout.format) || layout.format == DataFormat::kJsonl)
        settle_reading(reading, layout);
    else if (layout.format == DataFormat::kFastText)
        leave_out_unlabelled_test(reading, layout);
    refuse_same_column(layout);
    refuse_columns_in_one_object(layout);
    note_chosen_files(layout);
    note_unused_share(reading, layout);
    note_unused_writing(reading, layout);
    return layout;
}

namespace {

std::optional<double> number_of(const std::string& text) {
    double number = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

bool is_share(const std::optional<double>& number) {
    return number && *number >= 0 && *number < 1;
}

}  // namespace

double validation_share(const ReadOptions& reading) {
    const auto number = number_of(reading.validation);
    return is_share(number) ? *number : 0;
}

Validation parse_validation(const ReadOptions& reading) {
    const std::string& text = reading.validation;
    const auto number = number_of(text);
    if (is_share(number)) return {*number, {}};
    // Rows that are not asked for need not be there.
    const bool asked = reading.split != SplitChoice::kTest && reading.split != SplitChoice::kTrain;
    const bool there = is_file(text);
    if (reading.validation_of_run && !asked &&
        (!there || !is_known_path(reading, text) || is_foreign_file(text)))
        return {};
    std::error_code error;
    if (fs::exists(text, error) || is_rows_path(text))
        require_known_path(reading, text, reading.validation_of_run, "validation");
    if (reading.validation_of_run || fs::is_directory(text, error))
        refuse_foreign_validation(text, reading, Beside::kRows);
    if (!there)
        throw ConfigError(fmt::format(
            "validation: expected a share from 0 to below 1, or a file, found '{}'{}", quoted(text),
            reading.validation_of_run
                ? ", which the run was trained with and which is gone; name it with --validation FILE"
            : number                  ? ""
            : fs::exists(text, error) ? ", which is no file"
                                      : ": no such file" + did_you_mean_file(text)));
    return {0, text};
}

bool holds_labels(const fs::path& file) {
    try {
        labels_beside(file);
        return false;
    } catch (const Error&) {  // there are none
    }
    try {
        detect_format(file);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace elmo
