// Strings for people: sizes, suggestions, quoting of hostile input, UTF-8 validity.
#include "base/text_util.h"

#include "base/nearest_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "elmo/error.h"

namespace elmo {
namespace {

TEST(DidYouMeanFile, NearestNameOfTheFolder) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "did_you_mean_file";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "runs");
    for (const char* name : {"tickets.csv", "tickets.jsonl", "b.csv", "2024.csv"})
        std::ofstream(folder / name);
    EXPECT_EQ(did_you_mean_file(folder / "tikcets.csv"), " (did you mean 'tickets.csv'?)");
    EXPECT_EQ(did_you_mean_file(folder / "tickets.json"), " (did you mean 'tickets.csv'?)");
    EXPECT_EQ(did_you_mean_file(folder / "ticket.jsonl"), " (did you mean 'tickets.jsonl'?)");
    EXPECT_EQ(did_you_mean_file(folder / "rusn"), " (did you mean 'runs'?)");
    for (const char* other : {"a.csv", "orders.csv", "", "no/such/folder/tickets.csv"})
        EXPECT_EQ(did_you_mean_file(folder / other), "") << other;
    std::filesystem::remove_all(folder);
}

TEST(ParseBytes, NumbersAndUnits) {
    EXPECT_EQ(parse_bytes("0"), 0);
    EXPECT_EQ(parse_bytes("512"), 512);
    EXPECT_EQ(parse_bytes("512B"), 512);
    EXPECT_EQ(parse_bytes("64KiB"), 64 << 10);
    EXPECT_EQ(parse_bytes("3M"), 3 << 20);
    EXPECT_EQ(parse_bytes("2GiB"), std::int64_t{2} << 30);
    EXPECT_EQ(parse_bytes("1.5G"), std::int64_t{3} << 29);
    EXPECT_EQ(parse_bytes("2T"), std::int64_t{2} << 40);
    EXPECT_EQ(parse_bytes("8GB"), 8'000'000'000);
    EXPECT_EQ(parse_bytes("1.5MB"), 1'500'000);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
    for (const char* text : {"", "G", "-1", "1 GiB", "1GB!", "nan", "inf", "1e300", "9e18T", "0x10", "1..5"})
        EXPECT_THROW(parse_bytes(text), ConfigError) << text;
}

TEST(ParseShare, PercentOrFraction) {
    EXPECT_EQ(parse_share("0"), 0);
    EXPECT_EQ(parse_share("0.2"), 0.2);
    EXPECT_EQ(parse_share("20%"), 0.2);
    EXPECT_EQ(parse_share("1"), 1);
    EXPECT_EQ(parse_share("100%"), 1);
    for (const char* text : {"", "%", "-1", "1.1", "101%", "20 %", "nan", "inf", "20%x"})
        EXPECT_THROW(parse_share(text), ConfigError) << text;
}

TEST(HumanBytes, PicksTheUnit) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(1023), "1023 B");
    EXPECT_EQ(human_bytes(1024), "1.0 KiB");
    EXPECT_EQ(human_bytes(std::int64_t{3} << 29), "1.50 GiB");
}

TEST(WithCommas, GroupsOfThree) {
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(999), "999");
    EXPECT_EQ(with_commas(1000), "1,000");
    EXPECT_EQ(with_commas(1234567), "1,234,567");
    EXPECT_EQ(with_commas(-123), "-123");
    EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
    const std::vector<std::string> keys = {"batch", "epochs", "head_lr", "encoder_lr", "out"};
    EXPECT_EQ(nearest("epoch", keys), "epochs");
    EXPECT_EQ(nearest("bacth", keys), "batch");  // exchanged neighbours are one edit
    EXPECT_EQ(nearest("btach", keys), "batch");
    EXPECT_EQ(nearest("thcab", keys), "");
    EXPECT_EQ(nearest("encodr_lr", keys), "encoder_lr");
    EXPECT_EQ(nearest("zzzzzzzz", keys), "");
    EXPECT_EQ(nearest("", keys), "");
    EXPECT_EQ(nearest("x", {}), "");
    EXPECT_EQ(did_you_mean("epoch", keys), " (did you mean 'epochs'?)");
    EXPECT_EQ(did_you_mean("zzzzzzzz", keys), "");
}

TEST(FindInvalidUtf8, AcceptsWhatIsValid) {
    for (const char* text :
         {"", "ascii", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xf4\x8f\xbf\xbf", "\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80"})
        EXPECT_EQ(find_invalid_utf8(text), std::string_view::npos) << text;
    EXPECT_EQ(find_invalid_utf8(std::string_view("a\0b", 3)), std::string_view::npos);
}

TEST(FindInvalidUtf8, FindsTheOffset) {
    EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u);            // stray continuation
    EXPECT_EQ(find_invalid_utf8("\xc0\xaf"), 0u);          // overlong
    EXPECT_EQ(find_invalid_utf8("\xc1\xbf"), 0u);          // overlong
    EXPECT_EQ(find_invalid_utf8("x\xe0\x9f\xbf"), 1u);     // overlong
    EXPECT_EQ(find_invalid_utf8("\xf0\x8f\xbf\xbf"), 0u);  // overlong
    EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0u);      // surrogate
    EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);  // beyond U+10FFFF
    EXPECT_EQ(find_invalid_utf8("\xf5\x80\x80\x80"), 0u);
    EXPECT_EQ(find_invalid_utf8("\xff"), 0u);
    EXPECT_EQ(find_invalid_utf8("ok \xe2\x82"), 3u);   // cut short
    EXPECT_EQ(find_invalid_utf8("\xe2\x28\xa1"), 0u);  // continuation missing
    EXPECT_EQ(find_invalid_utf8("\xc3\xa9\xc3"), 2u);
}

TEST(ShellWord, IsTypedAsItStands) {
    EXPECT_EQ(shell_word("runs/a-1.csv"), "runs/a-1.csv");
    EXPECT_EQ(shell_word("stra\xc3\x9f"
                         "e.csv"),
              "stra\xc3\x9f"
              "e.csv");
    EXPECT_EQ(shell_word("my run"), "\"my run\"");
    EXPECT_EQ(shell_word("it's"), "\"it's\"");
    EXPECT_EQ(shell_word(""), "\"\"");
    EXPECT_EQ(shell_word("a;b"), "\"a;b\"");
    EXPECT_EQ(shell_word("$x y's"), "'$x y'\\''s'");
    EXPECT_EQ(shell_word("say \"hi\""), "'say \"hi\"'");
}

std::string shown(std::string_view text, std::size_t limit = 60) {
    return quoted(text, limit);
}

TEST(Quoted, MakesHostileBytesVisible) {
    EXPECT_EQ(shown("plain"), "plain");
    EXPECT_EQ(shown("a\tb\n"), "a\\x09b\\x0a");
    EXPECT_EQ(shown("\x1b[31m"), "\\x1b[31m");
    EXPECT_EQ(shown("\xff\xc3\xa9"), "\\xff\xc3\xa9");
    EXPECT_EQ(shown(std::string_view("\0x", 2)), "\\x00x");
    EXPECT_EQ(shown("\x7f"), "\\x7f");
    EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82");
    EXPECT_EQ(shown("abcdef", 3), "abc...");
    const std::string cut = shown(std::string(1 << 20, 'x'));
    EXPECT_LT(cut.size(), 80u);
    // Never cut inside a character.
    EXPECT_EQ(find_invalid_utf8(shown("ab\xe2\x82\xac\xe2\x82\xac", 4)), std::string_view::npos);
}

TEST(ForTerminal, NoControlCharacterIsLeft) {
    EXPECT_EQ(for_terminal("one\ttwo\n"), "one\ttwo\n");
    EXPECT_EQ(for_terminal("Gr\u00fc\u00dfe \u4f60\u597d \U0001f600"),
              "Gr\u00fc\u00dfe \u4f60\u597d \U0001f600");
    EXPECT_EQ(for_terminal("ev\x1b[2J\x1b]0;X\x07il\r\x7f"), "ev\\x1b[2J\\x1b]0;X\\x07il\\x0d\\x7f");
    EXPECT_EQ(for_terminal("\u009b2J"), "\\x9b2J");  // CSI in one character
    // What turns around the text after it; marks that only say how a letter runs are left.
    EXPECT_EQ(for_terminal("a\u202eb\u2066c\u2069d\u202c"), "a\\u202eb\\u2066c\\u2069d\\u202c");
    EXPECT_EQ(for_terminal("\u05d0\u200f!\u2027\u202f"), "\u05d0\u200f!\u2027\u202f");
    EXPECT_EQ(for_terminal("\x9b"
                           "2J \xc2"),
              "\\x9b2J \\xc2");  // and in one byte
    EXPECT_EQ(for_terminal(std::string_view("\0", 1)), "\\x00");
}

TEST(ReadFile, NamesWhatItCannotRead) {
    const auto folder = std::filesystem::temp_directory_path() / "elmo_text_util_test";
    std::filesystem::create_directories(folder);
    const auto file = folder / "bytes";
    const std::string content("a\0b\r\n", 5);
    std::ofstream(file, std::ios::binary) << content;
    EXPECT_EQ(read_file(file), content);
    for (const auto& path : {folder, folder / "missing"}) {
        try {
            read_file(path);
            FAIL() << path;
        } catch (const DataError& error) {
            EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
        }
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace elmo
