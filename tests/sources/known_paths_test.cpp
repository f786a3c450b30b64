#include "sources/known_paths.h"

#include <cstdlib>

#include "data/test_folder.h"
#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

class KnownPaths : public testing_data::TestFolder {
  protected:
    void SetUp() override {
        TestFolder::SetUp();
        fs::create_directory(folder_ / "cache");
        ::setenv("XDG_CACHE_HOME", (folder_ / "user").c_str(), 1);
    }
    void TearDown() override {
        ::unsetenv("XDG_CACHE_HOME");
        TestFolder::TearDown();
    }
    ReadOptions reading_of(const fs::path& data) {
        Config config;
        config.data = data.string();
        config.cache = (folder_ / "cache").string();
        return config;
    }
    long marks() { return std::distance(fs::directory_iterator(folder_ / "cache"), {}); }
};

TEST_F(KnownPaths, AreThoseThatWereRead) {
    const fs::path one = write("one.tsv", "x\ty\n"), other = write("other.tsv", "x\ty\n");
    mark_known_paths(folder_ / "cache", reading_of(one));
    EXPECT_TRUE(is_known_path(reading_of(one), one.string()));
    EXPECT_FALSE(is_known_path(reading_of(one), other.string()));
}

// What a run will name is the original; the copy goes with the call.
TEST_F(KnownPaths, AreWhatCopiesAreOf) {
    const fs::path table = write("rows.parquet", "PAR1"), copy = write("copy.jsonl", "{}\n");
    const fs::path test = write("test.parquet", "PAR1");
    Config config;
    set_copied(config, "data", copy.string(), table.string());
    set_copied(config, "test", copy.string(), test.string());
    config.cache = (folder_ / "cache").string();
    mark_known_paths(folder_ / "cache", config);
    EXPECT_FALSE(is_known_path(reading_of(table), table.string()));
    mark_known_originals(folder_ / "cache", config);
    for (const fs::path& path : {table, test}) EXPECT_TRUE(is_known_path(reading_of(table), path.string()));
    // A validation file that is none is read beside the copy, and named beside the original.
    const fs::path lines = write("held.jsonl", "{}\n");
    config.validation = lines.string();
    mark_known_originals(folder_ / "cache", config);
    EXPECT_TRUE(is_known_path(reading_of(table), lines.string()));
    const long before = marks();
    set_copied(config, "validation", copy.string(), "elmo-rows-0123456789abcdef/train.jsonl");
    mark_known_originals(folder_ / "cache", config);
    EXPECT_EQ(marks(), before);
}

TEST_F(KnownPaths, RowsFromMemoryThatAreGoneAreNamedSo) {
    const auto said = [&](const std::string& path, const char* key = "data") -> std::string {
        try {
            require_known_path(reading_of(path), path, true, key);
        } catch (const DataError& error) {
            return error.what();
        }
        return "nothing";
    };
    EXPECT_EQ(
        said("/none/elmo-rows-aB3dE6"),
        "/none/elmo-rows-aB3dE6: the run was trained on rows from memory, which are gone; write them, or "
        "others, to a file and name it with --data");
    EXPECT_EQ(said("elmo-rows-0123456789abcdef/train.jsonl", "validation"),
              "validation: those of the run were rows from memory, which are gone; write them, or "
              "others, to a file and name it with --validation");
    EXPECT_EQ(said("/none/rows.csv"),
              "/none/rows.csv: no such file or folder, but the run was trained on it; name the data");
    EXPECT_EQ(said("none/rows.csv"),
              "none/rows.csv: no such file or folder, but the run was trained on it; the path is from the "
              "folder where training was started: go there, or name the data");
}

// A number of a file alone can be guessed: whoever makes a cache could make marks for many.
TEST_F(KnownPaths, AFileWithoutTimeOfBirthIsKnownByTheSecretOnly) {
    const fs::path file = "/proc/version";
    if (!fs::exists(file)) GTEST_SKIP() << "no file system without times of birth here";
    mark_known_paths(folder_ / "cache", reading_of(file));
    EXPECT_EQ(marks(), 1);
    EXPECT_TRUE(is_known_path(reading_of(file), file.string()));
    fs::remove(folder_ / "user/elmo/known.key");
    EXPECT_FALSE(is_known_path(reading_of(file), file.string()));
}

}  // namespace
}  // namespace elmo
