// What a learnt vocabulary must be, beyond the golden files: deterministic, bounded, complete.
#include <gtest/gtest.h>

#include <set>

#include "elmo/error.h"
#include "text/harness.h"

namespace elmo {
namespace {

std::vector<std::string> invented_texts() {
    std::vector<std::string> texts;
    for (int i = 0; i < 400; ++i) {
        std::string text;
        for (int k = 0; k < 8; ++k)
            text += "w" + std::to_string((i * 31 + k * k * 7) % 97) + (k % 3 == 0 ? "ing " : "er ");
        texts.push_back(text);
    }
    return texts;
}

TEST(Learn, VocabularyIsFullAndNeverTooLarge) {
    for (const TokenizerKind kind : {TokenizerKind::kWordPiece, TokenizerKind::kByteBpe}) {
        const auto tokenizer = learn(invented_texts(), {kind, 320, true, 2});
        EXPECT_LE(tokenizer->vocab_size(), 320);
        EXPECT_GE(tokenizer->vocab_size(), kind == TokenizerKind::kByteBpe ? 320 : 200);
    }
}

TEST(Learn, OrderOfTextsDoesNotMatter) {
    auto texts = invented_texts();
    const LearnOptions options{TokenizerKind::kWordPiece, 300, true, 2};
    const std::string forward = learn(texts, options)->to_json();
    std::reverse(texts.begin(), texts.end());
    EXPECT_EQ(learn(texts, options)->to_json(), forward);
}

TEST(Learn, FrequentWordsBecomeOneToken) {
    for (const TokenizerKind kind : {TokenizerKind::kWordPiece, TokenizerKind::kByteBpe}) {
        const std::vector<std::string> texts(5, "Lighthouse keeper, lighthouse");
        const auto tokenizer = learn(texts, {kind, 400, true, 2});
        Ids ids;
        tokenizer->encode("LIGHTHOUSE", 0, ids);
        EXPECT_EQ(ids.size(), 3u);
        tokenizer->encode("lighthouses", 0, ids);
        EXPECT_EQ(ids.size(), 4u);
        for (const std::int32_t id : ids) EXPECT_NE(id, tokenizer->unk_id());
    }
}

// aaaa: overlapping pairs must be counted and merged from the left.
TEST(Learn, RunsOfOneLetter) {
    const auto tokenizer =
        learn({"aaaaaaa aaaa aa aaaaa", "aaaaaaa aaaa"}, {TokenizerKind::kWordPiece, 64, true, 1});
    Ids ids;
    for (const char* word : {"aaaaaaa", "aaaa", "aa", "aaaaa"}) {
        tokenizer->encode(word, 0, ids);
        EXPECT_EQ(ids.size(), 3u) << word;
    }
}

TEST(Learn, RareCharactersAreLeftOutWhenTooMany) {
    std::vector<std::string> texts;
    for (char32_t c = 0x4e00; c < 0x4e00 + 3000; ++c) {
        std::string text = "common words ";
        text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
                 static_cast<char>(0x80 | (c & 0x3f))};
        texts.push_back(text);
    }
    const auto tokenizer = learn(texts, {TokenizerKind::kWordPiece, 200, true, 2});
    EXPECT_LE(tokenizer->vocab_size(), 200);
    Ids ids;
    tokenizer->encode("common words", 0, ids);
    EXPECT_EQ(ids.size(), 4u);
}

TEST(Learn, TextNeverBecomesASpecialToken) {
    const auto tokenizer =
        learn(std::vector<std::string>(20, "x<S>x <S> x</S>"), {TokenizerKind::kByteBpe, 400, true, 1});
    Ids ids;
    tokenizer->encode("x<S>x <S> x</S>", 0, ids);
    const std::set<std::int32_t> inner(ids.begin() + 1, ids.end() - 1);
    for (std::int32_t special = 0; special < 5; ++special) EXPECT_FALSE(inner.count(special)) << special;
}

TEST(Learn, Refusals) {
    EXPECT_THROW(learn({"a"}, {TokenizerKind::kWordPiece, 10, true, 2}), ConfigError);
    EXPECT_THROW(learn({"a"}, {TokenizerKind::kByteBpe, 256, true, 2}), ConfigError);
    EXPECT_THROW(learn({"a"}, {TokenizerKind::kByteBpe, std::int64_t{1} << 40, true, 2}), ConfigError);
    EXPECT_THROW(learn({}, {}), DataError);
    EXPECT_THROW(learn({"", " \t"}, {}), DataError);
}

TEST(Learn, OddTexts) {
    const std::vector<std::string> texts = {std::string(1'000'000, 'x'), "\xff\xfe broken \xe2\x82",
                                            std::string("nul\0nul", 7), "fine fine fine"};
    for (const TokenizerKind kind : {TokenizerKind::kWordPiece, TokenizerKind::kByteBpe}) {
        const auto tokenizer = learn(texts, {kind, 400, true, 2});
        Ids ids;
        for (const auto& text : texts) EXPECT_GE(tokenizer->encode(text, 0, ids), 2);
    }
}

}  // namespace
}  // namespace elmo
