#include "io/mmap_file.h"

#include <fstream>
#include <numeric>
#include <utility>

#include "io/temp_folder.h"

namespace elmo {
namespace {

std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheBytes) {
    TempFolder folder;
    spill(folder / "a", "hello");
    MappedFile file(folder / "a");
    EXPECT_EQ(text_of(file), "hello");
    EXPECT_EQ(file.size(), 5);
    for (auto access : {MappedFile::Access::kNormal, MappedFile::Access::kSequential,
                        MappedFile::Access::kRandom, MappedFile::Access::kSoon})
        file.advise(access);
    const std::byte* address = file.bytes().data();
    MappedFile moved(std::move(file));
    EXPECT_EQ(moved.bytes().data(), address);
    EXPECT_EQ(file.size(), 0);
    MappedFile assigned;
    assigned = std::move(moved);
    EXPECT_EQ(text_of(assigned), "hello");
}

// Kilobytes of files in this process's memory.
std::int64_t resident_file_kilobytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::int64_t kilobytes = -1;
    while (status >> word)
        if (word == "RssFile:") status >> kilobytes;
    return kilobytes;
}

TEST(MappedFile, WhatIsDroppedIsNotInMemoryUntilItIsRead) {
    constexpr std::size_t kSize = std::size_t{64} << 20;
    TempFolder folder;
    spill(folder / "a", std::string(kSize, 'x'));
    const MappedFile file(folder / "a");
    const auto sum = [&](std::size_t first, std::size_t count) {
        const auto part = file.bytes().subspan(first, count);
        return std::accumulate(part.begin(), part.end(), std::int64_t{0},
                               [](std::int64_t all, std::byte one) { return all + static_cast<int>(one); });
    };
    constexpr std::int64_t kAll = static_cast<std::int64_t>(kSize) * 'x';
    EXPECT_EQ(sum(0, kSize), kAll);
    const std::int64_t before = resident_file_kilobytes();
    file.drop(file.bytes().subspan(5, kSize - 7));
    EXPECT_LT(resident_file_kilobytes(), before - static_cast<std::int64_t>(kSize >> 10) * 9 / 10);
    EXPECT_EQ(sum(0, kSize), kAll);
    // Bytes of elsewhere are left alone.
    const std::string other(1 << 16, 'y');
    file.drop(std::as_bytes(std::span(other)));
    EXPECT_EQ(other, std::string(1 << 16, 'y'));
    file.drop({});
    MappedFile().drop(file.bytes());
}

TEST(MappedFile, EmptyFileAndErrors) {
    TempFolder folder;
    spill(folder / "empty", "");
    MappedFile empty(folder / "empty");
    EXPECT_TRUE(empty.bytes().empty());
    empty.advise(MappedFile::Access::kRandom);
    EXPECT_CONTAINS(data_error_of([&] { MappedFile missing(folder / "none"); }),
                    "none: cannot open: No such file");
    EXPECT_CONTAINS(data_error_of([&] { MappedFile wrong(folder.path()); }), "expected a file");
}

}  // namespace
}  // namespace elmo
