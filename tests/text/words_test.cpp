#include "text/unicode/words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/unicode/normalizer.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace {

using Words = std::vector<std::string>;

Words byte_level(std::string_view text) {
    Words words;
    split_byte_level_words(text, [&](std::string_view word) { words.emplace_back(word); });
    return words;
}

Words bert(std::string_view text) {
    Words words;
    split_bert_words(text, [&](std::string_view word) { words.emplace_back(word); });
    return words;
}

TEST(Words, ByteLevelFollowsTheGpt2Pattern) {
    EXPECT_EQ(byte_level("Hello world"), (Words{"Hello", " world"}));
    EXPECT_EQ(byte_level("we'll they've 'tis 'S"),
              (Words{"we", "'ll", " they", "'ve", " '", "tis", " '", "S"}));
    EXPECT_EQ(byte_level("'s 't'"), (Words{"'s", " '", "t", "'"}));
    for (const char* ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
        EXPECT_EQ(byte_level(std::string("x") + ending + "x"), (Words{"x", ending, "x"}));
    EXPECT_EQ(byte_level("a1!b"), (Words{"a", "1", "!", "b"}));
    EXPECT_EQ(byte_level("a   b"), (Words{"a", "  ", " b"}));
    EXPECT_EQ(byte_level("a \n b\n\nc"), (Words{"a", " \n", " b", "\n", "\n", "c"}));
    EXPECT_EQ(byte_level("a  "), (Words{"a", "  "}));
    EXPECT_EQ(byte_level(" "), (Words{" "}));
    EXPECT_EQ(byte_level(""), Words{});
    EXPECT_EQ(byte_level("x\u00a0\u00a0y"), (Words{"x", "\u00a0", "\u00a0", "y"}));
    EXPECT_EQ(byte_level("é中 ½²…"), (Words{"é中", " ½²", "…"}));
}

TEST(Words, BertSplitsAtSpaceAndPunctuation) {
    EXPECT_EQ(bert("hi,there  you"), (Words{"hi", ",", "there", "you"}));
    EXPECT_EQ(bert("…a—b$c^"), (Words{"…", "a", "—", "b", "$", "c", "^"}));
    EXPECT_EQ(bert("€5"), (Words{"€5"}));  // a currency sign outside ASCII is not punctuation
    EXPECT_EQ(bert("a\u3000b\u0085c\u200bd"), (Words{"a", "b", "c\u200bd"}));
    EXPECT_EQ(bert(" \t\n"), Words{});
}

std::string normalize(NormalizerStep step, std::string_view text) {
    std::string out = "left over";
    Normalizer({step}).apply(text, out);
    return out;
}

TEST(Normalizer, Bert) {
    NormalizerStep step;
    EXPECT_EQ(normalize(step, "Héllo\tWÖRLD\x01!\u200b\ufffd"), "hello world!");
    EXPECT_EQ(normalize(step, "ah博推zz"), "ah 博  推 zz");
    EXPECT_EQ(normalize(step, "İ"), "i");
    step.strip_accents = false;
    EXPECT_EQ(normalize(step, "HÉİ"), "héi\u0307");
    step.lowercase = false;
    step.strip_accents = true;
    EXPECT_EQ(normalize(step, "HÉ"), "HE");
    step.clean_text = step.handle_chinese_chars = false;
    EXPECT_EQ(normalize(step, "\x01博\t"), "\x01博\t");
}

TEST(Normalizer, UnicodeForms) {
    using Kind = NormalizerStep::Kind;
    NormalizerStep step;
    step.kind = Kind::kNfd;
    EXPECT_EQ(normalize(step, "é각"), "e\u0301\u1100\u1161\u11a8");
    EXPECT_EQ(normalize(step, "q\u0307\u0323"), "q\u0323\u0307");
    step.kind = Kind::kNfc;
    EXPECT_EQ(normalize(step, "e\u0301 \u1100\u1161\u11a8 ﬁ"), "é 각 ﬁ");
    step.kind = Kind::kNfkc;
    EXPECT_EQ(normalize(step, "ﬁ½e\u0301"), "fi1\u20442é");
    step.kind = Kind::kNfkd;
    EXPECT_EQ(normalize(step, "ﬁé"), "fie\u0301");
    step.kind = Kind::kLowercase;
    EXPECT_EQ(normalize(step, "ÀΣ A"), "àσ a");
    step.kind = Kind::kStripAccents;
    EXPECT_EQ(normalize(step, "e\u0301é"), "eé");
}

TEST(Unicode, InvalidPartsAreReplacedOneByOne) {
    const auto fixed = [](std::string_view text) {
        std::string buffer;
        return std::string(unicode::as_valid_utf8(text, buffer));
    };
    EXPECT_EQ(fixed("abc é"), "abc é");
    EXPECT_EQ(fixed("a\xff"
                    "b"),
              "a\ufffdb");
    EXPECT_EQ(fixed("\xe2\x82"), "\ufffd");                            // one truncated character
    EXPECT_EQ(fixed("\xe2\x82\xe2\x82\xac"), "\ufffd€");               // truncated, then whole
    EXPECT_EQ(fixed("\xc0\xaf"), "\ufffd\ufffd");                      // overlong
    EXPECT_EQ(fixed("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");            // surrogate
    EXPECT_EQ(fixed("\xf0\x9f\x98"), "\ufffd");                        // three quarters of an emoji
    EXPECT_EQ(fixed("\xf5\x80\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");  // above U+10FFFF
}

}  // namespace
}  // namespace elmo
