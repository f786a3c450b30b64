#include "io/checksum.h"

#include "io/temp_folder.h"

namespace elmo {
namespace {

// Published values of XXH64, and of the reference implementation's self test (its generator, its sizes).
TEST(Hash64, KnownValues) {
    EXPECT_EQ(hash64(""), 0xEF46DB3751D8E999u);
    EXPECT_EQ(hash64("a"), 0xD24EC4F1A98C6E5Bu);
    EXPECT_EQ(hash64("abc"), 0x44BC2CF5AD770999u);
    std::string buffer;
    std::uint64_t generator = 2654435761u;
    for (int i = 0; i < 222; ++i) {
        buffer.push_back(static_cast<char>(generator >> 56));
        generator *= 11400714785074694797u;
    }
    EXPECT_EQ(hash64("", 2654435761u), 0xAC75FDA2929B17EFu);
    EXPECT_EQ(hash64(buffer.substr(0, 1)), 0xE934A84ADB052768u);
    EXPECT_EQ(hash64(buffer.substr(0, 4)), 0x9136A0DCA57457EEu);
    EXPECT_EQ(hash64(buffer.substr(0, 14)), 0x8282DCC4994E35C8u);
    EXPECT_EQ(hash64(buffer.substr(0, 14), 2654435761u), 0xC3BD6BF63DEB6DF0u);
    EXPECT_EQ(hash64(buffer), 0xB641AE8CB691C174u);
    EXPECT_EQ(hash64(buffer, 2654435761u), 0x20CB8AB7AE10C14Au);
}

TEST(Hash64, PiecesDoNotMatter) {
    std::string text;
    for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 37));
    for (std::size_t length = 0; length < text.size(); length += 7)
        for (const std::size_t piece : {1, 5, 31, 32, 33, 64}) {
            Hash64 hash;
            for (std::size_t at = 0; at < length; at += piece)
                hash.update(std::string_view(text).substr(at, std::min(piece, length - at)));
            EXPECT_EQ(hash.digest(), hash64(text.substr(0, length)));
        }
}

TEST(Hash64, OfAFile) {
    TempFolder folder;
    const std::string content(3 << 20, 'q');
    spill(folder / "a", content);
    EXPECT_EQ(hash_file(folder / "a"), hash64(content));
    EXPECT_EQ(hash_text(0x0123456789abcdefu), "0123456789abcdef");
    EXPECT_CONTAINS(data_error_of([&] { hash_file(folder / "none"); }), "none: cannot open");
    EXPECT_CONTAINS(data_error_of([&] { hash_file(folder.path()); }), "cannot read: Is a directory");
}

}  // namespace
}  // namespace elmo
