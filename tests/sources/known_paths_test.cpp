#include "sources/known_paths.h"

#include <cstdlib>

#include "data/test_folder.h"

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
