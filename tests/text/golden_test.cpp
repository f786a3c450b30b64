// Learnt and odd tokenizers give the ids that the Hugging Face library gave when the golden files were made
// (golden/make_ids.py), and learning gives the same bytes on every machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "quiet.h"
#include "text/harness.h"

namespace elmo {
namespace {

nlohmann::json read_json(const std::string& name) {
    return nlohmann::json::parse(read_file(kGolden + name));
}

struct Learnt {
    const char* name;
    LearnOptions options;
};
const Learnt kLearnt[] = {{"learnt_wordpiece", {TokenizerKind::kWordPiece, 700, true, 2}},
                          {"learnt_wordpiece_cased", {TokenizerKind::kWordPiece, 600, false, 2}},
                          {"learnt_bpe", {TokenizerKind::kByteBpe, 400, true, 2}},
                          {"learnt_bpe_cased", {TokenizerKind::kByteBpe, 450, false, 2}}};

TEST(Golden, LearningGivesTheSameBytes) {
    const auto texts = read_json("texts.json").get<std::vector<std::string>>();
    for (const auto& [name, options] : kLearnt) {
        const std::string json = learn(texts, options)->to_json();
        if (std::getenv("ELMO_UPDATE_GOLDEN") != nullptr) std::ofstream(kGolden + name + ".json") << json;
        EXPECT_EQ(json, read_file(kGolden + name + ".json")) << name;
    }
}

TEST(Golden, IdsEqualTheHuggingFaceLibrary) {
    const auto texts = read_json("texts.json").get<std::vector<std::string>>();
    const auto all_ids = read_json("ids.json");
    ASSERT_EQ(all_ids.size(), 6u);
    for (const auto& [name, rows] : all_ids.items()) {
        const auto tokenizer = load_tokenizer(quiet(), kGolden + name + ".json");
        ASSERT_EQ(rows.size(), texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            std::vector<std::int32_t> ids;
            const std::int64_t length = tokenizer->encode(texts[i], 0, ids);
            EXPECT_EQ(ids, rows[i].get<std::vector<std::int32_t>>()) << name << ": " << texts[i];
            EXPECT_EQ(length, static_cast<std::int64_t>(ids.size()));
        }
    }
}

TEST(Golden, SavedTokenizerIsTheSame) {
    const auto texts = read_json("texts.json").get<std::vector<std::string>>();
    for (const char* name : {"learnt_wordpiece", "learnt_bpe", "odd_wordpiece", "odd_bpe"}) {
        const auto first = load_tokenizer(quiet(), kGolden + name + ".json");
        const auto second = parse_tokenizer_json(first->to_json(), "saved");
        EXPECT_EQ(first->to_json(), second->to_json());
        EXPECT_EQ(first->fingerprint(), second->fingerprint());
        EXPECT_EQ(first->vocab_size(), second->vocab_size());
        EXPECT_EQ(first->pad_id(), second->pad_id());
        std::vector<std::int32_t> a, b;
        for (const auto& text : texts) {
            first->encode(text, 0, a);
            second->encode(text, 0, b);
            EXPECT_EQ(a, b) << name << ": " << text;
        }
    }
}

TEST(Golden, FingerprintTellsTokenizersApart) {
    auto json = read_json("learnt_wordpiece.json");
    const auto print = [&] { return parse_tokenizer_json(json.dump(), "test")->fingerprint(); };
    const std::uint64_t original = print();
    EXPECT_EQ(original, load_tokenizer(quiet(), kGolden + "learnt_wordpiece.json")->fingerprint());
    json["truncation"] = {{"max_length", 4}};
    EXPECT_EQ(print(), original);
    json["normalizer"]["strip_accents"] = false;
    const std::uint64_t accents = print();
    EXPECT_NE(accents, original);
    json["model"]["vocab"]["zzz"] = 5000;
    EXPECT_NE(print(), accents);
}

}  // namespace
}  // namespace elmo
