// A separate folder for each test, with files written from literals, and other shared helpers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "text/harness.h"

namespace elmo::testing_data {

class TestFolder : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "elmo_data_XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override {
        std::error_code ignored;
        std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, ignored);
        std::filesystem::remove_all(folder_, ignored);
    }

    std::filesystem::path write(const std::string& name, const std::string& bytes) {
        const auto path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    }
    std::filesystem::path write_gz(const std::string& name, const std::string& bytes) {
        const auto path = folder_ / name;
        gzFile file = ::gzopen(path.c_str(), "wb");
        ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
        ::gzclose(file);
        return path;
    }
    static std::string read(const std::filesystem::path& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    }
    Config config(const std::string& name = "") const {
        Config result;
        result.data = (folder_ / name).string();
        result.validation = "0";
        return result;
    }
    // What an Error of type E says, or "" when none is thrown.
    template <class E = DataError, class Body>
    static std::string message(const Body& body) {
        try {
            body();
        } catch (const E& error) {
            return error.what();
        }
        return {};
    }

    std::filesystem::path folder_;
};

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

inline std::vector<std::uint32_t> row(const LabelMatrix& matrix, std::int64_t i) {
    const auto ids = matrix.row(i);
    return {ids.begin(), ids.end()};
}

// A small vocabulary learnt from a few lines; enough letters to spell anything in lower case.
inline std::unique_ptr<Tokenizer> small_tokenizer(std::int64_t vocab_size = 200) {
    const std::vector<std::string> texts(3, "the quick brown fox jumps over the lazy dog 0123456789 . , : ;");
    return learn(texts, {.vocab_size = vocab_size});
}

// A real data set beside the source tree, or where ELMO_SHARED points; "" when absent.
inline std::filesystem::path shared_data(const std::string& name) {
    const char* place = std::getenv("ELMO_SHARED");
    const std::filesystem::path shared =
        place != nullptr ? place : std::filesystem::path(ELMO_SOURCE_DIR) / "../shared";
    const auto path = shared / "data" / name;
    return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace elmo::testing_data
