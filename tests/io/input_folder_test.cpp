// A folder that is read while it is replaced: its files are those of one folder.
#include "io/input_folder.h"

#include <sys/stat.h>

#include "io/atomic_folder.h"
#include "temp_folder.h"

namespace elmo::input_folder_test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// index, a and b with the same content.
void write_folder(const fs::path& target, const std::string& content) {
    AtomicFolder folder(target);
    for (const char* name : {"index", "a", "b"}) spill(folder.path() / name, content);
    folder.commit();
}

InputFolder pin(const fs::path& folder) {
    return InputFolder::pin(folder, "index", [](const InputFolder&) { return Names{"a", "b"}; });
}

TEST(InputFolder, APathIsReadWhenAsked) {
    const TempFolder temp;
    write_folder(temp / "f", "old");
    const InputFolder folder = temp / "f";
    EXPECT_TRUE(folder.has("a"));
    EXPECT_EQ(folder.read("a"), "old");
    write_folder(temp / "f", "other");
    EXPECT_EQ(folder.read("a"), "other");
    EXPECT_EQ(folder.size("a"), 5);
    EXPECT_EQ(folder.names().size(), 3u);
    EXPECT_FALSE(folder.has("c"));
    EXPECT_CONTAINS(data_error_of([&] { folder.map("c"); }), "f/c");
}

TEST(InputFolder, APinnedOneStaysWhenItIsReplaced) {
    const TempFolder temp;
    write_folder(temp / "f", "old");
    InputFolder folder = pin(temp / "f");
    const std::uint64_t hash = folder.hash("b");
    write_folder(temp / "f", "other");
    EXPECT_EQ(folder.read("a"), "old");
    EXPECT_EQ(folder.map("b").size(), 3);
    EXPECT_EQ(folder.size("index"), 3);
    EXPECT_EQ(folder.hash("b"), hash);
    EXPECT_EQ(folder.names(), (Names{"a", "b", "index"}));
    EXPECT_EQ(folder.path(), temp / "f");
    const MappedFile mapped = folder.map("a");
    folder.close();
    EXPECT_FALSE(folder.has("a"));
    EXPECT_EQ(static_cast<char>(mapped.bytes()[0]), 'o');
    EXPECT_CONTAINS(data_error_of([&] { folder.read("a"); }), "f/a: cannot open");
}

// Replaced between two files, as often as it is tried, but for the last time.
TEST(InputFolder, PinningBeginsAgainWhenItIsReplaced) {
    const TempFolder temp;
    write_folder(temp / "f", "0");
    int calls = 0;
    const InputFolder folder = InputFolder::pin(temp / "f", "index", [&](const InputFolder& opened) {
        EXPECT_EQ(opened.read("index"), std::to_string(calls));
        if (++calls < 5) write_folder(temp / "f", std::to_string(calls));
        return Names{"a", "b"};
    });
    EXPECT_EQ(calls, 5);
    for (const char* name : {"index", "a", "b"}) EXPECT_EQ(folder.read(name), "4");
}

TEST(InputFolder, WhatIsMissingIsLeftOut) {
    const TempFolder temp;
    write_folder(temp / "f", "x");
    fs::remove(temp / "f/b");
    EXPECT_EQ(pin(temp / "f").names(), (Names{"a", "index"}));
    fs::remove(temp / "f/index");
    EXPECT_EQ(pin(temp / "f").names(), Names{});
    EXPECT_CONTAINS(data_error_of([&] { pin(temp / "none"); }), "none: cannot open");
}

TEST(InputFolder, LinksAndPipesAreRefused) {
    const TempFolder temp;
    write_folder(temp / "f", "x");
    spill(temp / "secret", "s");
    fs::remove(temp / "f/b");
    fs::create_symlink(temp / "secret", temp / "f/b");
    EXPECT_CONTAINS(data_error_of([&] { pin(temp / "f"); }), "f/b: expected a file, found a symbolic link");
    fs::remove(temp / "f/b");
    ASSERT_EQ(::mkfifo((temp / "f/b").c_str(), 0600), 0);
    EXPECT_CONTAINS(data_error_of([&] { pin(temp / "f"); }), "f/b: expected a file, found something else");
    fs::remove(temp / "f/b");
    fs::create_directory(temp / "f/b");
    EXPECT_CONTAINS(data_error_of([&] { pin(temp / "f"); }), "f/b: expected a file, found something else");
}

}  // namespace
}  // namespace elmo::input_folder_test
