// The published test cases and real text with BERT's vocabulary, and the pre-tokenization of DistilRoBERTa,
// whose vocabulary is not at hand. Skipped where the shared data are absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text_util.h"
#include "quiet.h"
#include "text/byte_bpe.h"
#include "text/tokenizer.h"
#include "text/unicode/words.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

fs::path shared() {
    const char* given = std::getenv("ELMO_SHARED");
    return given != nullptr ? fs::path(given) : fs::path(ELMO_SOURCE_DIR) / "../shared";
}

#define NEED(path) \
    if (!fs::exists(path)) GTEST_SKIP() << (path).string() << " is absent (set ELMO_SHARED)"

using Ids = std::vector<std::int32_t>;

TEST(Conformance, BertCases) {
    const fs::path cases = shared() / "conformance/tokenizer/hf_bert_base_uncased.json";
    const fs::path model = shared() / "models/all-MiniLM-L6-v2";
    NEED(cases);
    NEED(model);
    const auto tokenizer = load_tokenizer(quiet(), model);
    int compared = 0;
    const auto entries = nlohmann::json::parse(read_file(cases));
    for (const auto& [name, entry] : entries.items()) {
        if (entry.contains("text_pair")) continue;
        Ids ids;
        tokenizer->encode(entry["text"].get<std::string>(), 0, ids);
        EXPECT_EQ(ids, entry["ids"].get<Ids>()) << name;
        ++compared;
    }
    EXPECT_GE(compared, 29);
}

TEST(Conformance, BertRealText) {
    const fs::path lines = shared() / "conformance/tokenizer/bert_uncased_real_text.jsonl";
    const fs::path model = shared() / "models/all-MiniLM-L6-v2";
    NEED(lines);
    NEED(model);
    const auto tokenizer = load_tokenizer(quiet(), model);
    std::ifstream in(lines);
    int compared = 0;
    for (std::string line; std::getline(in, line); ++compared) {
        const auto entry = nlohmann::json::parse(line);
        Ids ids;
        tokenizer->encode(entry["text"].get<std::string>(), 0, ids);
        ASSERT_EQ(ids, entry["ids"].get<Ids>()) << "line " << compared + 1;
    }
    EXPECT_EQ(compared, 4000);
}

TEST(Conformance, VocabTxtEqualsTokenizerJson) {
    const fs::path model = shared() / "models/all-MiniLM-L6-v2";
    NEED(model);
    const auto json = load_tokenizer(quiet(), model);
    const auto txt = load_tokenizer(quiet(), model / "vocab.txt");
    EXPECT_EQ(json->fingerprint(), txt->fingerprint());
    EXPECT_EQ(json->vocab_size(), 30522);
    EXPECT_EQ(txt->vocab_size(), 30522);
    EXPECT_EQ(txt->pad_id(), 0);
    EXPECT_EQ(txt->unk_id(), 100);
    EXPECT_EQ(txt->cls_id(), 101);
    EXPECT_EQ(txt->sep_id(), 102);
}

// The tokens spell the byte-level text, and no token spans two words.
TEST(Conformance, DistilRobertaWords) {
    const fs::path cases = shared() / "conformance/tokenizer/hf_all_distilroberta_v1.json";
    NEED(cases);
    int compared = 0;
    const auto entries = nlohmann::json::parse(read_file(cases));
    for (const auto& [name, entry] : entries.items()) {
        if (entry.contains("text_pair")) continue;
        std::string spelt, expected;
        std::set<std::size_t> token_ends;
        for (const auto& token : entry["tokens"]) {
            expected += token.get<std::string>();
            token_ends.insert(expected.size());
        }
        const std::string text = entry["text"].get<std::string>();
        split_byte_level_words(text, [&, &which = name](std::string_view word) {
            spelt += byte_level_string(word);
            EXPECT_TRUE(token_ends.count(spelt.size())) << which << ": '" << word << "' ends inside a token";
        });
        EXPECT_EQ(spelt, expected) << name;
        ++compared;
    }
    EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace elmo
