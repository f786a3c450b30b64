// Labels added to a run and removed from it: what must change, and that nothing else does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/labels.h"
#include "elmo/messages.h"
#include "model/head/head.h"
#include "quiet.h"
#include "rank/label_match.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

constexpr int kColours = 6, kAnimals = 6, kAll = kColours * kAnimals, kNew = 5, kOld = kAll - kNew;

// A run that knows colours and animals and most pairs of them, each pair a label; new labels are the other
// pairs.
class Labels : public ::testing::Test {
  protected:
    static std::string pair_name(int pair) {
        const char* colours[kColours] = {"red", "blue", "green", "white", "black", "brown"};
        const char* animals[kAnimals] = {"cat", "dog", "horse", "trout", "beetle", "sparrow"};
        return fmt::format("{} {}", colours[pair / kAnimals], animals[pair % kAnimals]);
    }
    static std::string text_of(int pair, int i) {
        const char* verbs[] = {"sleeps", "runs", "eats", "hides", "jumps"};
        return fmt::format("the {} {} near house {}", pair_name(pair), verbs[i % 5], i % 3);
    }
    void SetUp() override {
        for (int pair = 0; pair < kAll; ++pair) (pair % 7 == 2 ? fresh : old).push_back(pair);
        ASSERT_EQ(old.size(), kOld);
        std::string texts, matrix = fmt::format("{} {}\n", 20 * kOld, kOld), names, plain, more;
        for (int i = 0; i < 20 * kOld; ++i) {
            const std::string text = text_of(old[static_cast<std::size_t>(i % kOld)], i / kOld);
            texts += text + "\n";
            matrix += fmt::format("{}:1\n", i % kOld);
            plain += fmt::format("{}\t{}\n", text, name(i % kOld));
        }
        for (int i = 0; i < 20 * kNew; ++i)
            plain += fmt::format("{}\t{}\n", text_of(fresh[static_cast<std::size_t>(i % kNew)], i / kNew),
                                 pair_name(fresh[static_cast<std::size_t>(i % kNew)]));
        for (int l = 0; l < kOld; ++l) names += name(l) + "\n";
        for (const int pair : fresh) more += pair_name(pair) + "\n";
        write_text(temp / "data/trn_X.txt", texts);
        write_text(temp / "data/trn_X_Y.txt", matrix);
        write_text(temp / "data/Y.txt", names);
        write_text(temp / "all.tsv", plain);
        write_text(temp / "new.txt", more);
    }
    // Of a label of the run.
    std::string name(int label) const { return pair_name(old[static_cast<std::size_t>(label)]); }
    void train_run(const std::string& precision = "bf16") {
        Config config = tiny_config(temp);
        config.precision = precision;
        config.steps = 300;
        config.batch_size = 32;
        config.width = 32;
        config.overwrite = true;
        train(quiet().with_stop(stop), config);
    }
    Config change_config(const std::string& out = "more") {
        Config config;
        config.cache = temp / "cache";
        config.out = temp / out;
        config.threads = 1;
        config.overwrite = true;
        return config;
    }
    static std::vector<float> head_of(const std::string& run, std::int64_t rows) {
        std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
        std::iota(all.begin(), all.end(), 0);
        return read_head_rows(std::filesystem::path(run + "/best"), all);
    }
    // Of texts about each new label, those whose best answer of all is that label.
    int found(const std::string& run) {
        Config config;
        config.top = 1;
        config.threads = 1;
        Predictor predictor(quiet(), run, config);
        int right = 0;
        for (const int pair : fresh)
            right += predictor.predict({text_of(pair, 7)})[0][0].name == pair_name(pair) ? 1 : 0;
        return right;
    }
    static std::vector<Prediction> full_ranking(const std::string& run, const std::string& text, int labels) {
        Config config;
        config.device = "reference";
        config.top = labels;
        auto answers = Predictor(quiet(), run, config).predict({text})[0];
        for (Prediction& p : answers) p.name = {};
        return answers;
    }
    std::string run() const { return temp / "run"; }

    TempFolder temp;
    std::vector<int> old, fresh;  // pairs
    std::atomic<bool> stop{false};
};

TEST_F(Labels, AddedFromTheirTextTheOthersKeepEveryBit) {
    for (const char* precision : {"fp32", "bf16", "fp8", "e3m4", "e2m3"}) {
        train_run(precision);
        const LabelChange change = add_labels(quiet(), run(), temp / "new.txt", change_config());
        EXPECT_EQ(change.labels_before, kOld);
        EXPECT_EQ(change.labels_after, kAll);
        EXPECT_EQ(change.from_text, kNew);
        EXPECT_EQ(change.from_data, 0);
        EXPECT_EQ(change.steps, 0);
        EXPECT_GT(change.slope, 0);
        // One file of the head each, so its bytes follow the header: the old ones open the new one's data.
        const auto before = head_of(run(), kOld), after = head_of(temp / "more", kAll);
        ASSERT_EQ(before.size() / kOld, after.size() / kAll);
        EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0) << precision;
        std::map<std::string, std::string> old_files;
        for (auto& [name, content] : files_of(run() + "/best")) old_files[name] = content;
        int same = 0;
        for (auto& [name, content] : files_of(temp / "more/best")) same += old_files[name] == content ? 1 : 0;
        // Encoder (2), tokenizer (2), recipe, trained texts; not head, names, counts, state, manifest.
        EXPECT_EQ(same, 6) << precision;
        EXPECT_EQ(found(temp / "more"), kNew) << precision;  // among all labels: chance is one in 36 each
    }
}

TEST_F(Labels, ScoresOfTheOthersAreTheSame) {
    train_run();
    add_labels(quiet(), run(), temp / "new.txt", change_config());
    const std::string text = text_of(fresh[0], 1);
    std::map<std::int64_t, float> before;
    for (const Prediction& p : full_ranking(run(), text, kOld)) before[p.label] = p.score;
    int compared = 0;
    for (const Prediction& p : full_ranking(temp / "more", text, kAll)) {
        if (p.label >= kOld) continue;
        EXPECT_EQ(p.score, before.at(p.label));
        ++compared;
    }
    EXPECT_EQ(compared, kOld);
}

// Batches differ by chance, passes over the same rows do not.
TEST_F(Labels, TellsTheLossOfWholePasses) {
    train_run();
    Config config = change_config();
    config.data = temp / "all.tsv";
    config.head_lr = 1e-30;  // nothing moves
    config.dropout = 0.0;
    config.batch_size = 32;
    config.steps = 1000;
    const std::int64_t pass = add_labels(quiet(), run(), "", config).loss_steps;
    EXPECT_GT(pass, 1);
    EXPECT_LT(pass, config.steps / 2);
    config.steps = 4 * pass;  // the last steps are a pass too
    const LabelChange change = add_labels(quiet(), run(), "", config);
    EXPECT_GT(change.first_loss, 0);
    EXPECT_NEAR(change.first_loss, change.last_loss, 1e-5 * change.first_loss);  // FP32 sums of other batches
}

TEST_F(Labels, AddedFromDataAndTrainedAlone) {
    train_run();
    Config config = change_config();
    config.data = temp / "all.tsv";
    LabelChange change = add_labels(quiet(), run(), "", config);
    EXPECT_EQ(change.labels_after, kAll);
    EXPECT_EQ(change.from_data, kNew);
    const auto started = head_of(temp / "more", kAll);
    config.steps = 200;
    config.batch_size = 32;
    change = add_labels(quiet(), run(), "", config);
    EXPECT_EQ(change.steps, 200);
    EXPECT_LT(change.last_loss, change.first_loss);
    const auto before = head_of(run(), kOld), after = head_of(temp / "more", kAll);
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
    EXPECT_NE(std::memcmp(started.data(), after.data(), after.size() * sizeof(float)), 0);
    EXPECT_EQ(found(temp / "more"), kNew);
    // Twice the same call, twice the same bytes.
    config.out = temp / "again";
    add_labels(quiet(), run(), "", config);
    EXPECT_EQ(files_of(temp / "again/best"), files_of(temp / "more/best"));
}

TEST_F(Labels, ANewLabelMayHaveATextBesideItsName) {
    train_run();
    write_text(temp / "described.txt", "that animal\tthe " + pair_name(fresh[0]) + "\nplain\n");
    EXPECT_EQ(add_labels(quiet(), run(), temp / "described.txt", change_config()).labels_after, kOld + 2);
    EXPECT_EQ(read_text(temp / "more/best/labels.txt").find(pair_name(fresh[0])), std::string::npos);
    Config config;
    config.top = 1;
    Predictor predictor(quiet(), temp / "more", config);
    EXPECT_EQ(predictor.predict({text_of(fresh[0], 7)})[0][0].name, "that animal");
}

TEST_F(Labels, RemovedTheOthersKeepEveryBitAndTheirOrder) {
    train_run("fp8");
    write_text(temp / "gone.txt", "0\n" + name(7) + "\n29\n");
    const LabelChange change = remove_labels(quiet(), run(), temp / "gone.txt", change_config("less"));
    EXPECT_EQ(change.labels_after, kOld - 3);
    const auto before = head_of(run(), kOld), after = head_of(temp / "less", kOld - 3);
    const std::size_t width = before.size() / kOld;
    std::string names;
    std::size_t row = 0;
    for (int l = 0; l < kOld; ++l) {
        if (l == 0 || l == 7 || l == 29) continue;
        EXPECT_EQ(std::memcmp(before.data() + static_cast<std::size_t>(l) * width, after.data() + row * width,
                              width * sizeof(float)),
                  0);
        names += name(l) + "\n";
        ++row;
    }
    EXPECT_EQ(read_text(temp / "less/best/labels.txt"), names);
    // Scored on data with those labels; what was removed can be added again.
    write_text(temp / "gone.txt", name(0) + "\n" + name(7) + "\n" + name(29) + "\n");
    EXPECT_EQ(add_labels(quiet(), temp / "less", temp / "gone.txt", change_config()).labels_after, kOld);
    // The file that added labels, with their texts, also removes them.
    write_text(temp / "gone.txt", name(3) + "\tits text\n" + name(4) + "\n");
    EXPECT_EQ(remove_labels(quiet(), run(), temp / "gone.txt", change_config("two")).labels_after, kOld - 2);
    write_text(temp / "gone.txt", "no such label\tits text\n");
    EXPECT_THROW(remove_labels(quiet(), run(), temp / "gone.txt", change_config("three")), DataError);
}

TEST_F(Labels, AChangedRunIsScoredOnAnyDataByName) {
    train_run();
    Config config = tiny_config(temp);
    config.split = "train";
    config.k = "1,2";
    const Evaluation before = evaluate(quiet(), run(), config);
    EXPECT_EQ(before.labels_matched, "");
    // One label that every twentieth text has is gone: the data still has it.
    write_text(temp / "gone.txt", "4\n");
    remove_labels(quiet(), run(), temp / "gone.txt", change_config("less"));
    const Evaluation less = evaluate(quiet(), temp / "less", config);
    EXPECT_EQ(less.labels_matched,
              fmt::format("by name: 1 of the data's {} are not in the run, 0 of the run's {} not in the data",
                          kOld, kOld - 1));
    EXPECT_EQ(less.num_labels, kOld);
    EXPECT_EQ(before.get("P@1"), 100);
    EXPECT_NEAR(less.get("P@1"), 100.0 * (kOld - 1) / kOld, 1e-9);
    EXPECT_NEAR(less.get("R@2"), 100.0 * (kOld - 1) / kOld, 1e-9);
    EXPECT_NEAR(less.get("PSP@1"), less.get("P@1"), 1e-9);  // all are equally frequent, also what is gone
    // Labels added, data in another order and with names of its own numbering.
    Config add = change_config();
    add.data = temp / "all.tsv";
    add.steps = 200;
    add.batch_size = 32;
    add_labels(quiet(), run(), "", add);
    const std::string was = std::exchange(config.data, temp / "all.tsv");
    config.test_share = 0;
    const Evaluation more = evaluate(quiet(), temp / "more", config);
    EXPECT_GT(more.get("P@1"), 99);
    config.save_predictions = temp / "predictions.txt";
    // Under the numbers of the data, which needs to have all labels of the run.
    evaluate(quiet(), temp / "less", config);
    const std::string stored = read_text(temp / "predictions.txt");
    EXPECT_EQ(stored.substr(0, stored.find('\n')), fmt::format("{} {}", more.num_samples, more.num_labels));
    config.data = was;
    config.test_share = Config().test_share;
    EXPECT_THROW(evaluate(quiet(), temp / "more", config), ConfigError);
}

TEST(LabelMatch, ByHand) {
    const LabelMatch match = match_labels({"b", "x", "a", "b", "b", "y"}, {"a", "b", "c", "b"});
    EXPECT_EQ(match.number, (std::vector<std::int64_t>{1, 4, 0, 3, 5, 6}));
    EXPECT_EQ(match.unknown, 3);
    EXPECT_EQ(match.missing, 1);
    const std::vector<std::int64_t> offsets = {0, 3, 3, 4};
    const std::vector<std::uint32_t> values = {0, 1, 2, 5};
    EXPECT_EQ(renumber({offsets, values}, match), (std::vector<std::uint32_t>{0, 1, 4, 6}));
    EXPECT_TRUE(renumber({}, match).empty());
}

// Equal names come first, so that nothing changes where a run has a name with blanks and without.
TEST(LabelMatch, BlanksAroundNamesDoNotCount) {
    const LabelMatch match =
        match_labels_but_blanks({"x", "red", "blue", "green ", "y"}, {"red ", " blue", "c", "red", "green"});
    EXPECT_EQ(match.number, (std::vector<std::int64_t>{5, 3, 1, 4, 6}));
    EXPECT_EQ(match.unknown, 2);
    EXPECT_EQ(match.missing, 2);
    EXPECT_EQ(match_labels_but_blanks({"red"}, {"red "}).number, (std::vector<std::int64_t>{0}));
    EXPECT_EQ(match_labels_but_blanks({"red"}, {"blue"}).number, (std::vector<std::int64_t>{1}));
}

TEST_F(Labels, WrongCallsAreRefusedAndNothingIsLost) {
    train_run();
    const auto kept = files_of(run() + "/best");
    Config config = change_config();
    write_text(temp / "bad.txt", "fresh\n" + name(3) + "\n");
    EXPECT_NE(message_of<DataError>([&] {
                  add_labels(quiet(), run(), temp / "bad.txt", config);
              }).find("bad.txt:2"),
              std::string::npos);
    write_text(temp / "bad.txt", "fresh\nfresh\n");
    EXPECT_NE(message_of<DataError>([&] {
                  add_labels(quiet(), run(), temp / "bad.txt", config);
              }).find("every new label once"),
              std::string::npos);
    for (const char* bad : {"", "\n\n", "\xff\n", "\ttext\n"}) {
        write_text(temp / "bad.txt", bad);
        EXPECT_THROW(add_labels(quiet(), run(), temp / "bad.txt", config), DataError) << bad;
    }
    EXPECT_THROW(add_labels(quiet(), run(), "", config), ConfigError);
    config.steps = 5;
    EXPECT_THROW(add_labels(quiet(), run(), temp / "new.txt", config), ConfigError);
    config.steps = 0;
    config.out = run();
    EXPECT_THROW(add_labels(quiet(), run(), temp / "new.txt", config), ConfigError);
    EXPECT_THROW(add_labels(quiet(), run() + "/best", temp / "new.txt", config), ConfigError);
    EXPECT_THROW(remove_labels(quiet(), run(), temp / "new.txt", config), ConfigError);
    config = change_config("less");
    std::string all;
    for (int l = 0; l < kOld; ++l) all += fmt::format("{}\n", l);
    write_text(temp / "bad.txt", all);
    EXPECT_THROW(remove_labels(quiet(), run(), temp / "bad.txt", config), DataError);
    EXPECT_FALSE(std::filesystem::exists(temp / "less/best"));
    EXPECT_EQ(files_of(run() + "/best"), kept);
}

}  // namespace
}  // namespace elmo
