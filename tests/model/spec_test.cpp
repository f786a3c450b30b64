// Reading config.json: what is taken, what is refused and how.
#include <fstream>

#include "elmo/config.h"
#include "elmo/error.h"
#include "harness.h"
#include "model/encoder/hf_config.h"

namespace elmo {
namespace {

using namespace test;

std::string refusal(const std::string& text) {
    try {
        parse_model_config(text, "DIR/config.json");
    } catch (const DataError& error) {
        EXPECT_EQ(std::string(error.what()).rfind("DIR/config.json: ", 0), 0u) << error.what();
        return error.what();
    }
    return "taken";
}

TEST(ModelConfig, Families) {
    const EncoderSpec bert = parse_model_config(
        R"({"model_type":"bert","vocab_size":100,"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":3,
            "intermediate_size":128,"max_position_embeddings":77,"layer_norm_eps":1e-5,"dtype":"float32"})",
        "c");
    EXPECT_EQ(bert.width, 64);
    EXPECT_EQ(bert.longest_text(), 77);
    EXPECT_EQ(bert.types, 2);
    EXPECT_EQ(bert.dtype, DType::kF32);
    EXPECT_EQ(bert.norm_epsilon, 1e-5f);
    const EncoderSpec roberta = parse_model_config(
        R"({"model_type":"roberta","vocab_size":50265,"max_position_embeddings":514,"pad_token_id":1})", "c");
    EXPECT_EQ(roberta.longest_text(), 512);
    EXPECT_EQ(roberta.width, 768);
    const EncoderSpec distil = parse_model_config(
        R"({"model_type":"distilbert","vocab_size":9,"dim":6,"n_heads":2,"dropout":0.25,"attention_dropout":0.5})",
        "c");
    EXPECT_EQ(distil.types, 0);
    EXPECT_EQ(distil.hidden_dropout, 0.25f);
    EXPECT_EQ(distil.attention_dropout, 0.5f);
    const EncoderSpec multilingual = parse_model_config(
        R"({"model_type":"xlm-roberta","vocab_size":250002,"max_position_embeddings":514,"pad_token_id":1,
            "type_vocab_size":1})",
        "c");
    EXPECT_EQ(multilingual.longest_text(), 512);
    EXPECT_EQ(multilingual.types, 1);
    const EncoderSpec mpnet = parse_model_config(
        R"({"model_type":"mpnet","vocab_size":30527,"max_position_embeddings":514,"pad_token_id":7})", "c");
    EXPECT_EQ(mpnet.longest_text(), 512);  // whatever the pad token is
    EXPECT_EQ(mpnet.types, 0);
    EXPECT_TRUE(mpnet.has_relative_bias());
}

TEST(ModelConfig, Refusals) {
    const auto with = [](const std::string& more) {
        return refusal(R"({"model_type":"bert","vocab_size":10,"hidden_size":12)" +
                       (more.empty() ? "" : "," + more) + "}");
    };
    EXPECT_EQ(with(""), "taken");
    const std::pair<const char*, const char*> cases[] = {
        {R"("hidden_act":"gelu_new")", "\"hidden_act\": expected \"gelu\""},
        {R"("position_embedding_type":"relative_key")", "\"absolute\""},
        {R"("num_attention_heads":5)", "a divisor of \"hidden_size\" (12)"},
        {R"("num_hidden_layers":0)", "\"num_hidden_layers\": expected a whole number from 1"},
        {R"("num_hidden_layers":1e3)", "whole number"},
        {R"("intermediate_size":18446744073709551615)", "found 18446744073709551615"},
        {R"("intermediate_size":-1)", "found -1"},
        {R"("hidden_dropout_prob":1.5)", "a number from 0"},
        {R"("hidden_dropout_prob":"x")", "a number from 0"},
        {R"("elmo_pooling":"max")", "\"mean\" or \"cls\""},
        {R"("hidden_act":3)", "a string"},
    };
    for (const auto& [more, expected] : cases)
        EXPECT_NE(with(more).find(expected), std::string::npos) << more << ": " << with(more);
    EXPECT_NE(refusal(R"({"model_type":"mpnet","vocab_size":9,"relative_attention_num_buckets":16})")
                  .find("a whole number from 32 to 32"),
              std::string::npos);
    EXPECT_NE(refusal("{").find("expected a JSON object"), std::string::npos);
    EXPECT_NE(refusal("").find("expected a JSON object"), std::string::npos);
    EXPECT_NE(refusal("[1]").find("expected a JSON object"), std::string::npos);
    EXPECT_NE(refusal("{}").find("bert, distilbert, roberta"), std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"gpt2"})").find("gpt2"), std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"bert"})").find("\"vocab_size\" is missing"), std::string::npos);
    EXPECT_NE(
        refusal(R"({"model_type":"distilbert","vocab_size":3,"activation":"relu"})").find("\"activation\""),
        std::string::npos);
    EXPECT_NE(refusal(R"({"model_type":"roberta","vocab_size":3,"max_position_embeddings":2})")
                  .find("pad_token_id"),
              std::string::npos);
}

// Values are printed and written again by functions that call themselves.
TEST(ModelConfig, NestingIsBounded) {
    const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    const std::string start = R"({"vocab_size":10,"hidden_size":12,"model_type":)";
    EXPECT_EQ(refusal(start + R"("bert","more":)" + nested(31) + "}"), "taken");
    for (const int depth : {32, 200000}) {
        EXPECT_NE(refusal(start + R"("bert","more":)" + nested(depth) + "}").find("at most 32 deep"),
                  std::string::npos);
        EXPECT_NE(refusal(start + nested(depth) + "}").find("at most 32 deep"), std::string::npos);
    }
}

TEST(EncoderSpecOf, TheConfiguration) {
    Config config;
    config.encoder = "bag";
    config.width = 96;
    config.accumulate = 4;
    const EncoderSpec bag = make_encoder_spec(config, 500);
    EXPECT_TRUE(bag.is_bag());
    EXPECT_EQ(bag.vocab, 500);
    EXPECT_EQ(bag.grad_dtype(), DType::kF32);
    EXPECT_EQ(bag.pooled_dropout, 0.5f);

    config.encoder = std::string(ELMO_SOURCE_DIR) + "/tests/model/golden/bert";
    config.encoder_dropout = 0.3;
    config.accumulate = 1;
    const EncoderSpec bert = make_encoder_spec(config, 31);
    EXPECT_EQ(bert.hidden_dropout, 0.3f);
    EXPECT_EQ(bert.attention_dropout, 0.3f);
    EXPECT_EQ(bert.grad_dtype(), DType::kBf16);
    EXPECT_EQ(bert.weights_folder.path(), config.encoder);
    EXPECT_THROW(make_encoder_spec(config, 32), ConfigError);

    const TemporaryFolder folder;
    config.encoder = folder.path;
    EXPECT_THROW(make_encoder_spec(config, 3), ConfigError);
    fs::copy_file(fs::path(ELMO_SOURCE_DIR) / "tests/model/golden/bert/config.json",
                  folder.path / "config.json");
    EXPECT_TRUE(make_encoder_spec(config, 3).weights_folder.empty());
    std::ofstream(folder.path / "pytorch_model.bin") << "x";  // weights, read later (formats/torch_file.h)
    EXPECT_EQ(make_encoder_spec(config, 3).weights_folder.path(), folder.path);
}

}  // namespace
}  // namespace elmo
