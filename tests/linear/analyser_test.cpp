// Features do not depend on how a vocabulary cuts words, and rows have length 1.
#include "linear/features/analyser.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "linear/features/vocabulary.h"
#include "quiet.h"
#include "text/harness.h"

namespace elmo {
namespace {

std::unique_ptr<Tokenizer> learnt(std::int64_t vocab_size) {
    const std::vector<std::string> texts = {"the quick brown fox", "jumps over the lazy dog!",
                                            "a c compiler"};
    return learn(texts, {.vocab_size = vocab_size, .min_count = 1});
}

std::vector<std::uint64_t> features_of(const Tokenizer& tokenizer, const std::string& text,
                                       FeatureOptions options) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, 0, ids);
    std::vector<std::uint64_t> features;
    Analyser(tokenizer, options).analyse(ids, features);
    std::sort(features.begin(), features.end());
    return features;
}

TEST(Analyser, PutsPiecesTogetherToWords) {
    const auto letters_only = learnt(120), words = learnt(1000);
    for (const FeatureOptions& options : {FeatureOptions{}, FeatureOptions{.letters = 4},
                                          FeatureOptions{.letters = 4, .shorter_letters = true}})
        for (const char* text : {"The quick, brown dog", "lazy fox jumps over", "quick quick", ""})
            EXPECT_EQ(features_of(*letters_only, text, options), features_of(*words, text, options)) << text;
    for (const auto* tokenizer : {letters_only.get(), words.get()}) {
        std::vector<std::int32_t> ids;
        tokenizer->encode("The quick, brown dog! ?", 0, ids);
        EXPECT_EQ(Analyser(*tokenizer, {}).count_words(ids), 4);
    }
}

// Words end at marks, however byte-level BPE joins them.
TEST(Analyser, OfSplitTextsFeaturesAreThoseOfWordPiece) {
    const std::vector<std::string> texts(
        3, "the quick (brown) fox jumps over. the lazy dog! a c compiler: gpl-2.0, a fox.");
    const auto pieces = learn(texts, {.vocab_size = 1000, .min_count = 1}),
               bytes = learn(texts, {.kind = TokenizerKind::kByteBpe, .vocab_size = 1000, .min_count = 1});
    EXPECT_FALSE(cuts_words_otherwise(*pieces));
    EXPECT_TRUE(cuts_words_otherwise(*bytes));
    for (const bool letters : {false, true}) {
        FeatureOptions plain{.letters = letters ? 4 : 0}, split = plain;
        split.splits_text = true;
        for (const char* text : {"the quick (brown) fox.", "jumps over: gpl-2.0,", "a fox\nthe dog", ""})
            EXPECT_EQ(features_of(*bytes, text, split), features_of(*pieces, text, plain)) << text;
    }
    std::vector<std::int32_t> ids;
    bytes->encode("the quick, brown dog! (fox)", 0, ids);
    EXPECT_EQ(Analyser(*bytes, {.splits_text = true}).count_words(ids), 5);
}

// A text that is cut at its longest length may end within a character.
TEST(Analyser, OfSplitTextsACutCharacterIsTheReplacementCharacter) {
    const auto bytes = learn({"a quick fox"}, {.kind = TokenizerKind::kByteBpe, .vocab_size = 300});
    const Analyser analyser(*bytes, {.letters = 4, .splits_text = true});
    const auto features = [&](const std::string& text, std::size_t cut) {
        std::vector<std::int32_t> ids;
        bytes->encode(text, 0, ids);
        const std::int32_t end = ids.back();
        ids.resize(ids.size() - 1 - cut);
        ids.push_back(end);
        std::vector<std::uint64_t> found;
        analyser.analyse(ids, found);
        return found;
    };
    for (const std::size_t cut : {1, 2, 3})  // of the four bytes
        EXPECT_EQ(features("a fox \xF0\x9F\xA6\x8A", cut), features("a fox \xEF\xBF\xBD", 0)) << cut;
}

TEST(Analyser, CountsWordsPairsMarksAndLetters) {
    const auto tokenizer = learnt(1000);
    EXPECT_EQ(features_of(*tokenizer, "quick fox", {}).size(), 3u);        // two words, one pair
    EXPECT_EQ(features_of(*tokenizer, "quick ! fox", {}).size(), 4u);      // a mark does not part the pair
    EXPECT_EQ(features_of(*tokenizer, "quick a fox", {}).size(), 4u);      // nor does a word of one letter
    EXPECT_EQ(features_of(*tokenizer, "fox", {.letters = 4}).size(), 3u);  // " fox", "fox "
    // The word; four of " fox " in a row, three, two, one: 2 + 3 + 4 + 5.
    EXPECT_EQ(features_of(*tokenizer, "fox", {.letters = 4, .shorter_letters = true}).size(), 15u);
    EXPECT_NE(features_of(*tokenizer, "quick fox", {}), features_of(*tokenizer, "fox quick", {}));
    EXPECT_EQ(features_of(*tokenizer, "quick fox", {.tokens_only = true}).size(),
              4u);  // with [CLS] and [SEP]
}

TEST(Vocabulary, RowsHaveLengthOneAndUnknownFeaturesAreLeftOut) {
    const auto tokenizer = learnt(1000);
    std::vector<std::vector<std::int32_t>> texts(3);
    tokenizer->encode("the quick brown fox", 0, texts[0]);
    tokenizer->encode("the lazy dog", 0, texts[1]);
    tokenizer->encode("compiler", 0, texts[2]);
    const Analyser analyser(*tokenizer, {});
    const TokensOf tokens = [&](std::int64_t i) {
        return std::span<const std::int32_t>(texts[static_cast<std::size_t>(i)]);
    };
    const Vocabulary vocabulary = learn_vocabulary(quiet(), analyser, tokens, 2);
    const SparseRows rows = make_rows(quiet(), analyser, vocabulary, tokens, 3);
    ASSERT_EQ(rows.rows(), 3);
    for (std::int64_t row = 0; row < 2; ++row) {
        double length = 0;
        for (const float value : rows.values_of(row)) length += static_cast<double>(value) * value;
        EXPECT_NEAR(length, 1, 1e-6);
        EXPECT_TRUE(std::is_sorted(rows.columns_of(row).begin(), rows.columns_of(row).end()));
    }
    EXPECT_TRUE(rows.columns_of(2).empty());
}

}  // namespace
}  // namespace elmo
