#include "data/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/text_util.h"
#include "data/label_fields.h"
#include "elmo/error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::pair<std::string_view, DataFormat>, 5> kFormats = {{
    {"xmc", DataFormat::kXmc},
    {"jsonl-folder", DataFormat::kJsonFolder},
    {"tsv", DataFormat::kTsv},
    {"csv", DataFormat::kCsv},
    {"jsonl", DataFormat::kJsonl},
}};

// The first of `names` that is in the folder, itself or with .gz; "" when none is.
fs::path find_file(const fs::path& folder, std::initializer_list<const char*> names) {
    for (const char* name : names)
        for (const char* ending : {"", ".gz"}) {
            std::error_code ignored;
            const fs::path path = folder / (std::string(name) + ending);
            if (fs::is_regular_file(path, ignored)) return path;
        }
    return {};
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

DataFormat format_of_folder(const fs::path& folder) {
    const bool xmc = !find_file(folder, {"trn_X.txt", "trn_X_Y.txt", "tst_X_Y.txt"}).empty();
    const bool json = !find_file(folder, {"trn.json", "tst.json"}).empty();
    if (xmc && json)
        throw ConfigError(fmt::format(
            "{}: found both trn_X*.txt and trn.json; say which to read with --format xmc or jsonl-folder",
            folder.string()));
    if (!xmc && !json)
        throw DataError(
            fmt::format("{}: expected trn_X.txt and trn_X_Y.txt (XMC repository layout) or trn.json (JSON "
                        "lines), found neither",
                        folder.string()));
    return xmc ? DataFormat::kXmc : DataFormat::kJsonFolder;
}

DataFormat format_of_file(const fs::path& file) {
    fs::path name = lower(file.filename().string());
    if (name.extension() == ".gz") name = name.stem();
    const std::string ending = name.extension().string();
    if (ending == ".tsv" || ending == ".txt") return DataFormat::kTsv;
    if (ending == ".csv") return DataFormat::kCsv;
    if (ending == ".jsonl" || ending == ".json" || ending == ".ndjson") return DataFormat::kJsonl;
    throw ConfigError(
        fmt::format("{}: the format cannot be told from the name; say it with --format tsv, csv or jsonl",
                    file.string()));
}

// trn_X.txt -> trn_X_Y.txt, .gz or not.
fs::path labels_beside(const fs::path& text) {
    std::string name = text.filename().string();
    if (name.ends_with(".gz")) name.resize(name.size() - 3);
    if (!name.ends_with("X.txt"))
        throw ConfigError(
            fmt::format("validation: expected a file of texts named like val_X.txt with its labels beside it "
                        "in val_X_Y.txt, found '{}'",
                        text.string()));
    const std::string labels = name.substr(0, name.size() - 4) + "_Y.txt";
    const fs::path found = find_file(text.parent_path(), {labels.c_str()});
    if (found.empty())
        throw DataError(fmt::format("{}: not found; it should hold the labels of {}",
                                    (text.parent_path() / labels).string(), text.string()));
    return found;
}

void find_filters(const Config& config, Layout& layout) {
    if (config.filter == "none") return;
    if (config.filter != "auto") {
        if (!fs::is_regular_file(config.filter))
            throw ConfigError(
                fmt::format("filter: expected auto, none or a file of 'row label' lines, found '{}'",
                            quoted(config.filter)));
        (config.split == "train" ? layout.train : layout.test).filter = config.filter;
        return;
    }
    if (layout.is_plain()) return;
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

std::string Layout::describe() const {
    switch (format) {
        case DataFormat::kXmc:
            return "XMC repository text layout";
        case DataFormat::kJsonFolder:
            return fmt::format("JSON lines folder (text: {})", fmt::join(text_columns, " + "));
        case DataFormat::kTsv:
            return "plain file, tab-separated";
        case DataFormat::kCsv:
            return fmt::format("plain file, CSV (text: {})", fmt::join(text_columns, " + "));
        case DataFormat::kJsonl:
            return fmt::format("plain file, JSON lines (text: {})", fmt::join(text_columns, " + "));
    }
    return {};
}

Layout find_layout(const Config& config) {
    if (config.data.empty()) throw ConfigError("data: expected a folder or file, found nothing");
    Layout layout;
    layout.data = config.data;
    const bool is_folder = fs::is_directory(layout.data);
    if (!fs::exists(layout.data)) throw DataError(fmt::format("{}: no such file or folder", config.data));
    if (config.format == "auto") {
        layout.format = is_folder ? format_of_folder(layout.data) : format_of_file(layout.data);
    } else {
        const auto named = std::find_if(kFormats.begin(), kFormats.end(),
                                        [&](const auto& entry) { return entry.first == config.format; });
        if (named == kFormats.end())
            throw ConfigError(
                fmt::format("format: expected auto, xmc, jsonl-folder, tsv, csv or jsonl, found '{}'",
                            quoted(config.format)));
        layout.format = named->second;
    }
    if (layout.is_plain() == is_folder)
        throw DataError(fmt::format("{}: expected a {}, found a {}", config.data,
                                    is_folder ? "file" : "folder", is_folder ? "folder" : "file"));

    layout.text_columns = split_columns(config.text_column);
    layout.label_column = config.label_column;
    layout.label_separator = config.label_separator;
    const fs::path& data = layout.data;
    if (layout.format == DataFormat::kXmc) {
        layout.train = {find_file(data, {"trn_X.txt"}), find_file(data, {"trn_X_Y.txt"}), {}};
        layout.test = {find_file(data, {"tst_X.txt"}), find_file(data, {"tst_X_Y.txt"}), {}};
        layout.label_names = find_file(data, {"Y.txt"});
        for (const SplitFiles* split : {&layout.train, &layout.test})
            if (!split->text.empty() && split->labels.empty())
                labels_beside(split->text);  // says what is missing
    } else if (layout.format == DataFormat::kJsonFolder) {
        const fs::path train = find_file(data, {"trn.json"}), test = find_file(data, {"tst.json"});
        layout.train = {train, train, {}};
        layout.test = {test, test, {}};
        layout.label_names = find_file(data, {"lbl.json"});
        if (layout.label_names.empty())
            throw DataError(fmt::format("{}: not found; a label's number is its line in it",
                                        (data / "lbl.json").string()));
        // The options' own defaults name nothing in these files; what the sets' names say then holds.
        if (config.text_column == Config{}.text_column) {
            layout.text_columns = {"title"};
            const std::string folder = lower(fs::absolute(data).lexically_normal().string());
            const std::string name = fs::path(folder).has_filename()
                                         ? fs::path(folder).filename().string()
                                         : fs::path(folder).parent_path().filename().string();
            if (name.find("titles") == name.npos) layout.text_columns.push_back("content");
        }
        if (config.label_column == Config{}.label_column) layout.label_column = "target_ind";
    } else {
        layout.train = {data, data, {}};
        layout.test_share = config.test_share;
        if (layout.test_share > 0) layout.test = {data, data, {}};
    }

    const fs::path validation = parse_validation(config).file;
    if (!validation.empty())
        layout.validation = {
            validation, layout.format == DataFormat::kXmc ? labels_beside(validation) : validation, {}};
    find_filters(config, layout);
    return layout;
}

Validation parse_validation(const Config& config) {
    Validation validation;
    const std::string& text = config.validation;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), validation.share);
    if (status == std::errc() && end == text.data() + text.size() && validation.share >= 0 &&
        validation.share < 1)
        return validation;
    if (text.empty() || !fs::is_regular_file(text))
        throw ConfigError(fmt::format("validation: expected a share from 0 to below 1, or a file, found '{}'",
                                      quoted(text)));
    return {0, text};
}

}  // namespace elmo
