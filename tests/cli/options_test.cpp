// What was given is what is used, in every verb; and --explain says why.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace elmo {
namespace {

nlohmann::json explained(const Words& words) {
    const Outcome outcome = run_elmo(words + Words{"--explain", "--json"});
    expect_success(outcome);
    return nlohmann::json::parse(outcome.out);
}

nlohmann::json entry(const std::string& value, const std::string& reason) {
    return {{"value", value}, {"reason", reason}};
}

// The first event of a run's log.
nlohmann::json start_event(const TempFolder& temp) {
    const Outcome line = run_shell("head -1 $0/run/log.jsonl", temp.path());
    return nlohmann::json::parse(line.out);
}

const char* const kTinyBert =
    R"({"model_type":"bert","vocab_size":400,"hidden_size":16,"num_hidden_layers":1,"num_attention_heads":2,
        "intermediate_size":32,"max_position_embeddings":32,"type_vocab_size":2,"layer_norm_eps":1e-12,
        "hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1,"hidden_act":"gelu"})";

TEST(GivenOptions, ASizeBesideAShapeStaysThoughItIsTheDefault) {
    const auto plan = [](const Words& more) {
        const Outcome outcome = run_elmo(Words{"plan", "--shape", "lf-amazontitles-131k", "--json"} + more);
        expect_success(outcome);
        return nlohmann::json::parse(outcome.out)["arena_bytes"].get<std::int64_t>();
    };
    EXPECT_LT(plan({"--batch-size", "128"}), plan({}));
    EXPECT_EQ(plan({"--batch-size", "512"}), plan({}));
    const auto json = explained({"plan", "--shape", "lf-amazontitles-131k", "--set", "batch_size=128"});
    EXPECT_EQ(json["batch_size"], entry("128", "given on the command line"));
    EXPECT_EQ(json["max_length"], entry("32", "shape lf-amazontitles-131k"));
    EXPECT_EQ(json["width"], entry("768", "shape lf-amazontitles-131k: distilbert"));
}

TEST(GivenOptions, AnEncoderBesideAShapeIsTaken) {
    const TempFolder temp;
    temp.write("bert/config.json", kTinyBert);
    const std::string bert = temp.text("bert");
    const Words shape = {"--shape", "lf-amazontitles-131k"};
    const auto head_bytes = [&](const Words& more) {
        const Outcome outcome = run_elmo(Words{"plan", "--json"} + shape + more);
        expect_success(outcome);
        const auto report = nlohmann::json::parse(outcome.out);
        for (const auto& segment : report["segments"])
            if (segment["name"] == "head/weights") return segment["bytes"].get<std::int64_t>() / 131'073 / 2;
        return std::int64_t{0};
    };
    EXPECT_EQ(head_bytes({}), 768);
    EXPECT_EQ(head_bytes({"--recipe", "demo"}), 768);  // which has a bag of its own
    EXPECT_EQ(head_bytes({"--encoder", "bag"}), 512);
    EXPECT_EQ(head_bytes({"--width", "64"}), 64);
    EXPECT_EQ(head_bytes({"--encoder", bert}), 16);

    const Words plan = Words{"plan"} + shape;
    EXPECT_EQ(explained(plan)["encoder"], entry("auto", "shape lf-amazontitles-131k: distilbert"));
    EXPECT_EQ(explained(Words{"bench", "head"} + shape)["encoder"], explained(plan)["encoder"]);
    for (const char* study : {"memory", "chunks"})
        EXPECT_EQ(explained(Words{"study", study} + shape)["encoder"], explained(plan)["encoder"]) << study;
    EXPECT_EQ(explained(plan + Words{"--encoder", bert})["encoder"],
              entry(bert, "given on the command line"));
    EXPECT_EQ(explained(plan + Words{"--width", "64"})["encoder"],
              entry("bag", "auto: width was given, and distilbert of the shape has its own"));

    for (const Words& verb : {Words{"plan"}, Words{"bench", "head"}, Words{"bench", "step"},
                              Words{"study", "memory", "--out", temp.text("memory")},
                              Words{"study", "chunks", "--out", temp.text("chunks")}}) {
        expect_failure(run_elmo(verb + shape + Words{"--encoder", temp.text("none")}), 2,
                       {"found no folder", "none"});
        expect_failure(run_elmo(verb + shape + Words{"--encoder", "linear"}), 2, {"encoder: ", "linear"});
        expect_failure(
            run_elmo(verb + shape + Words{"--vocab-size", "99"}), 2,
            {"vocab_size: distilbert of shape lf-amazontitles-131k has its own; leave --vocab-size"});
    }
    const auto timeline = [&](const Words& more) {
        expect_success(
            run_elmo(Words{"study", "memory", "--overwrite", "--values", "9", "--out", temp.text("study")} +
                     shape + more));
        return slurp(temp.path("study/study.csv"));
    };
    EXPECT_NE(timeline({"--width", "64"}), timeline({}));
    EXPECT_NE(timeline({"--encoder", bert}), timeline({}));
}

// They were without effect, and in the recipe.
TEST(GivenOptions, WhatAnEncodersFolderHasIsRefused) {
    const TempFolder temp;
    write_small_data(temp, "data");
    const std::string data = temp.text("data"), run = temp.text("run"), bert = temp.text("bert");
    expect_success(run_elmo(Words{"train", data, "--out", run, "--encoder", "bag"} + small_model()));
    temp.write("bert/config.json", kTinyBert);
    const auto refuses = [&](const Words& words, const std::string& message) {
        expect_failure(run_elmo(words), 2, {message});
        expect_failure(run_elmo(words + Words{"--explain"}), 2, {message});
    };
    const Words train = {"train", data, "--out", temp.text("next"), "--encoder"};
    for (const std::string& encoder : {run, bert})
        refuses(train + Words{encoder, "--width", "32"},
                "width: encoder " + encoder + " has its own; leave --width out, or give --encoder bag");
    refuses(train + Words{run, "--vocab-size", "99"},
            "vocab_size: the tokenizer in " + run + " is read, not learnt; leave --vocab-size out");
    refuses(train + Words{run, "--tokenizer-kind", "bpe"}, "leave --tokenizer-kind out");
    refuses(train + Words{bert, "--tokenizer", run, "--vocab-size", "99"}, "leave --vocab-size out");
    refuses({"plan", "--labels", "9", "--encoder", bert, "--width", "32"}, "leave --width out");
    refuses({"plan", data, "--encoder", run, "--vocab-size", "99"}, "leave --vocab-size out");
    EXPECT_FALSE(std::filesystem::exists(temp.path("next")));
    // A vocabulary is learnt for a folder without a tokenizer; a run's recipe names every option.
    expect_success(run_elmo(train + Words{bert, "--vocab-size", "99", "--steps", "1", "--quiet"}));
    expect_success(run_elmo({"train", data, "--out", temp.text("third"), "--recipe",
                             run + "/best/recipe.toml", "--encoder", run, "--steps", "1", "--quiet"}));
}

TEST(GivenOptions, AContinuedRunRefusesADefaultThatItDoesNotHave) {
    const TempFolder temp;
    write_small_data(temp, "data");
    const Words train = Words{"train", temp.text("data"), "--out", temp.text("run")} + small_model();
    expect_success(run_elmo(train + Words{"--epochs", "2", "--steps", "0", "--validation", "0"}));
    expect_failure(run_elmo({"train", "--out", temp.text("run"), "--resume", "--epochs", "10"}), 2,
                   {"the run has epochs = 2, found 10"});
    expect_success(run_elmo({"train", "--out", temp.text("run"), "--resume", "--epochs", "2"}));
    const auto json = explained({"train", "--out", temp.text("run"), "--resume"});
    EXPECT_EQ(json["epochs"], entry("2", "the run's recipe"));
    EXPECT_EQ(json["resume"], entry("true", "given on the command line"));
}

TEST(GivenOptions, EvalReadsTheColumnThatIsGivenThoughItIsTheDefault) {
    const TempFolder temp;
    std::string table = "title,labels\n";
    for (int i = 0; i < 60; ++i)
        table += (i % 2 ? "red green " : "blue black ") + std::to_string(i) + (i % 2 ? ",warm\n" : ",cold\n");
    const std::string data = temp.write("data.csv", table);
    expect_success(
        run_elmo(Words{"train", data, "--out", temp.text("run"), "--text-column", "title"} + small_model()));
    expect_success(run_elmo({"eval", temp.text("run"), data}));
    expect_failure(run_elmo({"eval", temp.text("run"), data, "--text-column", "text"}), 1, {"text"});
    const auto json = explained({"eval", temp.text("run"), "--k", "1,3,5"});
    EXPECT_EQ(json["text_column"], entry("title", "the run's recipe"));
    EXPECT_EQ(json["data"], entry(data, "the run's recipe"));
    EXPECT_EQ(json["k"], entry("1,3,5", "given on the command line"));
    const auto log = start_event(temp);
    EXPECT_EQ(log["reasons"]["text_column"], "given on the command line");
    EXPECT_EQ(log["reasons"]["head_momentum"], "default");
    EXPECT_EQ(log["reasons"].size(), log["config"].size());
}

TEST(GivenOptions, ANamedEncoderIsFoundByEveryVerb) {
    const TempFolder temp;
    write_small_data(temp, "data");
    expect_success(run_elmo(Words{"train", temp.text("data"), "--out", temp.text("run")} + small_model()));
    const std::string snapshot = "hub/models--tiny--bert/snapshots/1/";
    temp.write(snapshot + "config.json", kTinyBert);
    std::filesystem::copy(temp.path("run/best/tokenizer.json"), temp.path(snapshot + "tokenizer.json"));
    const auto run = [&](const std::string& words) {
        return run_shell("HF_HUB_CACHE=$0/hub $ELMO " + words + " --cache $0/cache", temp.path());
    };
    for (const std::string verb : {"data inspect $0/data", "data $0/data", "plan $0/data"}) {
        const Outcome outcome = run(verb + " --encoder tiny/bert --max-length 16");
        expect_success(outcome);
        EXPECT_EQ(outcome.err.find("learnt a vocabulary"), std::string::npos) << verb;
        expect_failure(run(verb + " --encoder tinny/bert"), 2, {"no 'tinny/bert'"});
    }
    expect_success(
        run_shell("HF_HUB_CACHE=$0/hub $ELMO bench step --encoder tiny/bert --labels 50 --steps 1 "
                  "--batch-size 2 --max-length 8",
                  temp.path()));
}

TEST(EncoderLr, FollowsFromTheEncoder) {
    const TempFolder temp;
    write_small_data(temp, "data");
    temp.write("bert/config.json", kTinyBert);
    const auto lr = [&](const std::string& encoder, const Words& more = {}) {
        return explained(Words{"train", "--encoder", encoder} + more)["encoder_lr"];
    };
    EXPECT_EQ(lr("bag"), entry("0.001", "auto: the bag encoder starts from scratch"));
    EXPECT_EQ(lr(temp.text("bert")), entry("0.001", "auto: the encoder starts from scratch"));
    expect_success(run_elmo({"train", temp.text("data"), "--out", temp.text("run"), "--encoder",
                             temp.text("bert"), "--vocab-size", "100", "--steps", "4", "--quiet"}));
    EXPECT_EQ(start_event(temp)["config"]["encoder_lr"], "0.001");
    EXPECT_EQ(lr(temp.text("run/best")), entry("2e-04", "auto: the encoder has pretrained weights"));
    EXPECT_EQ(lr(temp.text("run/best"), {"--encoder-lr", "3e-5"}),
              entry("3e-05", "given on the command line"));
    EXPECT_EQ(lr("bag", {"--recipe", "demo"}), entry("0.002", "recipe demo"));
}

TEST(Explain, AStudySaysWhatItStartsFrom) {
    const TempFolder temp;
    write_small_data(temp, "data");
    const auto memory = explained({"study", "memory", "--resume"});
    EXPECT_EQ(memory["shape"], entry("amazon-3m", "what study memory plans where nothing is named"));
    EXPECT_EQ(memory["batch_size"], entry("128", "shape amazon-3m"));
    for (const char* name : {"bits", "histogram", "memory", "chunks"})
        EXPECT_EQ(explained({"study", name, temp.text("data")})["encoder"],
                  entry("bag", "a study is about encoders that are trained in steps"))
            << name;
    EXPECT_EQ(explained({"study", "bits", temp.text("data")})["head_kahan"]["value"], "0");
    EXPECT_EQ(explained({"study", "paper", "--plan-only"})["encoder"], entry("auto", "default"));
    expect_failure(run_elmo({"study", "memori", "--explain"}), 2, {"did you mean 'memory'"});
}

TEST(Explain, EveryVerbSaysWhatItWouldUseAndDoesNothing) {
    const TempFolder temp;
    write_small_data(temp, "data");
    const std::string data = temp.text("data"), run = temp.text("run"), none = temp.text("none");
    expect_success(run_elmo(Words{"train", data, "--out", run} + small_model()));
    const char* const on_line = "given on the command line";
    for (const std::string action : {"import", "inspect", "convert"}) {
        const auto json = explained({"data", action, data, "--out", none, "--encoding", "utf-8"});
        EXPECT_EQ(json["data"], entry(data, on_line)) << action;
        EXPECT_EQ(json["encoding"], entry("utf-8", on_line)) << action;
        EXPECT_EQ(json["label_column"], entry("labels", "default")) << action;
    }
    EXPECT_EQ(explained({"data", "wordnet", "--out", none})["out"], entry(none, on_line));
    EXPECT_EQ(explained({"eval", run, data})["data"], entry(data, on_line));
    EXPECT_EQ(explained({"calibrate", run})["data"], entry(data, "the run's recipe"));
    EXPECT_EQ(explained({"predict", run, "--top", "5"})["top"], entry("5", on_line));
    EXPECT_EQ(explained({"refine", run, data})["data"], entry(data, on_line));
    EXPECT_EQ(explained({"refine", run})["precision"], entry("bf16", "what refine makes"));
    const auto added = explained({"labels", "add", run, "--head-lr", "0.5"});
    EXPECT_EQ(added["head_lr"], entry("0.5", on_line));
    EXPECT_EQ(added["batch_size"]["reason"], "the run's recipe");
    EXPECT_EQ(explained({"labels", "remove", run, none})["device"]["value"], "cpu");
    EXPECT_EQ(explained({"plan", data})["data"], entry(data, on_line));
    EXPECT_EQ(explained({"bench", "step"})["threads"], entry("0", "default"));
    EXPECT_EQ(explained({"study", "memory", "--shape", "amazon-3m"})["batch_size"],
              entry("128", "shape amazon-3m"));
    EXPECT_EQ(explained({"tokenize", "--tokenizer", run})["tokenizer"], entry(run, on_line));
    EXPECT_EQ(explained({"inspect", run})["checkpoint"], entry("best", "default"));
    EXPECT_FALSE(std::filesystem::exists(none));
}

}  // namespace
}  // namespace elmo
