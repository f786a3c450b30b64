#include "sources/foreign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/text_util.h"
#include "config/rows_path.h"
#include "config/views.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "formats/zip_file.h"
#include "io/byte_source.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using namespace std::string_view_literals;

struct Kind {
    std::string_view magic;
    std::string_view name;
    std::string_view read;  // a Python expression that reads the file FILE into a pandas table
};

constexpr Kind kKinds[] = {
    {"PAR1"sv, "Parquet", "pandas.read_parquet('FILE')"},
    {"ARROW1\0\0"sv, "Arrow", "pandas.read_feather('FILE')"},
    {"\xff\xff\xff\xff"sv, "an Arrow stream", "pyarrow.ipc.open_stream(open('FILE', 'rb')).read_pandas()"},
    {"FEA1"sv, "Feather", "pandas.read_feather('FILE')"},
    {"ORC"sv, "ORC", "pandas.read_orc('FILE')"},
    {"\x89HDF\r\n\x1a\n"sv, "HDF5", "pandas.read_hdf('FILE')"},
    {"\x80\x02"sv, "a Python pickle", "pandas.DataFrame(pandas.read_pickle('FILE'))"},
    {"\x80\x03"sv, "a Python pickle", "pandas.DataFrame(pandas.read_pickle('FILE'))"},
    {"\x80\x04\x95"sv, "a Python pickle", "pandas.DataFrame(pandas.read_pickle('FILE'))"},
    {"\x80\x05\x95"sv, "a Python pickle", "pandas.DataFrame(pandas.read_pickle('FILE'))"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old Excel workbook", "pandas.read_excel('FILE')"},
    {"SQLite format 3\0"sv, "an SQLite database", ""},
    {"\x93NUMPY"sv, "a NumPy array", ""},
    {"%PDF-"sv, "a PDF document", ""},
    {"Rar!\x1a\x07"sv, "a RAR archive", ""},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", ""},
};

// A name that nothing has where the user is: a command that is followed must not replace anything.
std::string free_name(const std::string& stem, const std::string& ending = "") {
    std::string name = stem + ending;
    std::error_code error;
    for (int i = 2; fs::exists(fs::symlink_status(name, error)); ++i)
        name = fmt::format("{}-{}{}", stem, i, ending);
    return name;
}

// Between the quotes of Python that stand between those of a shell.
std::string in_python(std::string_view text) {
    std::string written;
    for (const char c : text)
        written += static_cast<unsigned char>(c) < ' ' || std::strchr("'\"$`\\!", c) != nullptr
                       ? fmt::format("\\x{:02x}", c)
                       : std::string(1, c);
    return written;
}

// Columns of labels stay columns in a CSV only.
bool is_wanted_as_table(ConvertedTo wanted, const ReadOptions* reading) {
    return wanted == ConvertedTo::kTable ||
           (wanted == ConvertedTo::kRows && reading != nullptr && reading->label_column.ends_with('*'));
}

std::string conversion(const fs::path& file, std::string_view read, bool as_table) {
    std::string expression(read);
    expression.replace(expression.find("FILE"), 4, in_python(file.string()));
    const std::string modules = read.starts_with("pyarrow") ? "pyarrow.ipc" : "pandas",
                      stem = file.stem().string();
    return fmt::format("python3 -c \"import {}; {}.{}\"", modules, expression,
                       as_table ? fmt::format("to_csv('{}', index=False)", in_python(free_name(stem, ".csv")))
                                : fmt::format("to_json('{}', orient='records', lines=True)",
                                              in_python(free_name(stem, ".jsonl"))));
}

// Whether Hugging Face's library wrote the file, or what it says of a data set, with classes, which are
// numbers whose names stand in its notes only; or pandas with categories, each of which is one label.
bool has_classes(const fs::path& file) {
    constexpr std::streamoff kLooked = 256 << 10;  // at the beginning, and at the end, where Parquet has them
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    const std::streamoff size = in.tellg();
    for (const std::streamoff at : {std::streamoff(0), std::max<std::streamoff>(size - kLooked, 0)}) {
        std::string part(static_cast<std::size_t>(std::clamp<std::streamoff>(size, 0, kLooked)), '\0');
        in.seekg(at);
        in.read(part.data(), static_cast<std::streamsize>(part.size()));
        if (in && (part.find("ClassLabel") != part.npos ||
                   part.find("\"pandas_type\": \"categorical\"") != part.npos))
            return true;
    }
    return false;
}

// The arguments of Python's convert that say how rows are read.
std::string reading_in_python(const ReadOptions& reading) {
    std::string options;
    const Config usual;
    const auto add = [&](const char* key, const std::string& value, const std::string& of_usual) {
        if (value != of_usual) options += fmt::format(", {}='{}'", key, in_python(value));
    };
    add("text_column", reading.text_column, usual.text_column);
    add("label_column", reading.label_column, usual.label_column);
    add("label_separator", reading.label_separator, usual.label_separator);
    if (reading.allow_repeated_labels) options += ", allow_repeated_labels=True";
    if (reading.allow_null_labels) options += ", allow_null_labels=True";
    return options;
}

bool is_data_of_run(const fs::path& path, const ReadOptions* reading) {
    return reading != nullptr && reading->data_of_run && path == reading->data;
}

// The command of the Python package, which reads what other tools lose: classes, columns of labels, the test
// rows of a run, where it is the run's own data. It writes texts and labels only, so it has to find them.
// Other rows go into one file.
std::string conversion_by_elmo(const fs::path& path, const ReadOptions* reading, bool classes) {
    const Config usual;
    const bool own = is_data_of_run(path, reading);
    std::string options = reading == nullptr ? std::string() : reading_in_python(*reading);
    const bool renamed = options.find("_column=") != options.npos;
    // Test rows from memory are gone; of these, which all trained the run, none are test rows.
    const bool test_is_gone = own && is_rows_path(reading->test);
    if (!own || test_is_gone)
        options += ", test_share=0";
    else if (!reading->test.empty())
        options += fmt::format(", test='{}'", in_python(reading->test));
    else if (reading->test_share != usual.test_share)
        options += fmt::format(", test_share={}", reading->test_share);
    std::vector<std::string_view> notes;
    if (classes) notes.emplace_back("its classes have names, which the Python package keeps");
    if (renamed) notes.emplace_back("there the columns are called text and labels");
    if (test_is_gone) notes.emplace_back("the run's test rows were in memory and are gone: score others");
    std::error_code error;
    const std::string out = free_name("data");
    return fmt::format("python3 -c \"import elmo; elmo.convert('{0}', out='{1}'{2})\" and name {3}{4}",
                       in_python(path.string()), out, options,
                       own || fs::is_directory(path, error) ? "the folder " + out : out + "/train.jsonl",
                       notes.empty() ? std::string() : fmt::format(" ({})", fmt::join(notes, "; ")));
}

// Of rows with columns of labels a table keeps all columns, also those that another run reads.
bool needs_elmo(const fs::path& path, const ReadOptions* reading, bool classes) {
    return is_data_of_run(path, reading) ||
           (classes && (reading == nullptr || !reading->label_column.ends_with('*')));
}

[[noreturn]] void refuse(const fs::path& file, std::string_view name, const std::string& advice) {
    throw DataError(fmt::format("{}: expected text (CSV, TSV, JSON lines, ...), found {}; {}", file.string(),
                                name, advice));
}

void refuse_zip(const fs::path& file, bool as_table) {
    const ZipFile zip(file);
    std::vector<std::string> files;
    for (const ZipMember& member : zip.members())
        if (!member.name.ends_with('/') && !member.name.starts_with("__MACOSX/"))
            files.push_back(member.name);
    const auto has = [&](std::string_view beginning) {
        return std::any_of(files.begin(), files.end(),
                           [&](const std::string& name) { return name.starts_with(beginning); });
    };
    if (has("xl/"))
        refuse(file, "an Excel workbook",
               "convert it: " + conversion(file, "pandas.read_excel('FILE')", as_table));
    if (has("mimetype") && has("content.xml"))
        refuse(file, "an OpenDocument file",
               "save the sheet as CSV, or convert it: " +
                   conversion(file, "pandas.read_excel('FILE')", as_table));
    if (!files.empty() && std::all_of(files.begin(), files.end(),
                                      [](const std::string& name) { return name.ends_with(".npy"); }))
        refuse(
            file, "a NumPy or SciPy matrix",
            "labels as a matrix are read in a folder of PECOS (X.trn.txt, Y.trn.npz); features in the sparse "
            "format: sklearn.datasets.dump_svmlight_file(X, Y, 'x_train.txt', multilabel=True)");
    if (files.size() > 1)
        throw DataError(
            fmt::format("{}: expected a zip archive of one file, found {} ('{}', '{}'{}); unpack it and "
                        "name the file or its folder",
                        file.string(), files.size(), quoted(files[0]), quoted(files[1]),
                        files.size() > 2 ? ", ..." : ""));
}

// One set of rows that Hugging Face's save_to_disk wrote.
bool is_saved_set(const fs::path& folder) {
    std::error_code error;
    return fs::exists(folder / "dataset_info.json", error) && fs::exists(folder / "state.json", error);
}

void refuse_several_sets(const fs::path& path, const char* where) {
    std::error_code error;
    if (fs::exists(path / "dataset_dict.json", error))
        throw DataError(
            fmt::format("{}{}: expected one set of rows, found a folder of Hugging Face with several "
                        "(save_to_disk); name the folder of one of them",
                        where, path.string()));
}

std::string conversion_of_saved_set(const fs::path& folder) {
    return fmt::format("python3 -c \"import datasets; datasets.load_from_disk('{}').to_json('{}')\"",
                       in_python(folder.string()), free_name("data", ".jsonl"));
}

bool has_ending(const fs::path& folder, std::string_view ending) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (entry.path().filename().string().ends_with(ending)) return true;
    return false;
}

void refuse_foreign_bytes(std::string_view first, const fs::path& file, bool packed,
                          const ReadOptions* reading, ConvertedTo wanted) {
    // What has no name has to be saved first.
    const bool named = file != kStandardInput && !packed;
    const fs::path name = named ? file : fs::path("FILE");
    const std::string save = named ? "" : packed ? "unpack it to FILE and " : "save it as FILE and ";
    for (const Kind& kind : kKinds) {
        if (!first.starts_with(kind.magic)) continue;
        // Words may begin as a short magic number does: a line of text has no zero and no high bytes.
        if (kind.magic.size() < 5 &&
            std::all_of(kind.magic.begin(), kind.magic.end(), [](char c) { return c > 31; }) &&
            std::all_of(first.begin(), first.begin() + std::min<std::ptrdiff_t>(std::ssize(first), 16),
                        [](char c) { return c > 31 || c == '\n' || c == '\r' || c == '\t'; }))
            continue;
        const bool is_arrow = kind.read.find("parquet") != kind.read.npos ||
                              kind.read.find("feather") != kind.read.npos || kind.read.starts_with("pyarrow");
        const bool are_rows = named && is_arrow && wanted == ConvertedTo::kRows;
        const bool classes = are_rows && has_classes(file);
        refuse(file, kind.name,
               kind.read.empty()
                   ? "export it as CSV or JSON lines"
                   : save + "convert it: " +
                         (are_rows && needs_elmo(file, reading, classes)
                              ? conversion_by_elmo(file, reading, classes)
                              : conversion(name, kind.read, is_wanted_as_table(wanted, reading))));
    }
    if (first.starts_with("\xff\xfe") || first.starts_with("\xfe\xff"))
        refuse(file.string() + ":1", "UTF-16",
               fmt::format("it looks like UTF-16: {}convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 {} > "
                           "{}",
                           packed ? save : "", named ? shell_word(file.string()) : "FILE",
                           named ? "FILE" : "TEXT"));
}

}  // namespace

void refuse_foreign_line(std::string_view line, const fs::path& file) {
    const std::string name = file.filename().string();
    refuse_foreign_bytes(line, file, without_packed_ending(name) != name, nullptr, ConvertedTo::kRows);
    if (line.size() > 262 && line.substr(257).starts_with("ustar"))
        refuse(file, "a tar archive", "unpack it and name the file or its folder");
    if (line.find('\0') != line.npos)
        refuse(file, "binary data (a byte 0 in its first line)",
               "export it as CSV or JSON lines; text in UTF-16 without a mark: iconv -f UTF-16LE -t UTF-8");
}

void refuse_foreign_file(const fs::path& file, const ReadOptions* reading, ConvertedTo wanted) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return;
    std::string first(16, '\0');
    std::ifstream in(file, std::ios::binary);
    in.read(first.data(), static_cast<std::streamsize>(first.size()));
    first.resize(static_cast<std::size_t>(in.gcount()));
    if (first.starts_with("PK\x03\x04")) return refuse_zip(file, is_wanted_as_table(wanted, reading));
    refuse_foreign_bytes(first, file, false, reading, wanted);
}

void refuse_foreign_texts(const fs::path& path) {
    if (is_saved_set(path))
        throw DataError(fmt::format(
            "{}: expected a file of texts, found a folder of Hugging Face (save_to_disk); convert "
            "it: {}",
            path.string(), conversion_of_saved_set(path)));
    refuse_several_sets(path, "");
    refuse_foreign_file(path, nullptr, ConvertedTo::kTexts);
}

bool is_foreign_file(const fs::path& file) {
    try {
        refuse_foreign_file(file);
    } catch (const DataError&) {
        return true;
    }
    return false;
}

std::string conversion_of_validation(const fs::path& path, const ReadOptions& reading) {
    return fmt::format(
        "convert it: python3 -c \"import elmo; elmo.convert('{0}', out='{1}'{2}, test_share=0)\" and give "
        "--validation {1}/train.jsonl",
        in_python(path.string()), free_name("validation"), reading_in_python(reading));
}

void refuse_foreign_validation(const fs::path& path, const ReadOptions& reading, Beside beside) {
    const bool is_folder = is_saved_set(path);
    if (!is_folder) refuse_several_sets(path, "validation: ");
    if (!is_folder && !is_foreign_file(path)) return;
    // By themselves, or beside the data of a run, they are read by columns of their own; data that was
    // converted has the usual columns, too.
    const bool takes_usual = beside == Beside::kNothing || reading.data_of_run || reading.validation_of_run;
    const bool was_converted = reading.validation_of_run && !reading.data_of_run;
    if (is_folder || was_converted || (takes_usual && has_classes(path)))
        throw DataError(fmt::format("validation: {} is what Python reads; {}", path.string(),
                                    conversion_of_validation(path, reading)));
    try {
        refuse_foreign_file(path, nullptr,
                            beside == Beside::kTable ? ConvertedTo::kTable : ConvertedTo::kTexts);
    } catch (const DataError& error) {
        throw DataError(
            fmt::format("{}, and name what that writes with --validation{}", error.what(),
                        !takes_usual && has_classes(path)
                            ? " (there classes become numbers, and a comma in a category separates "
                              "labels: make lists of names of them first)"
                            : ""));
    }
}

void refuse_foreign_folder(const fs::path& folder, const ReadOptions& reading) {
    const auto is_there = [&](const char* name) {
        std::error_code error;
        return fs::exists(folder / name, error);
    };
    const std::string name = folder.string(), in_command = in_python(name);
    if ((is_there("best/recipe.toml") && is_there("best/manifest.json")) ||
        (is_there("last/recipe.toml") && is_there("last/manifest.json")) ||
        (is_there("recipe.toml") && is_there("manifest.json")))
        throw DataError(
            fmt::format("{}: expected a data set, found the folder of a run; name the file or folder of the "
                        "texts and labels (a training that starts from a run: DATA --init {})",
                        name, shell_word(name)));
    const bool splits = is_there("dataset_dict.json");
    if (splits || is_saved_set(folder)) {
        bool classes = has_classes(folder / "dataset_info.json");
        std::error_code error;
        for (const auto& split : fs::directory_iterator(folder, error))
            classes = classes || (splits && has_classes(split.path() / "dataset_info.json"));
        const std::string command =
            needs_elmo(folder, &reading, classes) ? conversion_by_elmo(folder, &reading, classes)
            : splits                              ? fmt::format(
                                                        "python3 -c \"import datasets; [d.to_json('{1}/' + s + '.jsonl') for s, d in "
                                                                                     "datasets.load_from_disk('{0}').items()]\" and name the folder {1}",
                                                        in_command, free_name("data"))
                     : conversion_of_saved_set(folder);
        throw DataError(
            fmt::format("{}: expected a data set that elmo reads, found one of Hugging Face (save_to_disk); "
                        "convert it: {}",
                        name, command));
    }
    for (const char* kind : {"parquet", "arrow"})
        if (has_ending(folder, fmt::format(".{}", kind)))
            throw DataError(fmt::format(
                "{0}: expected a data set that elmo reads, found {1} files; convert them: "
                "python3 -c \"import "
                "datasets; [d.to_json('{3}/' + s + '.jsonl') for s, d in "
                "datasets.load_dataset('{2}').items()]\" and "
                "name the folder {3}",
                name, std::string(kind) == "parquet" ? "Parquet" : "Arrow", in_command, free_name("data")));
}

void refuse_folder_of_texts(const fs::path& folder) {
    constexpr std::int64_t kLooked = 10000;
    const auto count = [](const fs::path& in) {
        std::int64_t texts = 0, looked = 0;
        std::error_code error;
        for (fs::directory_iterator it(in, error), end; !error && it != end && looked < kLooked;
             it.increment(error), ++looked)
            texts += it->path().extension() == ".txt";
        return texts;
    };
    const std::int64_t here = count(folder);
    std::int64_t below = 0, folders = 0;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end && folders < kLooked;
         it.increment(error)) {
        if (!it->is_directory(error)) continue;
        const std::int64_t texts = count(it->path());
        below += texts;
        folders += texts > 0;
    }
    if (here + below < 2) return;
    const std::string found = below > here ? fmt::format("{} folders with {} .txt files", folders, below)
                                           : fmt::format("{} .txt files", here);
    throw DataError(fmt::format(
        "{0}: expected one file with a row per text, found {1}; join them, {2}: python3 -c \"import json, "
        "pathlib; [print(json.dumps({{'text': f.read_text(errors='replace'), 'labels': [{3}]}})) for f in "
        "sorted(pathlib.Path('{5}').rglob('*.txt'))]\" > {4}",
        folder.string(), found,
        below > here ? "with the name of its folder as the label of a text" : "with the labels of each text",
        below > here ? "f.parent.name" : "'LABEL'", free_name("data", ".jsonl"), in_python(folder.string())));
}

}  // namespace elmo
