// What earlier programs wrote, kept in tests/data/earlier: a run, its cache and
// predictions. They are read, or made anew, or refused with what to do. README there says how they were made.
#include <gtest/gtest.h>

#include <regex>

#include "base/text_util.h"
#include "cli/program.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

class Earlier : public ::testing::Test {
  protected:
    void SetUp() override {
        fs::copy(std::string(ELMO_SOURCE_DIR) + "/tests/data/earlier", temp.path("earlier"),
                 fs::copy_options::recursive);
    }
    std::string text(const std::string& name) const { return temp.text("earlier/" + name); }

    TempFolder temp;
};

// The labels of each answer, without their scores: those may differ in the last digits between machines.
std::string labels_of(const std::string& answers) {
    static const std::regex kLabel("\"label\":([0-9]+)");
    std::string labels;
    std::size_t begin = 0;
    while (begin < answers.size()) {
        const std::size_t end = answers.find('\n', begin);
        const std::string line = answers.substr(begin, end - begin);
        std::smatch first;
        if (std::regex_search(line, first, kLabel)) labels += first[1].str() + " ";
        begin = end + 1;
    }
    return labels;
}

TEST_F(Earlier, ARunAnswersAsItDid) {
    const Outcome answers = run_elmo({"predict", text("run"), text("texts.txt"), "--json", "--quiet"});
    expect_success(answers);
    EXPECT_EQ(labels_of(answers.out), labels_of(read_file(text("answers.jsonl"))));
    EXPECT_NE(labels_of(answers.out), "");
    const Outcome linear = run_elmo({"predict", text("linear"), text("texts.txt"), "--json", "--quiet"});
    expect_success(linear);
    EXPECT_EQ(labels_of(linear.out), labels_of(read_file(text("answers-linear.jsonl"))));
    expect_success(run_elmo({"inspect", text("run")}));
    expect_success(run_elmo({"eval", text("run"), text("data.tsv"), "--quiet"}));
    expect_success(run_elmo({"calibrate", text("run"), text("data.tsv"), "--quiet"}));
    expect_success(run_elmo({"train", text("data.tsv"), "--out", temp.text("next"), "--init", text("run"),
                             "--steps", "2", "--quiet"}));
}

TEST_F(Earlier, AFinishedRunIsFinished) {
    expect_success(run_elmo({"train", text("data.tsv"), "--out", text("run"), "--resume", "--quiet"}));
}

TEST_F(Earlier, ACacheIsMadeAnew) {
    const auto files = [&] {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(text("cache")))
            names.push_back(entry.path().filename());
        return names.size();
    };
    const std::size_t before = files();
    ASSERT_GT(before, 0u);
    expect_success(run_elmo({"data", text("data.tsv"), "--cache", text("cache"), "--quiet"}));
    EXPECT_GT(files(), before);
    expect_success(run_elmo({"cache", "clear", text("cache")}));  // knows the old ones too
    EXPECT_TRUE(!fs::exists(text("cache")) || fs::is_empty(text("cache")));
}

TEST_F(Earlier, PredictionsAreScored) {
    const Outcome scores =
        run_elmo({"eval", "--predictions", text("predictions.txt"), text("data.tsv"), "--json", "--quiet"});
    expect_success(scores);
    EXPECT_NE(scores.out.find("P@1"), std::string::npos) << scores.out;
}

TEST_F(Earlier, ACheckpointOfALaterFormatIsRefusedWithWhatToDo) {
    const std::string manifest = text("run/best/manifest.json");
    std::string content = read_file(manifest);
    content = std::regex_replace(content, std::regex("\"version\": 1"), "\"version\": 2");
    content = std::regex_replace(content, std::regex("\"elmo\": \"[^\"]*\""), "\"elmo\": \"7.0.0\"");
    temp.write("earlier/run/best/manifest.json", content);
    expect_failure(run_elmo({"predict", text("run"), text("texts.txt")}), 1,
                   {"manifest.json", "version 1", "found 2", "7.0.0", "train again"});
}

}  // namespace
}  // namespace elmo
