#include "io/line_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <vector>

#include "io/temp_folder.h"

namespace elmo {
namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path,
                                  std::int64_t limit = LineReader::kDefaultMaxLine) {
    LineReader reader(path, limit);
    std::vector<std::string> lines;
    while (const auto line = reader.next_line()) lines.emplace_back(*line);
    EXPECT_EQ(reader.line_number(), static_cast<std::int64_t>(lines.size()));
    EXPECT_EQ(reader.next_line(), std::nullopt);
    return lines;
}

std::string gzip(std::string_view text) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

using Lines = std::vector<std::string>;

TEST(LineReader, EndsOfLinesAndFiles) {
    TempFolder folder;
    const std::pair<std::string, Lines> cases[] = {
        {"", {}},
        {"\n", {""}},
        {"a", {"a"}},
        {"a\n", {"a"}},
        {"a\n\nb", {"a", "", "b"}},
        {"a\r\nb\r\n", {"a", "b"}},
        {"a\rb\r\r\n", {"a\rb\r"}},
        {"a\n\r", {"a", ""}},
        {"\xEF\xBB\xBF", {}},
        {"\xEF\xBB\xBF\n", {""}},
        {"\xEF\xBB\xBFx\n\xEF\xBB\xBFy\n", {"x", "\xEF\xBB\xBFy"}},
        {std::string("a\0b\n", 4), {std::string("a\0b", 3)}},
        {"\x1f", {"\x1f"}},
        {"\x1f\n", {"\x1f"}},
    };
    for (const auto& [content, lines] : cases) {
        spill(folder / "plain", content);
        EXPECT_EQ(lines_of(folder / "plain"), lines) << testing::PrintToString(content);
        spill(folder / "gzip", gzip(content));
        EXPECT_EQ(lines_of(folder / "gzip"), lines) << testing::PrintToString(content);
    }
}

TEST(LineReader, LinesAcrossBlocksOfEveryLength) {
    TempFolder folder;
    Lines lines;
    std::string content;
    // Lengths around the block size of 1 MiB, and many short ones.
    for (std::size_t length : {std::size_t{1} << 20, (std::size_t{1} << 20) - 1, (std::size_t{1} << 20) + 1,
                               std::size_t{5} << 20, std::size_t{0}, std::size_t{7}}) {
        for (int i = 0; i < 3000; ++i) lines.push_back(std::string(static_cast<std::size_t>(i % 97), 'x'));
        lines.push_back(std::string(length, 'y'));
    }
    for (const auto& line : lines) content += line + "\n";
    spill(folder / "plain", content);
    spill(folder / "gzip", gzip(content));
    EXPECT_TRUE(lines_of(folder / "plain") == lines);
    EXPECT_TRUE(lines_of(folder / "gzip") == lines);
}

TEST(LineReader, SeveralGzipMembersAndPadding) {
    TempFolder folder;
    spill(folder / "a", gzip("one\ntw") + gzip("") + gzip("o\nthree") + std::string(1000, '\0'));
    EXPECT_EQ(lines_of(folder / "a"), (Lines{"one", "two", "three"}));
    spill(folder / "b", gzip("one\n") + "rubbish");
    EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "b"); }), "b: bytes that are not gzip follow");
}

TEST(LineReader, DamagedGzipNamesTheFile) {
    TempFolder folder;
    std::string text;
    for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919 % 100003) + "\n";
    const std::string packed = gzip(text);
    for (const std::size_t kept :
         {packed.size() - 1, packed.size() - 8, packed.size() / 2, std::size_t{10}, std::size_t{2}}) {
        spill(folder / "short.gz", packed.substr(0, kept));
        EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "short.gz"); }),
                        "short.gz: the gzip data ends too early");
    }
    std::string broken = packed;
    broken[packed.size() / 2] ^= 0x55;
    spill(folder / "broken.gz", broken);
    EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "broken.gz"); }),
                    "broken.gz: the gzip data is corrupt");
    broken = packed;
    broken[packed.size() - 6] ^= 1;  // the checksum
    spill(folder / "broken.gz", broken);
    EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "broken.gz"); }), "corrupt");
}

TEST(LineReader, TooLongALineIsAnErrorWithItsNumber) {
    TempFolder folder;
    for (const std::string& content : {std::string("ok\n12345\n123456\n"), std::string("ok\n12345\n123456"),
                                       "ok\n12345\n" + std::string(5 << 20, 'x')}) {
        spill(folder / "a", content);
        EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "a", 5); }),
                        "a:3: expected lines of at most 5 B");
    }
    spill(folder / "a",
          "\xEF\xBB\xBF"
          "12345\r\n12345\r\n12345");
    EXPECT_EQ(lines_of(folder / "a", 5), (Lines{"12345", "12345", "12345"}));
    // One line of zeros that inflates to far more than the limit.
    spill(folder / "bomb.gz", gzip(std::string(20 << 20, '\0')));
    EXPECT_CONTAINS(data_error_of([&] { lines_of(folder / "bomb.gz", 1 << 20); }),
                    "bomb.gz:1: expected lines of at most 1.0 MiB");
}

TEST(LineReader, StandardInputComesLineByLine) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const int saved = ::dup(STDIN_FILENO);
    ASSERT_GE(::dup2(ends[0], STDIN_FILENO), 0);
    ASSERT_EQ(::write(ends[1], "\n", 1), 1);
    LineReader reader("-");
    EXPECT_EQ(reader.next_line(), "");  // before anything else is written: nothing is waited for
    ASSERT_EQ(::write(ends[1], "one\ntw", 6), 6);
    EXPECT_EQ(reader.next_line(), "one");
    ASSERT_EQ(::write(ends[1], "o", 1), 1);
    ::close(ends[1]);
    EXPECT_EQ(reader.next_line(), "two");
    EXPECT_EQ(reader.next_line(), std::nullopt);
    EXPECT_EQ(reader.name(), "standard input");
    EXPECT_EQ(reader.total_bytes(), 0);
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
    ::close(ends[0]);
}

TEST(LineReader, MessagesAndProgress) {
    TempFolder folder;
    spill(folder / "a", "x\ny\n");
    LineReader reader(folder / "a");
    EXPECT_EQ(reader.total_bytes(), 4);
    reader.next_line();
    reader.next_line();
    EXPECT_EQ(reader.where(), (folder / "a").string() + ":2");
    EXPECT_EQ(reader.bytes_read(), 4);
    EXPECT_CONTAINS(data_error_of([&] { reader.fail("expected a cat"); }), "a:2: expected a cat");
    EXPECT_CONTAINS(data_error_of([&] { LineReader missing(folder / "none"); }), "none: cannot open");
    EXPECT_CONTAINS(data_error_of([&] { LineReader wrong(folder.path()); }),
                    "expected a file, found a folder");
}

}  // namespace
}  // namespace elmo
