// Inputs that are wrong: each ends in one clear line and a status, and nothing that existed is lost.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "program.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

// Import and training must refuse the data in the same way.
void expect_refused(const TempFolder& folder, const std::string& data, const std::vector<std::string>& parts,
                    const Words& flags = {}) {
    SCOPED_TRACE(data);
    expect_failure(run_elmo(Words{"data", folder.text(data), "--vocab-size", "100", "--quiet"} + flags), 1,
                   parts);
    expect_failure(
        run_elmo(Words{"train", folder.text(data), "--out", folder.text("run")} + small_model() + flags), 1,
        parts);
    EXPECT_FALSE(fs::exists(folder.path("run/best")));
}

// A copy of the good data set with one file replaced.
std::string spoiled(const TempFolder& folder, const std::string& file, const std::string& bytes) {
    static int count = 0;
    const std::string name = "data" + std::to_string(count++);
    write_small_data(folder, name);
    folder.write(name + "/" + file, bytes);
    return name;
}

TEST(BadData, WhatIsNotThere) {
    const TempFolder folder;
    expect_refused(folder, "missing", {"missing"});
    fs::create_directories(folder.path("empty"));
    expect_refused(folder, "empty", {"empty"});
    for (const char* file : {"trn_X.txt", "trn_X_Y.txt"}) {
        const std::string name = spoiled(folder, "x", "");
        fs::remove(folder.path(name + "/" + file));
        expect_refused(folder, name, {file});
    }
}

// Inputs that can be read only once, without end, or not at all are detected before reading.
TEST(BadData, WhatIsNoFile) {
    const TempFolder folder;
    ASSERT_EQ(mkfifo(folder.path("pipe.tsv").c_str(), 0600), 0);
    expect_refused(folder, "pipe.tsv", {"pipe.tsv", "pipe"});
    expect_failure(run_elmo({"data", "/dev/zero"}), 1, {"/dev/zero", "device"});
    const auto tokenizer = [&](const char* target) {
        fs::create_directories(folder.path("a"));
        fs::remove(folder.path("a/tokenizer.json"));
        fs::create_symlink(target, folder.path("a/tokenizer.json"));
        return run_elmo({"tokenize", "--tokenizer", folder.text("a/tokenizer.json")}, "a\n");
    };
    expect_failure(tokenizer("/dev/zero"), 1, {"tokenizer.json"});
    expect_failure(tokenizer("/proc/self/mem"), 1, {"tokenizer.json"});  // opens, and cannot be read
    expect_failure(run_elmo({"plan", "--labels", "9", "--recipe", "/proc/self/mem"}), 1, {"/proc/self/mem"});
    // An encoder's folder whose config.json never ends.
    fs::create_directories(folder.path("encoder"));
    fs::create_symlink("/dev/zero", folder.path("encoder/config.json"));
    const Outcome outcome = run_elmo({"plan", "--labels", "9", "--encoder", folder.text("encoder")});
    expect_failure(outcome, outcome.status == 2 ? 2 : 1, {"encoder"});
}

TEST(BadData, EmptyFiles) {
    const TempFolder folder;
    expect_refused(folder, spoiled(folder, "trn_X.txt", ""), {"trn_X"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", ""), {"trn_X_Y.txt"});
    folder.write("plain.tsv", "");
    expect_refused(folder, "plain.tsv", {"plain.tsv"});
    folder.write("plain.jsonl", "");
    expect_refused(folder, "plain.jsonl", {"plain.jsonl"});
    folder.write("plain.csv", "");
    expect_refused(folder, "plain.csv", {"plain.csv"});
}

TEST(BadData, HeadersThatDisagree) {
    const TempFolder folder;
    std::string rows;
    for (int i = 0; i < 60; ++i) rows += "0:1\n";
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "61 6\n" + rows), {"trn_X_Y.txt", "61", "60"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "59 6\n" + rows), {"trn_X_Y.txt", "59"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "60 7\n" + rows), {"Y", "7", "6"});
    expect_refused(folder, spoiled(folder, "trn_X.txt", "only one text\n"), {"trn_X", "1", "60"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "sixty six\n" + rows), {"trn_X_Y.txt:1"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "9999999999999999999999 6\n" + rows),
                   {"trn_X_Y.txt:1"});
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "-1 6\n" + rows), {"trn_X_Y.txt:1"});
    // A header by itself takes no memory: 2^32 - 1 labels would be 32 GiB of counts.
    expect_refused(folder, spoiled(folder, "trn_X_Y.txt", "60 4294967295\n" + rows), {"Y.txt", "4294967295"});
    const std::string nameless = spoiled(folder, "trn_X_Y.txt", "60 4294967295\n" + rows);
    fs::remove(folder.path(nameless + "/Y.txt"));
    expect_refused(folder, nameless, {"trn_X_Y.txt", "4,294,967,295", "2,147,483,647"});
    // Nor gigabytes of cache for labels that nobody names and hardly any row can have.
    const std::string hollow = spoiled(folder, "trn_X_Y.txt", "60 67108864\n" + rows);
    fs::remove(folder.path(hollow + "/Y.txt"));
    expect_refused(folder, hollow, {"trn_X_Y.txt", "67,108,864", "16,777,216"});
}

TEST(BadData, LabelsThatCannotBe) {
    const TempFolder folder;
    const auto with_row = [&](const std::string& row) {
        std::string rows = "60 6\n" + row + "\n";
        for (int i = 0; i < 59; ++i) rows += "0:1\n";
        return spoiled(folder, "trn_X_Y.txt", rows);
    };
    expect_refused(folder, with_row("6:1"), {"trn_X_Y.txt:2", "6"});
    expect_refused(folder, with_row("-1:1"), {"trn_X_Y.txt:2"});
    expect_refused(folder, with_row("99999999999999999999:1"), {"trn_X_Y.txt:2"});
    expect_refused(folder, with_row("cat:1"), {"trn_X_Y.txt:2"});
    expect_refused(folder, with_row("1:"), {"trn_X_Y.txt:2"});
    expect_refused(folder, with_row("1:1 1:1"), {"trn_X_Y.txt:2", "--allow-repeated-labels"});
    expect_success(run_elmo(
        {"data", folder.text(with_row("1:1 1:1")), "--vocab-size", "100", "--allow-repeated-labels"}));
}

TEST(BadData, NoLabelsAtAll) {
    const TempFolder folder;
    std::string none = "60 6\n";
    for (int i = 0; i < 60; ++i) none += "\n";
    const std::string unlabelled = spoiled(folder, "trn_X_Y.txt", none);
    // Every batch is without positives: there is nothing to learn from, which is reported or harmless.
    const Outcome outcome =
        run_elmo(Words{"train", folder.text(unlabelled), "--out", folder.text("run")} + small_model());
    if (outcome.status != 0) expect_failure(outcome, 1, {"label"});

    const std::string zero = spoiled(folder, "trn_X_Y.txt", "60 0\n" + none.substr(5));
    folder.write(zero + "/tst_X_Y.txt", "20 0\n" + std::string(20, '\n'));
    folder.write(zero + "/Y.txt", "");
    expect_failure(run_elmo(Words{"train", folder.text(zero), "--out", folder.text("run0")} + small_model()),
                   1, {"label"});
}

TEST(BadData, InvalidUtf8IsRefusedOrCounted) {
    const TempFolder folder;
    std::string texts;
    for (int i = 0; i < 60; ++i) texts += i == 2 ? "a caf\xe9 here\n" : "a cat\n";
    const std::string name = spoiled(folder, "trn_X.txt", texts);
    expect_refused(folder, name, {"trn_X.txt:3", "UTF-8", "--allow-invalid-utf8"});
    const Outcome allowed =
        run_elmo({"data", folder.text(name), "--vocab-size", "100", "--allow-invalid-utf8", "--json"});
    expect_success(allowed);
    EXPECT_NE(allowed.out.find("\"replaced_utf8\":1,"), std::string::npos) << allowed.out;
}

TEST(BadData, PlainFiles) {
    const TempFolder folder;
    folder.write("a.tsv", "a text\tone,two\na text without a tab\n");
    expect_refused(folder, "a.tsv", {"a.tsv:2"});
    folder.write("b.jsonl", "{\"text\": \"a\", \"labels\": [\"x\"]}\n{\"text\": \"b\"}\n");
    expect_refused(folder, "b.jsonl", {"b.jsonl:2", "labels"});
    folder.write("c.jsonl", "{\"text\": \"a\", \"labels\": [\"x\"]}\n{\"text\": \n");
    expect_refused(folder, "c.jsonl", {"c.jsonl:2"});
    folder.write("d.csv", "words,tags\na,b\n");
    expect_refused(folder, "d.csv", {"d.csv", "text"});
    folder.write("e.csv", "text,labels\n\"never closed,b\n");
    expect_refused(folder, "e.csv", {"e.csv:2"});
    folder.write("f.csv", "text;kinds\na;b\n");
    expect_refused(folder, "f.csv", {"f.csv:1", "--label-column"});
    using namespace std::string_literals;
    folder.write("g.csv", "\xff\xfet\0e\0x\0t\0,\0l\0\n\0"s);
    expect_refused(folder, "g.csv", {"g.csv:1", "UTF-16"});
    folder.write("h.csv", "text,labels\na,b\n\nc,d\n");
    expect_refused(folder, "h.csv", {"h.csv:3", "an empty line"});
    folder.write("i.csv", "text,labels\na, and more,b\n");
    expect_refused(folder, "i.csv", {"i.csv:2", "found 3", "in quotes"});
    folder.write("j.json", "[{\"text\": \"a\", \"labels\": [\"x\"]}]\n");
    expect_refused(folder, "j.json", {"j.json:1", "one a line"});
}

TEST(BadData, FilterFiles) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const std::string data = folder.text("data");
    const auto with_filter = [&](const std::string& bytes) {
        return run_elmo(
            {"data", data, "--vocab-size", "100", "--filter", folder.write("filter.txt", bytes), "--quiet"});
    };
    expect_success(with_filter("0 1\n3 2\n"));
    expect_success(with_filter(""));
    expect_failure(with_filter("0 6\n"), 1, {"filter.txt:1"});
    expect_failure(with_filter("0 1\n1000 1\n"), 1, {"filter.txt:2"});
    expect_failure(with_filter("x y\n"), 1, {"filter.txt:1"});
    expect_failure(run_elmo({"data", data, "--vocab-size", "100", "--filter", folder.text("none.txt")}), 2,
                   {"none.txt"});
}

TEST(BadPredictions, StoredFiles) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const std::string data = folder.text("data");
    std::string rows;
    for (int i = 0; i < 19; ++i) rows += "0:0.5 1:0.25\n";
    const auto score = [&](const std::string& bytes) {
        return run_elmo({"eval", "--predictions", folder.write("p.txt", bytes), data});
    };
    expect_success(score("20 6\n" + rows + "\n"));
    expect_failure(score(""), 1, {"p.txt"});
    expect_failure(score("20 6\n" + rows), 1, {"p.txt", "20", "19"});
    expect_failure(score("20 6\n" + rows + "6:1\n"), 1, {"p.txt:21"});
    expect_failure(score("20 6\n" + rows + "1:nan\n"), 1, {"p.txt:21"});
    expect_failure(score("20 7\n" + rows + "\n"), 1, {"p.txt"});
    expect_failure(run_elmo({"eval", "--predictions", folder.text("missing"), data}), 1, {"missing"});
}

TEST(BadPredictions, SayWhatIsReadAndHowToMakeIt) {
    const TempFolder folder;
    const std::string data = folder.write("data.csv", "text,labels\na b,x\nc d,y\ne f,\"x,y\"\n");
    const std::string form =
        "stored predictions are a line 'rows labels', then a line of 'label:score' entries for each scored "
        "row, "
        "labels by number: 'elmo eval RUN DATA --save-predictions FILE' writes them, and 'elmo data convert "
        "DATA --to xmc' the numbers of the labels";
    const auto score = [&](const std::string& file) {
        return run_elmo({"eval", "--predictions", file, data, "--split", "all"});
    };
    const std::string json = folder.write("answers.jsonl", "{\"line\":1,\"labels\":[]}\n");
    for (const std::string& file :
         {data, json, folder.write("empty.txt", ""), folder.write("names.txt", "3 2\nx:0.5\ny:0.5\nx:0.5\n")})
        expect_failure(score(file), 1, {file, form});
    expect_failure(score(folder.write("zip.npz", std::string("PK\3\4\0\0", 6))), 1, {"zip.npz", form});
    std::filesystem::create_directory(folder.path("folder"));
    expect_failure(score(folder.text("folder")), 1, {"found a folder; " + form});
    folder.write("run/best/manifest.json", "{}");
    expect_failure(score(folder.text("run")), 1,
                   {"run: expected a file of predictions, found a run; score it with 'elmo eval " +
                    folder.text("run") + " DATA'"});
    expect_failure(run_shell("echo 3 2 | $ELMO eval --predictions /dev/stdin $0/data.csv", folder.path()), 1,
                   {"found a pipe; store it first"});
    // Refused before the data are read.
    const std::string broken = folder.write("broken.csv", "text,labels\na,\"b\n");
    expect_failure(run_elmo({"eval", "--predictions", data, broken}), 1, {"data.csv:1", form});
    expect_failure(score(folder.write("rows.txt", "2 2\n0:1\n1:1\n")), 1,
                   {"rows.txt:1: expected 3 rows", "; --split chooses which rows are scored"});
    expect_failure(score(folder.write("labels.txt", "3 9\n0:1\n1:1\n1:1\n")), 1,
                   {"labels.txt:1: expected 3 rows and 2 labels", "the numbers of the labels"});
}

// A run that is spoiled file by file.
class BadRun : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        folder_ = new TempFolder;
        write_small_data(*folder_, "data");
        trained_ =
            run_elmo(Words{"train", folder_->text("data"), "--out", folder_->text("run")} + small_model());
    }
    static void TearDownTestSuite() {
        delete folder_;
        folder_ = nullptr;
    }
    void SetUp() override { ASSERT_EQ(trained_.status, 0) << trained_.err; }

    static std::vector<std::string> files() {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder_->path("run/best")))
            names.push_back(entry.path().filename().string());
        std::sort(names.begin(), names.end());
        return names;
    }
    // A copy of the run whose best checkpoint holds `bytes` in `file`.
    static std::string with(const std::string& file, const std::string& bytes) {
        static int count = 0;
        const std::string name = "run" + std::to_string(count++);
        fs::copy(folder_->path("run"), folder_->path(name), fs::copy_options::recursive);
        return fs::path(folder_->write(name + "/best/" + file, bytes)).parent_path().parent_path().string();
    }
    static void expect_damaged(const std::string& run) {
        SCOPED_TRACE(run);
        const Outcome eval = run_elmo({"eval", run, folder_->text("data")});
        expect_failure(eval, 1, {run});
        expect_failure(run_elmo({"predict", run}, "the cat\n"), 1, {run});
        fs::remove_all(run);
    }

    static TempFolder* folder_;
    static Outcome trained_;
};
TempFolder* BadRun::folder_ = nullptr;
Outcome BadRun::trained_;

TEST_F(BadRun, VectorsThatCannotBe) {
    const std::string run = folder_->text("run");
    const auto vectors = [&](const std::string& header, std::size_t bytes) {
        const auto length = static_cast<std::uint64_t>(header.size());
        return run_elmo(
            {"predict", run, "--vectors",
             folder_->write("v.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header +
                                                 std::string(bytes, '\0'))});
    };
    expect_failure(vectors(R"({"vectors":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}})", 12), 1,
                   {"vectors: expected a width of", "found 3"});
    expect_failure(vectors(R"({"vectors":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", 12), 1,
                   {"v.safetensors", "a row per text", "[3]"});
    expect_failure(vectors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                           8),
                   1, {"v.safetensors", "a tensor 'vectors', or only one"});
    expect_failure(vectors(R"({"vectors":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})", 8), 1,
                   {"I64"});
    expect_failure(run_elmo({"predict", run, "--vectors", folder_->text("nowhere")}), 1, {"nowhere"});
    expect_failure(run_elmo({"predict", run, "texts.txt", "--vectors", "v"}), 2, {"--vectors excludes FILE"});
}

// Every line of the manifest has a file read: many for one file would take any time.
TEST_F(BadRun, AFileIsListedTwice) {
    auto manifest = nlohmann::json::parse(slurp(folder_->path("run/best/manifest.json")));
    manifest["files"].push_back(manifest["files"][0]);
    const std::string run = with("manifest.json", manifest.dump());
    expect_failure(run_elmo({"predict", run}, "the cat\n"), 1, {"manifest.json", "once", "twice"});
    expect_damaged(run);
}

TEST_F(BadRun, MissingFoldersAndFiles) {
    expect_failure(run_elmo({"predict", folder_->text("nowhere")}, "a\n"), 1, {"nowhere"});
    expect_failure(run_elmo({"eval", folder_->text("data"), folder_->text("data")}), 1, {"data"});
    expect_failure(run_elmo({"inspect", folder_->text("nowhere")}), 1, {"nowhere"});
    for (const std::string& file : files()) {
        SCOPED_TRACE(file);
        const std::string run = with(file, "");
        fs::remove(fs::path(run) / "best" / file);
        expect_damaged(run);
    }
}

TEST_F(BadRun, TruncatedAndCorruptedFiles) {
    std::mt19937 random(1);
    for (const std::string& file : files()) {
        SCOPED_TRACE(file);
        const std::string good = slurp(folder_->path("run/best/" + file));
        ASSERT_FALSE(good.empty());
        for (const std::size_t size : {std::size_t{0}, good.size() / 2})
            expect_damaged(with(file, good.substr(0, size)));
        if (file == "manifest.json") continue;  // white space and its own words may change and harm nothing
        expect_damaged(with(file, good.substr(0, good.size() - 1)));
        std::string flipped = good;
        flipped[random() % flipped.size()] ^= 0x20;
        expect_damaged(with(file, flipped));
    }
}

// `timeout` ends what waits for a writer that never comes; nothing else takes as long on any machine.
TEST_F(BadRun, APipeInARunIsNotWaitedFor) {
    for (const std::string& file : files()) {
        SCOPED_TRACE(file);
        const std::string run = with(file, "");
        fs::remove(fs::path(run) / "best" / file);
        ASSERT_EQ(mkfifo((fs::path(run) / "best" / file).c_str(), 0600), 0);
        expect_failure(run_shell("echo a | timeout -k 1 600 \"$ELMO\" predict " + run), 1, {run});
        if (HasFailure()) break;  // the others would wait as long
        fs::remove_all(run);
    }
}

TEST_F(BadRun, ResumeFromADamagedCheckpointStops) {
    const std::string run = folder_->text("to_resume");
    fs::copy(folder_->path("run"), run, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(fs::path(run) / "last"))
        fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
    expect_failure(run_elmo(Words{"train", folder_->text("data"), "--out", run, "--resume"} + small_model()),
                   1, {run});
    EXPECT_TRUE(fs::exists(fs::path(run) / "best"));
}

TEST_F(BadRun, TextsThatAreNotUtf8) {
    const std::string run = folder_->text("run");
    expect_failure(run_elmo({"predict", run, "--quiet", folder_->write("t.txt", "\xff\n")}), 1,
                   {"t.txt:1", "UTF-8"});
    expect_success(run_elmo({"predict", run, "--allow-invalid-utf8"}, "\xff\n"));
    expect_failure(run_elmo({"predict", run, folder_->write("\xff.txt", "a\n"), "--out", folder_->text("a")}),
                   2, {"\\xff.txt", "UTF-8"});
    const Outcome partly =
        run_elmo({"predict", run, "--json", "--input", "jsonl"}, "{\"text\": \"a\"}\nno json\n");
    EXPECT_EQ(partly.status, 1);
    EXPECT_NE(partly.err.find("standard input:2"), std::string::npos) << partly.err;
}

TEST_F(BadRun, DataOfOtherLabels) {
    write_small_data(*folder_, "others");
    folder_->write("others/Y.txt", "a\nb\nc\nd\ne\nf\n");
    expect_failure(run_elmo({"eval", folder_->text("run"), folder_->text("others")}), 1, {"labels"});
}

TEST_F(BadRun, AFullDiskLosesNothing) {
    // A limit on the size of files stands in for a full disk: writes fail, the signal is ignored.
    const std::string limited =
        "ulimit -f 4; trap '' XFSZ; \"$ELMO\" train " + folder_->text("data") + " --out ";
    const Outcome outcome = run_shell(limited + folder_->text("full") +
                                      " --width 512 --vocab-size 100 --epochs 1 --threads 1 --quiet");
    expect_failure(outcome, 1, {folder_->text("full")});
    EXPECT_FALSE(fs::exists(folder_->path("full/best")));
    EXPECT_FALSE(fs::exists(folder_->path("full/last")));

    const std::string stored = folder_->write("stored.txt", "precious");
    const Outcome eval = run_shell("(ulimit -f 0; trap '' XFSZ; \"$ELMO\" eval " + folder_->text("run") +
                                   " " + folder_->text("data") + " --quiet --save-predictions " + stored +
                                   ") 2>&1 | cat; exit ${PIPESTATUS[0]}");
    EXPECT_EQ(eval.status, 1);
    EXPECT_EQ(eval.out.rfind("elmo: error: ", 0), 0u) << eval.out;
    EXPECT_EQ(slurp(stored), "precious");
}

TEST(BadTokenizer, IsRefused) {
    const TempFolder folder;
    const auto tokenize = [&](const std::string& path) {
        return run_elmo({"tokenize", "--tokenizer", path}, "a\n");
    };
    expect_failure(tokenize(folder.text("nowhere")), 1, {"nowhere"});
    fs::create_directories(folder.path("empty"));
    expect_failure(tokenize(folder.text("empty")), 1, {"empty"});
    expect_failure(tokenize(folder.write("a/tokenizer.json", "")), 1, {"tokenizer.json"});
    expect_failure(tokenize(folder.write("b/tokenizer.json", "{\"model\": ")), 1, {"tokenizer.json"});
    expect_failure(tokenize(folder.write("c/tokenizer.json", "{\"model\": {\"type\": \"WordLevel\"}}")), 1,
                   {"WordLevel"});
    expect_failure(tokenize(folder.write("e/tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}")), 1,
                   {"tokenizer.json", "vocab"});
    expect_failure(tokenize(folder.write("d/vocab.txt", "a\nb\n").substr(0, folder.text("d").size())), 1,
                   {"["});
}

TEST(BadEncoder, IsRefused) {
    const TempFolder folder;
    write_small_data(folder, "data");
    const auto train = [&](const std::string& encoder) {
        return run_elmo({"train", folder.text("data"), "--out", folder.text("run"), "--encoder", encoder,
                         "--vocab-size", "100"});
    };
    const Outcome missing = train(folder.text("nowhere"));
    expect_failure(missing, missing.status == 2 ? 2 : 1, {"nowhere"});
    expect_failure(train(fs::path(folder.write("a/config.json", "{")).parent_path().string()), 1,
                   {"config.json"});
    expect_failure(
        train(fs::path(folder.write("b/config.json", "{\"model_type\": \"gpt2\"}")).parent_path().string()),
        1, {"gpt2"});
}

}  // namespace
}  // namespace elmo
