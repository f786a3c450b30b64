#include "io/mmap_file.h"

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
