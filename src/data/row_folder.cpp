#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "config/rows_path.h"
#include "config/views.h"
#include "elmo/config.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "formats/json_text.h"
#include "io/checksum.h"
#include "io/file_error.h"
#include "io/output_file.h"
#include "sources/tables/guess.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

fs::path temporary_folder() {
    std::string pattern = (fs::temp_directory_path() / fmt::format("{}XXXXXX", kRowsPrefix)).string();
    if (mkdtemp(pattern.data()) == nullptr) throw_file_error(pattern, "create");
    return pattern;
}

fs::path made_folder(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw_file_error(folder, "create", error.value());
    return folder;
}

nlohmann::json labels_of(const Row& row) {
    if (row.label_field) return *row.label_field;
    nlohmann::json labels = row.labels;
    if (row.null_label) labels.push_back(nullptr);
    return labels;
}

struct Columns {
    std::string text = "text", labels = "labels";

    // A text is whole under the first name. The first row has the others too: a name that no row has is
    // doubted.
    std::string with_text(const std::string& row_text, bool is_first) const {
        const std::vector<std::string> keys = split_columns(text);
        std::string fields = fmt::format("{}: {}", json_string(nlohmann::json(keys.front())),
                                         json_string(nlohmann::json(row_text)));
        for (std::size_t i = 1; is_first && i < keys.size(); ++i)
            if (keys[i] != keys.front())
                fields += fmt::format(", {}: \"\"", json_string(nlohmann::json(keys[i])));
        return fields;
    }
};

// One of the two files, made when its first row comes.
struct Part {
    const char* name;
    OutputFile file;
    std::int64_t rows = 0;
    Hash64 hash{};

    void check(const std::string& text, const char* what) const {
        if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
            throw DataError(fmt::format("row {} of {}: expected a {} of valid UTF-8, found '{}'", rows + 1,
                                        name, what, quoted(text)));
    }

    void add(const fs::path& folder, const Columns& columns, const Row& row) {
        check(row.text, "text");
        for (const std::string& label : row.labels) check(label, "label");
        if (row.label_field) check(*row.label_field, "label field");
        if (!file.is_open()) file = OutputFile(folder / name, OutputFile::Open::kExclusive);
        const std::string line =
            fmt::format("{{{}, {}: {}}}\n", columns.with_text(row.text, rows == 0),
                        json_string(nlohmann::json(columns.labels)), json_string(labels_of(row)));
        file.write(line);
        hash.update(line);
        ++rows;
    }
};

}  // namespace

struct RowFolder::Impl {
    ~Impl() {
        std::error_code error;
        if (maker == ::getpid()) fs::remove_all(folder, error);
    }

    fs::path folder;
    pid_t maker = 0;  // of a temporary folder: a fork of the process does not remove it
    Columns columns;
    Part train{"train.jsonl", {}}, test{"test.jsonl", {}};
};

void detect_columns(Config& config, const std::vector<std::string>& text_columns,
                    const std::vector<std::vector<std::string>>& first_rows) {
    for (const DetectedOption& option : detect_table_columns(config, text_columns, first_rows)) {
        set_option(config, option.key, option.value);
        mark_option(config, option.key, Origin::kChosen, std::string(kDetectedReason));
    }
}

bool is_row_folder(const std::string& path) {
    return is_rows_path(path);
}

RowFolder::RowFolder() : impl_(std::make_unique<Impl>()) {
    impl_->folder = temporary_folder();
    impl_->maker = ::getpid();
}
RowFolder::RowFolder(const std::string& folder) : impl_(std::make_unique<Impl>()) {
    impl_->folder = made_folder(folder);
}
RowFolder::~RowFolder() = default;
RowFolder::RowFolder(RowFolder&&) noexcept = default;
RowFolder& RowFolder::operator=(RowFolder&&) noexcept = default;

void RowFolder::name_columns(const std::string& text_column, const std::string& label_column) {
    impl_->columns = {text_column, label_column};
}
void RowFolder::add(const Row& row) {
    impl_->train.add(impl_->folder, impl_->columns, row);
}
void RowFolder::add_test(const Row& row) {
    impl_->test.add(impl_->folder, impl_->columns, row);
}

void RowFolder::finish(Config& config) {
    for (Part* part : {&impl_->train, &impl_->test})
        if (part->file.is_open()) part->file.flush();
    config.data = impl_->folder.string();
    // A run knows them by what they are: the folder goes, and equal rows have another one next time.
    if (impl_->maker != 0)
        set_copied(config, "data", config.data,
                   fmt::format("{}{}{}", kRowsPrefix, hash_text(impl_->train.hash.digest()),
                               impl_->test.rows > 0 ? hash_text(impl_->test.hash.digest()) : ""));
    // Given, not assigned: a run that the rows are scored or trained on with may have other columns. The
    // format is that of these files: a recipe does not keep it, as other data has another.
    set_copied(config, "format", "jsonl", "auto");
    const auto set_column = [&](std::string_view key, const std::string& column) {
        if (reason_of(config, key) != kDetectedReason || get_option(config, key) != column)
            set_option(config, key, column);
    };
    set_column("text_column", impl_->columns.text);
    set_column("label_column", impl_->columns.labels);
}

}  // namespace elmo
