// What a data set consists of: its format and the files of each split.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/rows.h"
#include "elmo/config.h"

namespace elmo {

enum class DataFormat { kXmc, kJsonFolder, kTsv, kCsv, kJsonl };

struct SplitFiles {
    std::filesystem::path text;    // "" where the split has none
    std::filesystem::path labels;  // the same file as text in all formats but XMC
    std::filesystem::path filter;  // "" where there is none
};

struct Layout {
    DataFormat format = DataFormat::kXmc;
    std::filesystem::path data;  // the folder or file
    SplitFiles train, test, validation;
    std::filesystem::path label_names;  // Y.txt or lbl.json; "" where there is none

    std::vector<std::string> text_columns;  // columns or keys; unused in the XMC format
    std::string label_column;
    std::string label_separator;
    double test_share = 0;  // of a plain file

    // One file that elmo splits by itself, with labels by name.
    bool is_plain() const { return format != DataFormat::kXmc && format != DataFormat::kJsonFolder; }
    const SplitFiles& files(SplitName split) const;
    std::string describe() const;  // for people
};

// Looks at config.data. ConfigError or DataError that says what was looked for and what is there.
Layout find_layout(const Config& config);

// config.validation: a share, or a file.
struct Validation {
    double share = 0;
    std::filesystem::path file;  // "" for a share
};
Validation parse_validation(const Config& config);

}  // namespace elmo
