// The command line itself: help, versions, precedence, and the errors when it is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "elmo/config.h"
#include "program.h"

namespace elmo {
namespace {

const std::vector<std::pair<std::string, char>> kVerbs = {
    {"train", 't'},     {"eval", 'e'},   {"predict", 'p'},  {"plan", 'm'},
    {"bench", 'b'},     {"data", 'd'},   {"tokenize", 'k'}, {"inspect", 'i'},
    {"calibrate", 'c'}, {"labels", 'l'}, {"refine", 'r'},   {"cache", '-'}};

TEST(Help, OverviewNamesEveryVerb) {
    const Outcome outcome = run_elmo({"--help"});
    expect_success(outcome);
    EXPECT_EQ(outcome.err, "");
    for (const auto& [verb, letter] : kVerbs) EXPECT_TRUE(contains(outcome.out, "\n  " + verb + " ")) << verb;
}

TEST(Help, VersionIsOneLine) {
    const Outcome outcome = run_elmo({"--version"});
    expect_success(outcome);
    EXPECT_EQ(outcome.out.rfind("elmo ", 0), 0u);
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
}

TEST(Help, EveryVerbListsItsOptionsWithDefaultsAndExamples) {
    for (const auto& [verb, letter] : kVerbs) {
        const Outcome outcome = run_elmo({verb, "--help", "all"});
        expect_success(outcome);
        EXPECT_EQ(outcome.err, "");
        EXPECT_TRUE(contains(outcome.out, "\nExamples:\n")) << verb;
        for (const char* common : {"--recipe", "--set", "--json", "--quiet", "--verbose", "--help"})
            EXPECT_TRUE(contains(outcome.out, common)) << verb << " " << common;
        for (const OptionInfo& option : options()) {
            // A file of labels here, an option of plan and bench.
            if (verb == "predict" && option.key == "labels") continue;
            const bool listed = contains(outcome.out, "\n  " + flag_of(option.key) + " ") ||
                                contains(outcome.out, "\n  " + flag_of(option.key) + "\n");
            EXPECT_EQ(listed, option.verbs.find(letter) != std::string_view::npos)
                << verb << " " << option.key;
        }
        EXPECT_EQ(run_elmo({"help", verb, "all"}).out, outcome.out);
    }
    EXPECT_TRUE(
        contains(run_elmo({"train", "-h", "all"}).out, "Steps between log lines with the true loss [50]"));
}

TEST(Help, IsShortUnlessAllIsAskedFor) {
    for (const auto& [verb, letter] : kVerbs) {
        const Outcome outcome = run_elmo({verb, "--help"});
        expect_success(outcome);
        EXPECT_EQ(run_elmo({"help", verb}).out, outcome.out);
        int listed = 0;
        for (const OptionInfo& option : options()) {
            if (verb == "predict" && option.key == "labels") continue;
            const bool is_listed = contains(outcome.out, "\n  " + flag_of(option.key) + " ") ||
                                   contains(outcome.out, "\n  " + flag_of(option.key) + "\n");
            EXPECT_EQ(is_listed, option.common.find(letter) != std::string::npos)
                << verb << " " << option.key;
            listed += is_listed ? 1 : 0;
        }
        EXPECT_LE(listed, 16) << verb;
        EXPECT_GE(listed, letter == '-' ? 0 : 1) << verb;
        EXPECT_TRUE(contains(outcome.out, "'elmo " + verb + " --help all' lists every one")) << verb;
    }
    EXPECT_LE(std::ranges::count(run_elmo({"train", "--help"}).out, '\n'), 70);
}

TEST(Usage, NamesOfOtherProgramsLeadToOurs) {
    const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
        {{"train", "d", "--out", "o", "--lr", "0.1"},
         "unknown flag '--lr' (did you mean '--encoder-lr' or '--head-lr'?)"},
        {{"train", "d", "--out", "o", "--learning-rate=0.1"}, "'--encoder-lr' or '--head-lr'?"},
        {{"train", "d", "--bs", "32"}, "(did you mean '--batch-size'?)"},
        {{"train", "d", "--batch_size", "32"}, "(did you mean '--batch-size'?)"},
        {{"train", "d", "-epochs", "3"}, "(did you mean '--epochs'?)"},
        {{"train", "d", "--n-epochs", "3"}, "(did you mean '--epochs'?)"},
        {{"train", "d", "--model", "bert"}, "(did you mean '--encoder'?)"},
        {{"train", "d", "--output", "o"}, "(did you mean '--out'?)"},
        {{"train", "d", "-o", "o"}, "(did you mean '--out'?)"},
        {{"predict", "r", "--top-k", "3"}, "(did you mean '--top'?)"},
        {{"eval", "r", "--top-k", "3"}, "(did you mean '--k'?)"},
        {{"plan", "--num-labels", "3"}, "(did you mean '--labels'?)"},
        {{"eval", "r", "d", "--out_path", "p.txt"}, "(did you mean '--save-predictions'?)"},
        {{"eval", "-p", "p.txt"}, "(did you mean '--predictions'?)"},
        {{"eval", "-y", "y.npz"}, "(did you mean '--data' or '--label-column'?)"},
        {{"eval", "r", "d", "-b", "10"}, ": the linear model chooses its label trees and beam by the data"},
    };
    for (const auto& [words, message] : cases) expect_failure(run_elmo(words), 2, {message});
    // One that this verb does not have is not suggested.
    const Outcome outcome = run_elmo({"inspect", "r", "--lr", "0.1"});
    expect_failure(outcome, 2, {"unknown flag '--lr'"});
    EXPECT_FALSE(contains(outcome.err, "--encoder-lr")) << outcome.err;
}

TEST(Usage, NothingToContinueFromIsNamed) {
    const TempFolder folder;
    folder.write("run/log.jsonl", "");
    expect_failure(run_elmo({"train", "--out", folder.text("run"), "--resume"}), 2,
                   {"has no checkpoint to continue from; give DATA"});
}

TEST(Usage, ValuesAsPeopleWriteThem) {
    const Outcome gpu = run_elmo({"plan", "--labels", "1000", "--device", "gpu", "--explain"});
    expect_success(gpu);
    EXPECT_TRUE(contains(gpu.out, "cuda")) << gpu.out;
    const auto labels_of = [](const std::string& text) {
        Config config;
        set_option(config, "labels", text);
        return config.labels;
    };
    EXPECT_EQ(labels_of("1M"), 1'000'000);
    EXPECT_EQ(labels_of("2.8M"), 2'800'000);
    EXPECT_EQ(labels_of("500k"), 500'000);
    for (const char* wrong : {"1.0001k", "M", "1e20M", "1kk"})
        expect_failure(run_elmo({"plan", "--labels", wrong}), 2, {"labels: expected an integer, found"});
}

TEST(Usage, MistakesNameTheNearest) {
    expect_failure(run_elmo({}), 2, {"a verb is missing"});
    expect_failure(run_elmo({"tran"}), 2, {"unknown verb 'tran'", "did you mean 'train'?"});
    expect_failure(run_elmo({"--versoin"}), 2, {"unknown flag '--versoin'", "did you mean '--version'?"});
    expect_failure(run_elmo({"train", "d", "--out", "o", "--bach-size", "3"}), 2,
                   {"unknown flag '--bach-size'", "did you mean '--batch-size'?", "elmo train --help"});
    expect_failure(run_elmo({"train", "--bach-size=3"}), 2, {"did you mean '--batch-size'?"});
    expect_failure(run_elmo({"predict", "run", "--epochs", "3"}), 2, {"'--epochs' does not belong"});
    expect_failure(run_elmo({"plan", "--set", "bach_size=3"}), 2,
                   {"unknown key 'bach_size'", "'batch_size'?"});
    expect_failure(run_elmo({"plan", "--set", "batch_size"}), 2, {"expected key=value", "'batch_size'"});
    expect_failure(run_elmo({"bench", "heat"}), 2, {"found 'heat'", "did you mean 'head'?"});
    expect_failure(run_elmo({"data", "imprt", "d"}), 2, {"found 'imprt'", "did you mean 'import'?"});
    expect_failure(run_elmo({"plan", "--labels", "10", "--precision", "fb8"}), 2,
                   {"precision: expected one of auto, fp32, bf16, fp8, e3m4", "did you mean 'fp8'?"});
}

TEST(Usage, MissingAndSurplusWords) {
    expect_failure(run_elmo({"train", "--out", "o"}), 2, {"DATA is missing"});
    expect_failure(run_elmo({"train", "d"}), 2, {"--out is missing"});
    expect_failure(run_elmo({"train", "d", "e", "--out", "o"}), 2, {"unexpected argument 'e'"});
    expect_failure(run_elmo({"train", "d", "--out"}), 2, {"--out", "missing"});
    expect_failure(run_elmo({"eval"}), 2, {"RUN is missing"});
    for (const char* verb : {"eval", "calibrate"})
        expect_failure(run_elmo({verb, "no_such_run"}), 1, {"no_such_run: expected the folder of a run"});
    const TempFolder empty;  // as of a training that has saved nothing yet
    for (const char* verb : {"eval", "calibrate", "index"})
        expect_failure(run_elmo({verb, empty.text()}), 1, {"expected a checkpoint 'best', found none"});
    expect_failure(run_elmo({"train", "--out", "no_such_run", "--resume"}), 2,
                   {"no_such_run does not exist"});
    expect_failure(run_elmo({"eval", "--predictions", "f"}), 2, {"DATA is missing"});
    expect_failure(run_elmo({"eval", "--predictions", "f", "a", "b"}), 2, {"DATA alone"});
    expect_failure(run_elmo({"report"}), 2, {"RUN is missing"});
    expect_failure(run_elmo({"report", "no_such_run", "--out", "o"}), 1,
                   {"no_such_run: expected the folder of a run"});
    expect_failure(run_elmo({"report", "--predictions", "f", "--out", "o"}), 2, {"DATA is missing"});
    expect_failure(run_elmo({"report", "--predictions", "f", "d"}), 2, {"--out is missing"});
    expect_failure(run_elmo({"predict"}), 2, {"RUN is missing"});
    expect_failure(run_elmo({"inspect"}), 2, {"is missing"});
    expect_failure(run_elmo({"tokenize"}), 2, {"--tokenizer is missing"});
    expect_failure(run_elmo({"bench"}), 2, {"WHAT is missing"});
    expect_failure(run_elmo({"data"}), 2, {"DATA is missing"});
    expect_failure(run_elmo({"data", "wordnet"}), 2, {"--out is missing"});
    expect_failure(run_elmo({"plan"}), 2, {"--labels"});
}

TEST(Usage, ValuesThatCannotBe) {
    expect_failure(run_elmo({"plan", "--labels", "many"}), 2, {"labels: expected an integer, found 'many'"});
    expect_failure(run_elmo({"plan", "--labels", "-3"}), 2, {"labels: expected", "found -3"});
    expect_failure(run_elmo({"train", "d", "--out", "o", "--resume", "--overwrite"}), 2,
                   {"resume and overwrite"});
    expect_failure(run_elmo({"train", "d", "--out", "o", "--resume=perhaps"}), 2, {"resume", "perhaps"});
    expect_failure(run_elmo({"plan", "--quiet", "--verbose"}), 2, {"--quiet and --verbose"});
    expect_failure(run_elmo({"plan", "--labels", "3", "--max-memory", "lots"}), 2, {"max_memory", "'lots'"});
}

TEST(Usage, FlagsBeatSettingsBeatRecipesAndTheLastWins) {
    const TempFolder folder;
    const std::string recipe = folder.write("r.toml", "batch_size = -1\n");
    expect_failure(run_elmo({"plan", "--recipe", recipe}), 2, {"found -1"});
    expect_failure(run_elmo({"plan", "--set", "batch_size=-2", "--recipe", recipe}), 2, {"found -2"});
    expect_failure(run_elmo({"plan", "--batch-size=-3", "--set", "batch_size=-2", "--recipe", recipe}), 2,
                   {"found -3"});
    expect_failure(run_elmo({"plan", "--batch-size", "-3", "--batch-size", "-4"}), 2, {"found -4"});
    expect_failure(run_elmo({"plan", "--set", "batch_size=-2", "--set", "batch_size=-5"}), 2, {"found -5"});
    const std::string second = folder.write("s.toml", "batch_size = -6\n");
    expect_failure(run_elmo({"plan", "--recipe", recipe, "--recipe", second}), 2, {"found -6"});
}

TEST(Usage, RecipesThatAreWrong) {
    const TempFolder folder;
    expect_failure(run_elmo({"plan", "--recipe", folder.write("a.toml", "epochs = 1\nbach_size = 2\n")}), 2,
                   {"a.toml:2: unknown key 'bach_size' (did you mean 'batch_size'?)"});
    expect_failure(run_elmo({"plan", "--recipe", folder.write("b.toml", "batch_size = 'x'\n")}), 2,
                   {"b.toml:1: batch_size: expected an integer or \"auto\", found a string"});
    expect_failure(run_elmo({"plan", "--recipe", folder.write("c.toml", "batch_size = = 1\n")}), 2,
                   {"c.toml:1: not valid TOML"});
    expect_failure(run_elmo({"plan", "--recipe", folder.text("missing.toml")}), 1,
                   {"missing.toml", "No such file"});
    expect_failure(run_elmo({"plan", "--recipe", "mine"}), 1, {"mine", "built in", "amazon-3m-fp8"});
}

TEST(Output, AFullDiskIsAnErrorAndAClosedPipeIsNot) {
    const Outcome full = run_shell("\"$ELMO\" train --help > /dev/full");
    expect_failure(full, 1, {"standard output", "No space left on device"});
    // Descriptor 4 writes to a pipe without a reader.
    const TempFolder folder;
    const Outcome closed = run_shell(
        "mkfifo \"$0/pipe\" && exec 3<>\"$0/pipe\" 4>\"$0/pipe\" 3>&- && \"$ELMO\" train --help >&4",
        folder.path());
    EXPECT_EQ(closed.status, 0);
    EXPECT_EQ(closed.err, "");
}

std::string file_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(Docs, CommandLineReferenceIsUpToDate) {
    const Outcome outcome = run_elmo({"help-markdown"});
    expect_success(outcome);
    EXPECT_EQ(file_text(ELMO_SOURCE_DIR "/docs/cli.md"), outcome.out)
        << "docs/cli.md is old: run 'make docs'";
}

class Layers : public testing::Test {
  protected:
    void SetUp() override {
        if (run_shell("command -v python3 > /dev/null").status != 0)
            GTEST_SKIP() << "python3 is not installed";
    }
    Outcome check(const std::string& root) {
        return run_shell("python3 " ELMO_SOURCE_DIR "/tools/check_layers.py " + root);
    }
};

TEST_F(Layers, AreKept) {
    const Outcome outcome = check(ELMO_SOURCE_DIR);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(Layers, EveryBreachIsSeen) {
    const TempFolder folder;
    folder.write("CMakeLists.txt",
                 "elmo_layer(base fmt::fmt)\nelmo_layer(io elmo_base)\nelmo_layer(backend elmo_base)\n"
                 "elmo_layer(backend/cpu elmo_backend)\nelmo_layer(backend/reference elmo_backend)\n"
                 "elmo_public(base error.h x.h)\nelmo_public(io file.h)\n");
    folder.write("src/io/a.cpp", "#include \"base/b.h\"\n#include \"io/a.h\"\n#include \"elmo/error.h\"\n");
    folder.write("src/backend/cpu/a.cpp", "#include \"backend/ops/head.h\"\n#include <vector>\n");
    folder.write("apps/elmo/main.cpp", "#include \"elmo/elmo.h\"\n#include \"help.h\"\n");
    folder.write("apps/elmo/help.h", "#pragma once\n");
    folder.write("include/elmo/elmo.h", "#pragma once\n#include <string>\n");
    EXPECT_EQ(check(folder.text()).status, 0) << check(folder.text()).err;
    const std::vector<std::tuple<std::string, std::string, std::string>> breaches = {
        {"src/base/x.h", "#include \"io/a.h\"\n",
         "src/base/x.h:1: layer base may not include io/a.h of layer io"},
        {"src/base/x.h", "#include \"elmo/file.h\"\n",
         "src/base/x.h:1: layer base may not include elmo/file.h of layer io"},
        {"src/io/x.h", "#include \"elmo/elmo.h\"\n", "src/io/x.h:1: elmo/elmo.h belongs to no layer"},
        {"include/elmo/other.h", "#pragma once\n", "include/elmo/other.h: no elmo_public()"},
        {"src/backend/cpu/x.h", "\n#include \"backend/reference/a.h\"\n",
         "src/backend/cpu/x.h:2: layer backend/cpu may"},
        {"src/io/x.h", "#include \"a.h\"\n", "src/io/x.h:1: expected an include of the form"},
        {"src/new/x.h", "#include \"base/a.h\"\n", "src/new/x.h:1: this folder is no layer"},
        {"apps/elmo/x.cpp", "#include \"io/a.h\"\n",
         "apps/elmo/x.cpp:1: the program includes elmo/*.h alone"},
        {"python/src/x.cpp", "#include \"io/a.h\"\n",
         "python/src/x.cpp:1: the program includes elmo/*.h alone"},
        {"include/elmo/x.h", "#include <nlohmann/json.hpp>\n", "include/elmo/x.h:1: public headers include"},
        {"include/elmo/x.h", "#include <cuda_runtime.h>\n", "include/elmo/x.h:1: public headers include"},
        {"include/elmo/x.h", "#ifdef ELMO_CUDA\n#endif\n",
         "include/elmo/x.h:1: public headers have no conditional"}};
    for (const auto& [file, text, message] : breaches) {
        folder.write(file, text);
        const Outcome outcome = check(folder.text());
        EXPECT_EQ(outcome.status, 1) << file;
        EXPECT_TRUE(contains(outcome.err, message)) << outcome.err;
        std::filesystem::remove(folder.path(file));
    }
}

}  // namespace
}  // namespace elmo
