// Broken and hostile input: each gives one DataError that names the place, or ids, and nothing else.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text_util.h"
#include "elmo/error.h"
#include "quiet.h"
#include "text/harness.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
Json wordpiece() {
    return Json::parse(R"({
        "added_tokens": [{"id": 1, "content": "[CLS]", "special": true}, {"id": 2, "content": "[SEP]", "special": true}],
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100,
                  "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##a": 4, "ab": 5, "!": 6, "##bc": 7}}})");
}

Json bpe() {
    return Json::parse(R"({
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "post_processor": {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 1]},
        "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "aa": 5},
                  "merges": ["a b", ["a", "a"]]}})");
}

// The message of the DataError that `text` gives.
std::string refusal(const std::string& text) {
    try {
        parse_tokenizer_json(text, "t.json");
    } catch (const DataError& error) {
        EXPECT_EQ(std::string(error.what()).rfind("t.json", 0), 0u) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "accepted: " << quoted(text, 200);
    return "";
}

void expect_refused(const Json& json, const std::string& part) {
    EXPECT_NE(refusal(json.dump()).find(part), std::string::npos) << refusal(json.dump());
}

TEST(BadTokenizer, TheGoodOnesWork) {
    EXPECT_EQ(encode(*parse(wordpiece()), "ab aa! abbc"), (Ids{1, 5, 3, 4, 6, 5, 7, 2}));
    EXPECT_EQ(encode(*parse(bpe()), "aaab"), (Ids{0, 5, 4, 1}));
}

TEST(BadTokenizer, BrokenJson) {
    for (const char* text :
         {"", "{", "[]", "null", "3", "\"x\"", "{\"model\": }", "{\"a\":1}}", "\xff\xfe", "{\"\xc0\": 1}"})
        refusal(text);
    const std::string whole = wordpiece().dump();
    for (std::size_t length = 0; length < whole.size(); ++length) refusal(whole.substr(0, length));
}

TEST(BadTokenizer, DeepNesting) {
    std::string deep = "{\"model\": ";
    for (int i = 0; i < 1'000'000; ++i) deep += "[";
    EXPECT_NE(refusal(deep).find("nested"), std::string::npos);
    Json json = wordpiece();
    Json normalizer = json["normalizer"];
    for (int i = 0; i < 100; ++i) normalizer = {{"type", "Sequence"}, {"normalizers", {normalizer}}};
    json["normalizer"] = normalizer;
    expect_refused(json, "nested");
}

// Forty steps that double a letter would make a terabyte of it.
TEST(BadTokenizer, NormalizersThatGrow) {
    Json json = wordpiece();
    const auto with_doublings = [&](int count) {
        Json steps = Json::array({json["normalizer"]});
        for (int i = 0; i < count; ++i)
            steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
        Json grown = json;
        grown["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
        return parse(grown);
    };
    EXPECT_EQ(encode(*with_doublings(3), "a").size(), 10u);
    EXPECT_THROW(encode(*with_doublings(40), "a"), DataError);
}

// A text that changes between ASCII and other letters all the time takes time by its length, not by the
// square of it.
TEST(BadTokenizer, ManyShortRuns) {
    std::string text;
    for (int i = 0; i < 3'000'000; ++i) text += "a\u00e9";
    EXPECT_EQ(encode(*parse(wordpiece()), text), (Ids{1, 0, 2}));
}

// Every place of a text is compared with the tokens that may begin there: one of a megabyte would take days.
TEST(BadTokenizer, TokensHaveALength) {
    Json json = wordpiece();
    json["model"]["vocab"][std::string(4096, 'a')] = 8;
    EXPECT_NE(parse(json), nullptr);
    json["model"]["vocab"][std::string(4097, 'a')] = 9;
    expect_refused(json, "of at most 4096 bytes, found 4097");
}

TEST(BadTokenizer, MissingKeysAndWrongTypes) {
    for (const Json& good : {wordpiece(), bpe()}) {
        for (const char* key : {"model", "pre_tokenizer", "post_processor"}) {
            Json json = good;
            json.erase(key);
            refusal(json.dump());
            for (const Json& wrong : {Json(3), Json("x"), Json::array(), Json::object(), Json(true)}) {
                json[key] = wrong;
                refusal(json.dump());
            }
        }
        for (const char* key : {"type", "vocab"}) {
            Json json = good;
            json["model"].erase(key);
            expect_refused(json, std::string("model.") + key);
        }
    }
    Json json = wordpiece();
    json["model"].erase("unk_token");
    expect_refused(json, "model.unk_token");
    json = bpe();
    json["model"].erase("merges");
    expect_refused(json, "model.merges");
    json = wordpiece();
    json["normalizer"]["lowercase"] = "yes";
    expect_refused(json, "normalizer.lowercase: expected true or false");
    json = wordpiece();
    json["model"]["max_input_chars_per_word"] = -1;
    expect_refused(json, "max_input_chars_per_word");
    json = wordpiece();
    json["added_tokens"][0].erase("content");
    expect_refused(json, "added_tokens[0].content");
}

TEST(BadTokenizer, Ids) {
    for (const Json& id : {Json(-1), Json(std::int64_t{1} << 40), Json(18446744073709551615u), Json(1.5),
                           Json("7"), Json(), Json(1 << 24), Json(1e300)}) {
        Json json = wordpiece();
        json["model"]["vocab"]["ab"] = id;
        expect_refused(json, "'ab'");
        json = wordpiece();
        json["added_tokens"][0]["id"] = id;
        expect_refused(json, "added_tokens[0].id");
        json = wordpiece();
        json["post_processor"]["cls"][1] = id;
        expect_refused(json, "post_processor.cls");
    }
    Json json = wordpiece();
    json["model"]["vocab"]["ab"] = 3;
    expect_refused(json, "id 3");
    json = wordpiece();
    json["added_tokens"][0]["id"] = 2;
    expect_refused(json, "added_tokens");
    json = wordpiece();
    json["added_tokens"][0]["id"] = 9;
    expect_refused(json, "[CLS]");
    json = wordpiece();
    json["post_processor"]["cls"][1] = 5;
    expect_refused(json, "[CLS]");
}

TEST(BadTokenizer, SpecialTokens) {
    Json json = wordpiece();
    json["post_processor"] = nullptr;
    expect_refused(json, "special tokens");
    json = wordpiece();
    json["model"]["vocab"].erase("[UNK]");
    expect_refused(json, "[UNK]");
    json = wordpiece();
    json["post_processor"]["sep"] = {"[END]", 2};
    expect_refused(json, "[END]");
    json = bpe();
    json["post_processor"] = {{"type", "ByteLevel"}};
    expect_refused(json, "special tokens");
    json = bpe();
    json["model"]["unk_token"] = "<unk>";
    expect_refused(json, "<unk>");
}

TEST(BadTokenizer, UnsupportedComponentsAreNamed) {
    const auto replace = [](Json json, const char* key, const Json& value) {
        json[Json::json_pointer(key)] = value;
        return json;
    };
    expect_refused(replace(wordpiece(), "/model/type", "WordLevel"), "'WordLevel' is not supported");
    expect_refused(replace(wordpiece(), "/normalizer", {{"type", "Prepend"}}), "'Prepend' is not supported");
    expect_refused(replace(wordpiece(), "/pre_tokenizer/type", "Whitespace"),
                   "'Whitespace' is not supported");
    expect_refused(replace(bpe(), "/pre_tokenizer/type", "Metaspace"), "'Metaspace' is not supported");
    expect_refused(replace(bpe(), "/pre_tokenizer/use_regex", false), "use_regex");
    expect_refused(replace(bpe(), "/post_processor/type", "Fancy"), "'Fancy' is not supported");
    expect_refused(replace(bpe(), "/model/byte_fallback", true), "byte_fallback");
    expect_refused(replace(bpe(), "/model/dropout", 0.1), "dropout");
    expect_refused(replace(bpe(), "/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
}

TEST(BadTokenizer, Merges) {
    for (const Json& merge : {Json("a x"), Json("x a"), Json("b a"), Json("ab"), Json("a b a"), Json(3),
                              Json({"a"}), Json(), Json({"a", 3})}) {
        Json json = bpe();
        json["model"]["merges"].push_back(merge);
        expect_refused(json,
                       merge.is_string() && merge.get<std::string>().size() == 3 ? "merge 3" : "merges[2]");
    }
}

TEST(BadText, InvalidUtf8IsTheReplacementCharacter) {
    for (const Json& json : {wordpiece(), bpe()}) {
        const auto tokenizer = parse(json);
        EXPECT_EQ(encode(*tokenizer, "a\xff\xe2\x82 ab\xc3"), encode(*tokenizer, "a\ufffd\ufffd ab\ufffd"));
        std::string all;
        for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
        encode(*tokenizer, all);
    }
}

TEST(BadText, LengthIsCutBeforeTheClosingToken) {
    const auto tokenizer = parse(wordpiece());
    Ids ids = {9, 9, 9};
    EXPECT_EQ(tokenizer->encode("a ab a", 0, ids), 5);
    EXPECT_EQ(ids, (Ids{1, 3, 5, 3, 2}));
    EXPECT_EQ(tokenizer->encode("a ab a", 5, ids), 5);
    EXPECT_EQ(ids, (Ids{1, 3, 5, 3, 2}));
    EXPECT_EQ(tokenizer->encode("a ab a", 4, ids), 5);
    EXPECT_EQ(ids, (Ids{1, 3, 5, 2}));
    EXPECT_EQ(tokenizer->encode("a ab a", 2, ids), 5);
    EXPECT_EQ(ids, (Ids{1, 2}));
    EXPECT_EQ(tokenizer->encode("a ab a", 1, ids), 5);
    EXPECT_EQ(ids, (Ids{2}));
    EXPECT_EQ(tokenizer->encode("", 8, ids), 2);
    EXPECT_EQ(ids, (Ids{1, 2}));
}

TEST(BadText, LongWords) {
    const std::string word(1'000'000, 'a');
    EXPECT_EQ(encode(*parse(wordpiece()), word), (Ids{1, 0, 2}));
    Json json = wordpiece();
    json["model"]["max_input_chars_per_word"] = 2'000'000;
    EXPECT_EQ(encode(*parse(json), word).size(), 1'000'002u);
    EXPECT_EQ(encode(*parse(bpe()), word).size(), 500'002u);
    std::string marks = "e";
    for (int i = 0; i < 200'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0323";
    EXPECT_EQ(encode(*parse(wordpiece()), marks), (Ids{1, 0, 2}));
}

TEST(BadText, ManyThreads) {
    const auto tokenizer = parse(wordpiece());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; ++i)
                EXPECT_EQ(encode(*tokenizer, "Ab é ab [SEP]a!"), encode(*tokenizer, "aB é AB [SEP]A!"));
        });
    for (auto& thread : threads) thread.join();
}

class Folder : public ::testing::Test {
  protected:
    void SetUp() override {
        path_ = fs::path(::testing::TempDir()) /
                ("elmo_tokenizer_" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    void TearDown() override { fs::remove_all(path_); }
    void write(const std::string& name, const std::string& content) {
        std::ofstream(path_ / name, std::ios::binary) << content;
    }
    std::string refusal() {
        try {
            load_tokenizer(quiet(), path_);
        } catch (const DataError& error) {
            return error.what();
        }
        return "accepted";
    }
    fs::path path_;
};

TEST_F(Folder, Wordpiece) {
    EXPECT_NE(refusal().find("expected tokenizer.json, vocab.txt"), std::string::npos);
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nEin\n##e\nein\n");
    write("tokenizer_config.json", R"({"do_lower_case": false})");
    EXPECT_EQ(encode(*load_tokenizer(quiet(), path_), "Eine ein"), (Ids{2, 4, 5, 6, 3}));
    EXPECT_EQ(load_tokenizer(quiet(), path_)->pad_id(), 0);
    write("tokenizer_config.json", R"({"do_lower_case": true, "cls_token": {"content": "[PAD]"}})");
    EXPECT_EQ(encode(*load_tokenizer(quiet(), path_ / "vocab.txt"), "Eine ein"), (Ids{0, 6, 5, 6, 3}));
    write("tokenizer_config.json", "{}");
    write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\nein\r\n");
    EXPECT_NE(refusal().find("[SEP]"), std::string::npos) << refusal();
    write("vocab.txt", "[UNK]\n\n[CLS]\n");
    EXPECT_NE(refusal().find("vocab.txt:2"), std::string::npos) << refusal();
    write("vocab.txt", "[UNK]\n[CLS]\n\xff\n");
    EXPECT_NE(refusal().find("vocab.txt:3"), std::string::npos) << refusal();
    write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nx\nx\n");
    EXPECT_NE(refusal().find("twice"), std::string::npos) << refusal();
    write("vocab.txt", "");
    EXPECT_NE(refusal().find("[UNK]"), std::string::npos) << refusal();
}

TEST_F(Folder, Bpe) {
    write(
        "vocab.json",
        R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7, "\u0120": 8})");
    EXPECT_NE(refusal().find("merges.txt"), std::string::npos) << refusal();
    write("merges.txt", "#version: 0.2\na b\n");
    EXPECT_EQ(encode(*load_tokenizer(quiet(), path_), "abb  <mask> b"), (Ids{0, 6, 5, 7, 8, 5, 2}));
    write("tokenizer_config.json", R"({"add_prefix_space": true})");
    EXPECT_EQ(encode(*load_tokenizer(quiet(), path_), "ab"), (Ids{0, 8, 6, 2}));
    write("merges.txt", "a b\na b c\n");
    EXPECT_NE(refusal().find("merges.txt:2"), std::string::npos) << refusal();
    write("merges.txt", "a c\n");
    EXPECT_NE(refusal().find("merge 1"), std::string::npos) << refusal();
    write("vocab.json", R"({"a": -4})");
    EXPECT_NE(refusal().find("'a'"), std::string::npos) << refusal();
}

TEST_F(Folder, Missing) {
    EXPECT_THROW(load_tokenizer(quiet(), path_ / "nowhere"), DataError);
    fs::create_directory(path_ / "tokenizer.json");
    EXPECT_THROW(load_tokenizer(quiet(), path_), DataError);
}

}  // namespace
}  // namespace elmo
