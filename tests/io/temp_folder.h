// A fresh folder for one test, gone afterwards, and small helpers to fill and read files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "elmo/error.h"

namespace elmo {

class TempFolder {
  public:
    TempFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "elmo-test-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        path_ = pattern;
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    std::set<std::string> entries() const {
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            names.insert(entry.path().filename());
        return names;
    }

  private:
    std::filesystem::path path_;
};

inline void spill(const std::filesystem::path& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

inline std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// The message of the DataError that `action` throws; fails the test when it throws none.
template <class Action>
std::string data_error_of(const Action& action) {
    try {
        action();
    } catch (const DataError& error) {
        return error.what();
    }
    ADD_FAILURE() << "expected a DataError";
    return "";
}

#define EXPECT_CONTAINS(text, part)                            \
    EXPECT_NE(std::string(text).find(part), std::string::npos) \
        << "'" << (text) << "' lacks '" << (part) << "'"

}  // namespace elmo
