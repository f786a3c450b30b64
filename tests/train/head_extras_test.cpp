// Runs whose head has compensated rows and weight dropout: which labels, what is saved, and that a continued
// run ends with the same bytes.
#include <gtest/gtest.h>

#include <cstring>

#include "data/dataset.h"
#include "elmo/elmo.h"
#include "elmo/labels.h"
#include "elmo/messages.h"
#include "formats/safetensors.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "tested_device.h"
#include "train/killed_run.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class RunExtras : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        config.device = kTestedDevice;
        if (kTestsGpu) config.width = 128;  // what Hopper's kernels take
        config.precision = "e3m4";
        config.head_kahan = "20%";
        config.weight_dropout = 0.2;
    }
    static std::string compensation_file(const std::string& run) {
        return run + "/last/" + kHeadCompensationFile;
    }
    static std::vector<std::int64_t> compensated(const std::string& run) {
        const SafeTensors file = SafeTensors::open(compensation_file(run));
        const TensorInfo& tensor = file.at("labels");
        std::vector<std::int64_t> labels(static_cast<std::size_t>(tensor.num_elements()));
        std::memcpy(labels.data(), tensor.data.data(), tensor.data.size());
        return labels;
    }
    std::string train_to(const std::string& out) {
        config.out = temp / out;
        train(quiet().with_stop(stop), config);
        return config.out;
    }

    TempFolder temp;
    Config config;
    const std::atomic<bool> stop{false};
};

TEST_F(RunExtras, KilledRunEndsWithTheSameBytes) {
    config.steps = 240;
    config.save_every = 20;
    config.eval_every = 7;
    const std::string whole = train_to("whole");
    EXPECT_EQ(compensated(whole).size(), 7u);  // of 37
    EXPECT_FALSE(std::filesystem::exists(whole + "/best/" + kHeadCompensationFile));
    const SafeTensors file = SafeTensors::open(compensation_file(whole));
    const auto bytes = file.at("compensation").data;
    EXPECT_TRUE(std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{0}; }));

    config.out = temp / "killed";
    EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
    config.resume = true;
    EXPECT_EQ(train(quiet().with_stop(stop), config).steps, 240);
    for (const char* which : {"/last", "/best"}) expect_same_files(whole + which, config.out + which);
}

TEST_F(RunExtras, RowsWithExponentsResumeWithTheirs) {
    for (const auto& [precision, share, rows] :
         {std::tuple("e2m5", "auto", 1u), std::tuple("e2m5", "20%", 7u), std::tuple("e2m1", "20%", 7u)}) {
        SCOPED_TRACE(fmt::format("{}, {}", precision, share));
        config.precision = precision;
        config.head_kahan = share;
        config.weight_dropout = share == std::string("auto") ? 0 : 0.2;
        config.resume = false;
        config.overwrite = true;
        const std::string whole = train_to("whole");
        EXPECT_EQ(compensated(whole).size(), rows);
        config.out = temp / "continued";
        EXPECT_TRUE(train_no_step(config).interrupted);
        config.resume = true;
        config.overwrite = false;
        EXPECT_FALSE(train(quiet().with_stop(stop), config).interrupted);
        expect_same_files(whole + "/last", config.out + "/last");
    }
}

TEST_F(RunExtras, EachChangesTheWeights) {
    const auto head = [&](const std::string& run) {
        return read_text(run + "/last/head-00001-of-00001.safetensors");
    };
    const std::string both = head(train_to("both"));
    config.weight_dropout = 0;
    const std::string kahan = head(train_to("kahan"));
    config.head_kahan = "0";
    const std::string plain = head(train_to("plain"));
    EXPECT_NE(both, kahan);
    EXPECT_NE(kahan, plain);
    EXPECT_FALSE(std::filesystem::exists(compensation_file(temp / "plain")));
}

TEST_F(RunExtras, PositivesCountAsOftenAsWeightsSay) {
    for (const std::string precision : {"bf16", "e2m5"}) {
        SCOPED_TRACE(precision);
        config.precision = precision;
        config.head_kahan = "auto";
        config.weight_dropout = 0;
        std::vector<float> scores;
        for (const char* weight : {"0.1", "1", "10"}) {
            config.label_weights = temp / "weights.tsv";
            write_text(config.label_weights, fmt::format("5\t{}\n", weight));
            config.overwrite = true;
            const std::string run = train_to("run");
            Config asked = config;
            asked.top = 37;
            const auto answers = Predictor(quiet(), run, asked).predict({word_of(5)});
            for (const auto& answer : answers[0])
                if (answer.label == 5) scores.push_back(answer.score);
        }
        ASSERT_EQ(scores.size(), 3u);
        EXPECT_LT(scores[0], scores[1] - 0.5);
        EXPECT_LT(scores[1], scores[2] - 0.5);
    }
}

// They are in the checkpoint: neither their file nor the counts of labels are asked again.
TEST_F(RunExtras, WeightsOfLabelsStayThoseOfTheRun) {
    config.objective = "psp";
    config.label_weights = temp / "weights.tsv";
    write_text(config.label_weights, "3\t7\n");
    const std::string whole = train_to("whole");
    EXPECT_EQ(read_label_weights(MappedFile(whole + "/last/" + kLabelWeightsFile), 37).size(), 37u);
    EXPECT_FALSE(std::filesystem::exists(whole + "/best/" + kLabelWeightsFile));
    config.out = temp / "continued";
    EXPECT_TRUE(train_no_step(config).interrupted);
    std::filesystem::remove(config.label_weights);
    config.resume = true;
    EXPECT_FALSE(train(quiet().with_stop(stop), config).interrupted);
    expect_same_files(whole + "/last", config.out + "/last");
}

// Groups of labels, which ranks share, change nothing in a head whose encoder does not learn.
TEST_F(RunExtras, GroupsOfLabelsTakeTheirWeights) {
    write_tiny_data(temp / "data", {.labels = 600});
    config.objective = "psp";
    config.freeze_encoder = true;
    config.label_groups = std::int64_t{1};
    const std::string whole = train_to("whole");
    config.label_groups = std::int64_t{2};
    const std::string groups = train_to("groups"), head = "/last/head-00001-of-00001.safetensors";
    EXPECT_EQ(read_text(whole + head), read_text(groups + head));
    config.objective = "plain";
    EXPECT_NE(read_text(train_to("plain") + head), read_text(groups + head));
}

TEST_F(RunExtras, WeightsOfOtherLabelsAreRefused) {
    config.objective = "psp";
    const std::string file = train_to("run") + "/last/" + kLabelWeightsFile;
    EXPECT_THROW(read_label_weights(MappedFile(file), 36), DataError);
    EXPECT_THROW(read_label_weights(MappedFile(temp / "none"), 37), DataError);
}

TEST_F(RunExtras, AFrozenEncodersRunSavesItToo) {
    config.freeze_encoder = true;
    const std::string whole = train_to("whole");
    config.out = temp / "continued";
    EXPECT_TRUE(train_no_step(config).interrupted);
    config.resume = true;
    EXPECT_FALSE(train(quiet().with_stop(stop), config).interrupted);
    expect_same_files(whole + "/last", config.out + "/last");
}

TEST_F(RunExtras, ADamagedCompensationIsRefused) {
    EXPECT_TRUE(train_no_step(config).interrupted);
    config.resume = true;
    const std::string path = compensation_file(config.out), content = read_text(path);
    write_text(path, content.substr(0, content.size() / 2));
    EXPECT_NE(
        message_of<DataError>([&] { train(quiet().with_stop(stop), config); }).find(kHeadCompensationFile),
        std::string::npos);
}

// Label 5 is in every validation row and in half of the test rows, yet in no row that trains; labels 7 and 8
// are equally frequent there.
TEST_F(RunExtras, FrequentLabelsAreThoseOfTheRowsThatTrain) {
    constexpr int kRows = 200;
    config.validation = "0.4";
    config.head_kahan = "0.2";
    config.equal_texts = "apart";
    const RowLists lists = split_validation(config, kRows, {});
    std::vector<int> label_of(kRows, 5);
    const int turns[] = {3, 3, 3, 8, 8, 7, 7, 1};
    int next = 0;
    for (const std::int64_t row : lists.train) {
        label_of[static_cast<std::size_t>(row)] = turns[next];
        next = (next + 1) % 8;
    }
    ASSERT_GT(lists.validation.size(), lists.train.size() * 3 / 8) << "label 5 would be among the two";
    // Only whole turns, so that 7 and 8 stay equal.
    while (next > 0)
        label_of[static_cast<std::size_t>(
            lists.train[lists.train.size() - static_cast<std::size_t>(next--)])] = 0;
    std::string texts, matrix = fmt::format("{} 10\n", kRows), test_texts, test_matrix = "20 10\n";
    for (int i = 0; i < kRows; ++i) {
        texts += fmt::format("a text about {}\n", word_of(label_of[static_cast<std::size_t>(i)]));
        matrix += fmt::format("{}:1\n", label_of[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; i < 20; ++i) {
        test_texts += "another text\n";
        test_matrix += i % 2 == 0 ? "5:1\n" : "9:1\n";
    }
    std::filesystem::remove_all(temp / "data");
    write_text(temp / "data/trn_X.txt", texts);
    write_text(temp / "data/trn_X_Y.txt", matrix);
    write_text(temp / "data/tst_X.txt", test_texts);
    write_text(temp / "data/tst_X_Y.txt", test_matrix);
    EXPECT_TRUE(train_no_step(config).interrupted);
    EXPECT_EQ(compensated(config.out), (std::vector<std::int64_t>{3, 7}));
    config.head_kahan = "30%";
    config.overwrite = true;
    EXPECT_TRUE(train_no_step(config).interrupted);
    EXPECT_EQ(compensated(config.out), (std::vector<std::int64_t>{3, 7, 8}));
}

// What is state of training is left behind; everything else goes on working.
TEST_F(RunExtras, LabelsAreRemovedAndAdded) {
    const std::string run = train_to("run");
    write_text(temp / "gone.txt", "kind 3\n");
    write_text(temp / "new.txt", "kind of new\n");
    Config change;
    change.cache = temp / "cache";
    change.threads = 1;
    change.checkpoint = "last";
    change.out = temp / "fewer";
    EXPECT_EQ(remove_labels(quiet(), run, temp / "gone.txt", change).labels_after, 36);
    change.out = temp / "more";
    EXPECT_EQ(add_labels(quiet(), run, temp / "new.txt", change).labels_after, 38);
    for (const char* name : {"fewer", "more"}) {
        const std::string folder = temp / name;
        EXPECT_FALSE(std::filesystem::exists(folder + "/best/" + kHeadCompensationFile));
        EXPECT_EQ(Predictor(quiet(), folder, Config()).predict({"the thing baxo"})[0].size(), 5u);
    }
}

}  // namespace
}  // namespace elmo
