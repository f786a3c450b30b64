// Compressed files beside gzip and zstd: xz, bzip2, and zip archives of one file; each whole, in several
// streams, cut short at every kind of place, and damaged.
#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>

#include <cstring>

#include "data/test_zip.h"
#include "io/line_reader.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

using testing_data::TestZip;

std::string all_of(const std::filesystem::path& path) {
    ByteSource source(path, path.filename().string());
    std::string all, block(70000, '\0');
    while (const std::size_t n = source.read(block.data(), block.size())) all.append(block, 0, n);
    EXPECT_EQ(source.read(block.data(), block.size()), 0U);
    EXPECT_TRUE(source.is_compressed());
    return all;
}

std::string xz(const std::string& text) {
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    std::size_t size = 0;
    EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                      reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                      reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
              LZMA_OK);
    return out.substr(0, size);
}

std::string bzip2(const std::string& text) {
    std::string out(text.size() + text.size() / 100 + 700, '\0');
    auto size = static_cast<unsigned>(out.size());
    EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(text.data()),
                                       static_cast<unsigned>(text.size()), 9, 0, 0),
              BZ_OK);
    return out.substr(0, size);
}

std::string zip(const std::string& text, bool deflated) {
    TestZip archive;
    archive.add("rows.csv", text, deflated);
    return archive.finish();
}

// As macOS and pipes write it: sizes behind the data, a folder before it and a shadow of the file after it.
std::string streamed_zip(const std::string& text) {
    TestZip plain;
    plain.add("rows.csv", text, true);
    std::string bytes = plain.finish();
    bytes = bytes.substr(0, bytes.find("PK\x01\x02"));
    const std::string crc = bytes.substr(14, 4), sizes = bytes.substr(18, 8);
    bytes[6] = 8;
    bytes.replace(14, 12, 12, '\0');
    TestZip around;
    around.add("folder/", "", false);
    const std::string folder = around.finish();
    TestZip shadow;
    shadow.add("__MACOSX/._rows.csv", "shadow", false);
    return folder.substr(0, folder.find("PK\x01\x02")) + bytes + "PK\x07\x08" + crc + sizes + shadow.finish();
}

std::string long_text() {
    std::string text;
    for (int i = 0; i < 110000; ++i) text += "row " + std::to_string(i * 7919 % 100003) + "\n";
    return text;
}

TEST(Packed, IsReadInPlace) {
    const TempFolder folder;
    for (const std::string& text : {std::string(), std::string("a,b\n1,2\n"), long_text()})
        for (const std::string& packed :
             {xz(text), bzip2(text), zip(text, true), zip(text, false), streamed_zip(text)}) {
            spill(folder / "file", packed);
            EXPECT_TRUE(all_of(folder / "file") == text) << text.size() << " bytes";
        }
    spill(folder / "file", xz("one\n") + xz("") + xz("two\n") + std::string(8, '\0'));
    EXPECT_EQ(all_of(folder / "file"), "one\ntwo\n");
    spill(folder / "file", bzip2("one\n") + bzip2("two\n"));
    EXPECT_EQ(all_of(folder / "file"), "one\ntwo\n");
}

TEST(Packed, DamageNamesTheFile) {
    const TempFolder folder;
    const std::string text = long_text();
    const std::pair<const char*, std::string> cases[] = {{"xz", xz(text)},
                                                         {"bzip2", bzip2(text)},
                                                         {"zip", zip(text, true)},
                                                         {"zip", zip(text, false)},
                                                         {"zip", streamed_zip(text)}};
    for (const auto& [format, whole] : cases) {
        for (const std::size_t kept : {whole.size() / 3, whole.size() / 2, std::size_t{40}}) {
            spill(folder / "short", whole.substr(0, kept));
            EXPECT_CONTAINS(data_error_of([&] { all_of(folder / "short"); }),
                            std::string("short: the ") + format + " data ends too early");
        }
        std::string broken = whole;
        broken[whole.size() / 2] ^= 0x41;
        spill(folder / "broken", broken);
        EXPECT_CONTAINS(data_error_of([&] { all_of(folder / "broken"); }),
                        std::string("broken: the ") + format + " data is corrupt");
    }
}

TEST(Packed, ZipOfSeveralFilesIsRefused) {
    const TempFolder folder;
    TestZip two;
    two.add("train.csv", "a\n", true);
    two.add("test.csv", "b\n", true);
    spill(folder / "two.zip", two.finish());
    EXPECT_EQ(data_error_of([&] { all_of(folder / "two.zip"); }),
              "two.zip: expected a zip archive of one file, found 'train.csv' and 'test.csv'; unpack it and "
              "name the file");
    TestZip coloured;
    coloured.add("a\x1b[2J\n", "a\n", true);
    coloured.add("b", "b\n", true);
    spill(folder / "coloured.zip", coloured.finish());
    EXPECT_CONTAINS(data_error_of([&] { all_of(folder / "coloured.zip"); }),
                    "found 'a\\x1b[2J\\x0a' and 'b'");
    TestZip none;
    none.add("folder/", "", false);
    spill(folder / "none.zip", none.finish());
    EXPECT_EQ(data_error_of([&] { all_of(folder / "none.zip"); }), "none.zip: the zip archive holds no file");
    std::string locked = zip("a\n", true);
    locked[6] = 1;
    spill(folder / "locked.zip", locked);
    EXPECT_CONTAINS(data_error_of([&] { all_of(folder / "locked.zip"); }),
                    "it is encrypted; unpack it first");
}

TEST(Packed, BombsNeedLittleMemory) {
    const TempFolder folder;
    const std::string zeros(8 << 20, '\0');
    for (const std::string& packed : {xz(zeros), bzip2(zeros), zip(zeros, true)}) {
        EXPECT_LT(packed.size(), std::size_t{16} << 10);
        spill(folder / "bomb", packed);
        LineReader reader(folder / "bomb", 1 << 20);
        EXPECT_CONTAINS(data_error_of([&] { (void)reader.next_line(); }),
                        "expected lines of at most 1.0 MiB");
    }
    // A dictionary of 4 GiB: the byte before the padding of the block's header, which a checksum follows.
    std::string greedy = xz("a\n");
    const std::size_t header = 12, bytes = (static_cast<unsigned char>(greedy[header]) + 1U) * 4;
    const std::size_t filter = greedy.find("\x21\x01", header);
    ASSERT_LT(filter, header + bytes);
    greedy[filter + 2] = 40;
    const auto checksum = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(&greedy[header]), static_cast<uInt>(bytes - 4)));
    std::memcpy(&greedy[header + bytes - 4], &checksum, sizeof checksum);
    spill(folder / "greedy.xz", greedy);
    EXPECT_CONTAINS(data_error_of([&] { all_of(folder / "greedy.xz"); }), "it needs more than 256 MiB");
}

TEST(Packed, NamesInsideOfAnArchiveAreNoPaths) {
    const TempFolder folder;
    TestZip archive;
    archive.add("../escaped", "a\n", true);
    std::filesystem::create_directory(folder / "inside");
    spill(folder / "inside/archive.zip", archive.finish());
    EXPECT_EQ(all_of(folder / "inside/archive.zip"), "a\n");
    EXPECT_FALSE(std::filesystem::exists(folder / "escaped"));
}

// Words that begin as a magic number does are words.
TEST(Packed, TextIsNotTakenForCompressed) {
    const TempFolder folder;
    for (const std::string text : {"BZh", "BZh9 is a name\n", "PK\n", "PK",
                                   "\xfd"
                                   "7z\n"}) {
        spill(folder / "words", text);
        ByteSource source(folder / "words", "words");
        std::string block(100, '\0');
        block.resize(source.read(block.data(), block.size()));
        EXPECT_EQ(block, text);
        EXPECT_FALSE(source.is_compressed());
    }
}

}  // namespace
}  // namespace elmo
