// Texts in windows: each has its special tokens, all but the last are full, and what is cut off is counted.
#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace elmo {
namespace {

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> letters() {
    return parse_tokenizer_json(R"({
        "added_tokens": [{"id": 1, "content": "[CLS]", "special": true}, {"id": 2, "content": "[SEP]", "special": true}],
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]",
                  "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "c": 5, "d": 6, "e": 7, "f": 8, "g": 9}}})",
                                "t.json");
}

TEST(Windows, FollowOneAnother) {
    const auto tokenizer = letters();
    const auto encode = [&](const char* text, std::int64_t length, std::int64_t windows, std::int64_t whole) {
        Ids ids;
        EXPECT_EQ(tokenizer->encode(text, length, ids, windows), whole) << text;
        return ids;
    };
    EXPECT_EQ(encode("a b c", 5, 3, 5), (Ids{1, 3, 4, 5, 2}));  // it fits
    EXPECT_EQ(encode("a b c d e f g", 5, 3, 13), (Ids{1, 3, 4, 5, 2, 1, 6, 7, 8, 2, 1, 9, 2}));
    EXPECT_EQ(encode("a b c d e f", 5, 3, 10), (Ids{1, 3, 4, 5, 2, 1, 6, 7, 8, 2}));
    EXPECT_EQ(encode("a b c d e f g", 5, 2, 13), (Ids{1, 3, 4, 5, 2, 1, 6, 7, 8, 2}));  // g is cut off
    EXPECT_EQ(encode("a b c d e f g", 5, 1, 9), (Ids{1, 3, 4, 5, 2}));
    EXPECT_EQ(encode("a b c d e f g", 0, 3, 9).size(), 9u);  // no limit
    EXPECT_EQ(encode("a b", 2, 3, 4), (Ids{1, 2}));          // no room beside the special tokens
}

}  // namespace
}  // namespace elmo
