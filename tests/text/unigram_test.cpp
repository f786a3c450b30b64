// Unigram tokenizers give the ids that the Hugging Face library gave for texts in more than ten languages
// when the golden files were made (golden/make_unigram.py), keep them when saved, and refuse broken files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "elmo/error.h"
#include "quiet.h"
#include "text/harness.h"

namespace elmo {
namespace {

using Json = nlohmann::json;
std::vector<std::string> golden_texts() {
    std::vector<std::string> texts;
    for (const char* name : {"texts.json", "languages.json"})
        for (const auto& text : Json::parse(read_file(kGolden + name))) texts.push_back(text);
    return texts;
}

TEST(Unigram, IdsEqualTheHuggingFaceLibrary) {
    const auto texts = golden_texts();
    const auto all_ids = Json::parse(read_file(kGolden + "unigram_ids.json"));
    ASSERT_EQ(all_ids.size(), 3u);
    for (const auto& [name, rows] : all_ids.items()) {
        const auto tokenizer = load_tokenizer(quiet(), kGolden + name + ".json");
        ASSERT_EQ(rows.size(), texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i)
            EXPECT_EQ(encode(*tokenizer, texts[i]), rows[i].get<Ids>()) << name << ": " << texts[i];
    }
}

TEST(Unigram, SavedTokenizerIsTheSame) {
    for (const char* name : {"unigram_xlm_roberta", "unigram_bytes", "unigram_whole"}) {
        const auto first = load_tokenizer(quiet(), kGolden + name + ".json");
        const auto second = parse_tokenizer_json(first->to_json(), "saved");
        EXPECT_EQ(first->to_json(), second->to_json());
        EXPECT_EQ(first->pad_id(), 1);
        EXPECT_EQ(first->unk_id(), 3);
        EXPECT_EQ(first->cls_id(), 0);
        EXPECT_EQ(first->sep_id(), 2);
        EXPECT_EQ(first->vocab_size(), second->vocab_size());
        for (const auto& text : golden_texts())
            EXPECT_EQ(encode(*first, text), encode(*second, text)) << text;
    }
}

// "ab" is better than a, b; "abc" is worse than ab, c; ties go to the token found first; x is unknown.
Json small() {
    return Json::parse(R"({
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Strip", "strip_left": true, "strip_right": true},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]},
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": false,
                  "vocab": [["<s>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -1], ["a", -2], ["b", -2], ["c", -2],
                            ["ab", -3], ["abc", -5.5], ["bc", -3], ["<0x78>", -9]]}})");
}

TEST(Unigram, TheBestPathWins) {
    const auto tokenizer = parse(small());
    EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{0, 3, 7, 1}));
    EXPECT_EQ(encode(*tokenizer, "abc"), (Ids{0, 3, 4, 9, 1}));  // a, bc: -5, as ab, c, which ends later
    EXPECT_EQ(encode(*tokenizer, "xyab  c "), (Ids{0, 3, 2, 7, 3, 6, 1}));  // neighbours are one unknown
    EXPECT_EQ(encode(*tokenizer, ""), (Ids{0, 1}));
    EXPECT_EQ(encode(*tokenizer, "abcabc", 5), (Ids{0, 3, 4, 9, 1}));
    Json bytes = small();
    bytes["model"]["byte_fallback"] = true;
    EXPECT_EQ(encode(*parse(bytes), "axx"), (Ids{0, 3, 4, 10, 10, 1}));
    EXPECT_EQ(encode(*parse(bytes), "axy"),
              (Ids{0, 3, 4, 2, 1}));  // y has no byte token: all of it is unknown
}

TEST(Unigram, BrokenFilesAreRefused) {
    const auto refused = [](const Json& json, const std::string& part) {
        try {
            parse(json);
            ADD_FAILURE() << "accepted; expected: " << part;
        } catch (const DataError& error) {
            EXPECT_EQ(std::string(error.what()).rfind("t.json", 0), 0u) << error.what();
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    const auto with = [](const char* pointer, const Json& value) {
        Json json = small();
        json[Json::json_pointer(pointer)] = value;
        return json;
    };
    refused(with("/model/unk_id", 11), "an integer from 0 to 10");
    refused(with("/model/unk_id", nullptr), "an integer from 0 to 10");
    refused(with("/model/vocab", Json::array()), "a list of tokens");
    refused(with("/model/vocab/4", Json::array({"a"})), "vocab[4]: expected [token, score]");
    refused(with("/model/vocab/4/1", "x"), "[token, score]");
    refused(with("/model/vocab/5/0", "a"), "listed twice");
    refused(with("/pre_tokenizer/prepend_scheme", "first"), "\"always\" or \"never\"");
    refused(with("/pre_tokenizer/replacement", "_"), "replacement");
    refused(with("/pre_tokenizer", Json{{"type", "ByteLevel"}}), "WhitespaceSplit, Metaspace");
    const Json split = {{"type", "WhitespaceSplit"}}, space = small()["pre_tokenizer"];
    const auto sequence = [](const Json& list) {
        return Json{{"type", "Sequence"}, {"pretokenizers", list}};
    };
    EXPECT_EQ(encode(*parse(with("/pre_tokenizer", sequence({split, space}))), "a\tb"),
              (Ids{0, 3, 4, 3, 5, 1}));
    refused(with("/pre_tokenizer", sequence({space, split})), "ends with a Metaspace");
    refused(with("/pre_tokenizer", sequence({space, space})), "one Metaspace");
    refused(with("/normalizer/normalizers/1/pattern/Regex", "\\s+"), "others are not supported");
    refused(with("/normalizer/normalizers/1/pattern", Json{{"String", ""}}), "not empty");
    const auto map = [&](const std::string& base64) {
        return with("/normalizer", Json{{"type", "Precompiled"}, {"precompiled_charsmap", base64}});
    };
    refused(map("AAAA*A=="), "expected base64");
    refused(map("AAAAA"), "expected base64");
    refused(map("AAA="), "found 2 bytes");
    refused(map("CAAAAAAAAAA="), "a length of 8");  // 8 bytes of trie, 4 are there
    refused(map("AwAAAAAAAAA="), "a length of 3");  // no whole units
    refused(map("AAAAAP8A"), "UTF-8");              // a replacement that is 0xff
    // Units that lead outside the trie are no rules.
    EXPECT_EQ(encode(*parse(map("BAAAAP///38=")), "ab\xc3\xa9"), (Ids{0, 3, 7, 2, 1}));
    EXPECT_EQ(encode(*parse(map("AAAAAA==")), "ab"), (Ids{0, 3, 7, 1}));
}

}  // namespace
}  // namespace elmo
