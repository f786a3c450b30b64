// Scores of stored predictions on a data set small enough for paper and pencil, and the protocol that is kept
// with them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "rank/scoring.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

// Eight training rows and four labels with 4, 2, 1 and 0 of them. Two test rows: {0, 2} and {3}. The ranking
// of the first is 1 0 2, of the second 3 0 (1 and 3 tie with the lower number first). Label 1 of row 0 is
// filtered.
class HandCase : public ::testing::Test {
  protected:
    void SetUp() override {
        write(temp / "LF-AmazonTitles-mini");
        write(temp / "mini");
        write_text(temp / "predictions.txt", "2 4\n2:1 1:3 0:2\n0:0.5 3:0.75\n");
    }
    static void write(const std::string& folder) {
        write_text(folder + "/trn_X_Y.txt", "8 4\n0:1\n0:1 1:1\n0:1 1:1\n0:1 2:1\n\n\n\n\n");
        write_text(folder + "/tst_X_Y.txt", "2 4\n0:1 2:1\n3:1\n");
        write_text(folder + "/tst_filter_labels.txt", "0 1\n");
    }
    Config config(const std::string& data) {
        Config config;
        config.data = temp / data;
        config.cache = temp / "cache";
        config.predictions = temp / "predictions.txt";
        config.k = "1,2";
        config.threads = 1;
        return config;
    }
    // q of a label with `count` of `rows` training rows.
    static double q(double count, double rows, double a, double b) {
        return 1 + (std::log(rows) - 1) * std::pow(b + 1, a) * std::pow(count + b, -a);
    }
    TempFolder temp;
};

TEST_F(HandCase, FilteredScoresByHand) {
    const Evaluation e = evaluate(quiet(), "", config("mini"));
    // Without label 1 the first row ranks 0 2: both hit. The second hits first.
    EXPECT_DOUBLE_EQ(e.get("P@1"), 100);
    EXPECT_DOUBLE_EQ(e.get("P@2"), 75);
    EXPECT_DOUBLE_EQ(e.get("R@1"), 75);
    EXPECT_DOUBLE_EQ(e.get("R@2"), 100);
    EXPECT_EQ(e.filter.rfind("tst_filter_labels.txt (xxh64 ", 0), 0u) << e.filter;
    EXPECT_NE(e.filter.find("), 1 pairs"), std::string::npos) << e.filter;

    Config plain = config("mini");
    plain.filter = "none";
    const Evaluation without = evaluate(quiet(), "", plain);
    EXPECT_EQ(without.filter, "none");
    EXPECT_DOUBLE_EQ(without.get("P@1"), 50);
    EXPECT_DOUBLE_EQ(without.get("P@2"), 50);
    EXPECT_DOUBLE_EQ(without.get("nDCG@1"), 50);
    EXPECT_DOUBLE_EQ(without.get("nDCG@2"), 100 * (1 / std::log2(3.0) / (1 + 1 / std::log2(3.0)) + 1) / 2);
}

TEST_F(HandCase, PropensitiesByHandForEachProtocol) {
    struct Case {
        const char *data, *like;
        double rows, more, a, b;  // N, what is added to each count, A, B
        const char* counts;
    };
    for (const Case& c :
         std::vector<Case>{{"mini", "", 8, 0, 0.55, 1.5, "training set, plain"},
                           {"LF-AmazonTitles-mini", "", 8, 0, 0.6, 2.6, "training set, plain"},
                           {"LF-AmazonTitles-mini", "pyxclib", 8, 0, 0.6, 2.6, "training set, plain"},
                           {"LF-AmazonTitles-mini", "renee", 12, 1, 0.6, 2.6, "one more row"},
                           {"LF-AmazonTitles-mini", "elmo", 12, 1, 0.6, 2.6, "one more row"}}) {
        Config given = config(c.data);
        given.like = c.like;
        const Evaluation e = evaluate(quiet(), "", given);
        EXPECT_EQ(e.propensity_a, c.a);
        EXPECT_EQ(e.propensity_b, c.b);
        EXPECT_EQ(e.propensity_rows, static_cast<std::int64_t>(c.rows));
        EXPECT_NE(e.propensity_counts.find(c.counts), std::string::npos) << e.propensity_counts;
        const double q0 = q(4 + c.more, c.rows, c.a, c.b), q2 = q(1 + c.more, c.rows, c.a, c.b),
                     q3 = q(0 + c.more, c.rows, c.a, c.b);
        EXPECT_NEAR(e.get("PSP@1"), 100 * (q0 + q3) / (q2 + q3), 1e-9) << c.data << " " << c.like;
        EXPECT_NEAR(e.get("PSP@2"), 100, 1e-9);
        // Row 0 finds its labels in the order 0 2, the best is 2 0.
        const double d = 1 / std::log2(3.0), ideal = 1 + d;
        EXPECT_NEAR(e.get("PSnDCG@2"), 100 * ((q0 + q2 * d) / ideal + q3) / ((q2 + q0 * d) / ideal + q3),
                    1e-9);
    }
    Config given = config("LF-AmazonTitles-mini");
    given.propensity_a = 0.5;
    given.propensity_b = 0.4;
    EXPECT_EQ(evaluate(quiet(), "", given).propensity_source, "given");
    given.propensity_b = -1;
    EXPECT_THROW(evaluate(quiet(), "", given), ConfigError);
}

TEST_F(HandCase, ThePapersCodeDoesNotFilterOtherSets) {
    Config given = config("mini");
    given.like = "elmo";
    const Evaluation e = evaluate(quiet(), "", given);
    EXPECT_DOUBLE_EQ(e.get("P@1"), 50);
    EXPECT_NE(e.filter.find("none"), std::string::npos);
}

TEST_F(HandCase, GroupsAddUpAndIntervalsHoldTheScore) {
    const Evaluation e = evaluate(quiet(), "", config("mini"));
    ASSERT_EQ(e.groups.size(), 3u);
    double sum = 0;
    for (const LabelGroup& group : e.groups) sum += group.scores[1].percent;
    EXPECT_EQ(e.groups[0].scores[1].name, "P@2");
    EXPECT_DOUBLE_EQ(sum, e.get("P@2"));
    EXPECT_EQ(e.bootstrap, 1000);
    for (const Score& score : e.scores) {
        EXPECT_LE(score.low, score.percent + 1e-9) << score.name;
        EXPECT_GE(score.high, score.percent - 1e-9) << score.name;
    }
    const Evaluation again = evaluate(quiet(), "", config("mini"));
    for (std::size_t i = 0; i < e.scores.size(); ++i) EXPECT_EQ(e.scores[i].low, again.scores[i].low);
}

TEST_F(HandCase, WithoutTrainingLabelsThereAreNoPropensities) {
    std::filesystem::remove(temp / "mini/trn_X_Y.txt");
    const Evaluation e = evaluate(quiet(), "", config("mini"));
    EXPECT_DOUBLE_EQ(e.get("P@1"), 100);
    EXPECT_THROW(e.get("PSP@1"), ConfigError);
    EXPECT_EQ(e.propensity_source, "");
    EXPECT_TRUE(e.groups.empty());
    EXPECT_NE(to_json(e).find("no training labels"), std::string::npos);
}

TEST_F(HandCase, ScoresAreKeptWithTheirProtocol) {
    Config given = config("mini");
    given.save_scores = temp / "kept.jsonl";
    evaluate(quiet(), "", given);
    given.like = "renee";
    evaluate(quiet(), "", given);
    std::istringstream lines(read_text(given.save_scores));
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto first = nlohmann::json::parse(line);
    EXPECT_EQ(first["P@1"], 100.0);
    EXPECT_EQ(first["intervals"]["P@1"].size(), 2u);
    EXPECT_EQ(first["groups"]["head"]["labels"], 1);
    const auto& protocol = first["protocol"];
    for (const char* key : {"elmo", "data", "split", "samples", "labels", "checkpoint", "k", "like",
                            "propensity_a", "propensity_b", "propensity_source", "propensity_counts",
                            "propensity_rows", "filter", "ties", "bootstrap", "confidence"})
        EXPECT_TRUE(protocol.contains(key)) << key;
    EXPECT_FALSE(first.contains("texts_per_second"));
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(nlohmann::json::parse(line)["protocol"]["like"], "renee");
}

// Row 0 is answered with 0 and 1, row 1 with 0.
TEST_F(HandCase, AnswersAtAThresholdByHand) {
    write_text(temp / "predictions.txt", "2 4\n0:0.9 1:0.6 2:0.2\n0:0.7 3:0.4\n");
    Config given = config("mini");
    given.filter = "none";
    EXPECT_FALSE(evaluate(quiet(), "", given).at_threshold);
    given.errors = 3;
    EXPECT_NE(message_of<ConfigError>([&] { evaluate(quiet(), "", given); }).find("--threshold"),
              std::string::npos);
    given.threshold = 0.5;
    given.per_label = temp / "labels.csv";
    given.save_scores = temp / "kept.jsonl";
    const Evaluation e = evaluate(quiet(), "", given);
    ASSERT_TRUE(e.at_threshold);
    const ThresholdScores& at = *e.at_threshold;
    EXPECT_EQ(at.answered, 3);
    EXPECT_EQ(at.right, 1);
    EXPECT_EQ(at.positives, 3);
    for (const double score : {at.micro.precision, at.micro.recall, at.micro.f1})
        EXPECT_DOUBLE_EQ(score, 100.0 / 3);
    EXPECT_DOUBLE_EQ(at.macro.precision, 12.5);
    EXPECT_DOUBLE_EQ(at.macro.recall, 25);
    EXPECT_DOUBLE_EQ(at.macro.f1, 100.0 / 6);
    EXPECT_DOUBLE_EQ(at.samples.f1, 25);
    ASSERT_EQ(e.worst_labels.size(), 2u);  // 2 and 3 are missed; 0 is always found
    EXPECT_EQ(e.worst_labels[0].name, "2");
    ASSERT_EQ(e.confusions.size(), 2u);
    EXPECT_EQ(e.confusions[0].expected + e.confusions[0].found, "21");
    EXPECT_EQ(e.confusions[1].expected + e.confusions[1].found, "30");
    ASSERT_EQ(e.wrong_texts.size(), 2u);
    EXPECT_EQ(e.wrong_texts[0].row, 2);  // nothing right
    EXPECT_EQ(e.wrong_texts[1].row, 1);
    EXPECT_EQ(e.wrong_texts[1].expected, (std::vector<std::string>{"0", "2"}));
    EXPECT_EQ(e.wrong_texts[1].found[1].name, "1");
    EXPECT_NEAR(e.wrong_texts[1].found[1].probability, 0.6, 1e-6);
    EXPECT_EQ(read_text(given.per_label),
              "label,name,positives,answered,right,precision,recall,F1\n"
              "0,0,1,2,1,50.0000,100.0000,66.6667\n1,1,0,1,0,0.0000,0.0000,0.0000\n"
              "2,2,1,0,0,0.0000,0.0000,0.0000\n3,3,1,0,0,0.0000,0.0000,0.0000\n");
    const auto json = nlohmann::json::parse(to_json(e));
    EXPECT_EQ(json["at_threshold"]["samples"]["F1"], 25.0);
    EXPECT_EQ(json["confusions"].size(), 2u);
    EXPECT_EQ(json["wrong_texts"][1]["found"][0]["name"], "0");
    const auto kept = nlohmann::json::parse(read_text(given.save_scores));
    EXPECT_TRUE(kept.contains("at_threshold"));
    EXPECT_FALSE(kept.contains("wrong_texts"));  // a report, no score
}

// A run of one plain file, whose test rows are a share of it.
class PlainRun : public ::testing::Test {
  protected:
    static std::string rows(int first, int count) {
        std::string text;
        for (int i = first; i < first + count; ++i)
            text += fmt::format("a {} thing {}\tkind of {}\n", word_of(i % 10), i, word_of(i % 10));
        return text;
    }
    Config train_run(const std::string& name, int steps) {
        Config config = tiny_config(temp);
        config.data = temp / "plain.tsv";
        config.out = temp / name;
        config.test_share = 0.2;
        config.steps = steps;
        train(quiet(), config);
        return config;
    }
    void SetUp() override { write_text(temp / "plain.tsv", rows(0, 120)); }
    Evaluation score(const std::string& data, const std::string& split = "auto") {
        Config config;
        config.data = temp / data;
        config.cache = temp / "cache";
        config.threads = 1;
        config.split = split;
        return evaluate(quiet(), temp / "run", config);
    }
    TempFolder temp;
};

TEST_F(PlainRun, OtherDataIsScoredWhole) {
    train_run("run", 60);
    write_text(temp / "new.tsv", rows(500, 33));
    const Evaluation other = score("new.tsv");
    EXPECT_EQ(other.num_samples, 33);
    EXPECT_EQ(other.split, "all");
    EXPECT_NE(other.split_reason.find("not the run's own"), std::string::npos) << other.split_reason;
    EXPECT_EQ(score("new.tsv", "all").num_samples, 33);
    const Evaluation own = score("plain.tsv");
    EXPECT_EQ(own.split, "test");
    EXPECT_LT(own.num_samples, 60);
    EXPECT_NE(own.split_reason.find("run's own"), std::string::npos) << own.split_reason;
    EXPECT_EQ(score("plain.tsv", "all").num_samples, 120);
    // A copy holds the training rows too.
    write_text(temp / "copy.tsv", rows(0, 120));
    EXPECT_EQ(score("copy.tsv").num_samples, own.num_samples);
    // A test file is what is meant to be scored; alone it is scored whole.
    write_text(temp / "more_train.tsv", rows(600, 20));
    write_text(temp / "more_test.tsv", rows(700, 7));
    EXPECT_EQ(score("more_train.tsv").num_samples, 7);
    EXPECT_EQ(score("more_test.tsv").num_samples, 7);
    EXPECT_EQ(score("more_test.tsv").split, "all");
    EXPECT_EQ(score("more_train.tsv", "all").num_samples, 27);
    // The run's data is gone: data of its name is taken for it.
    std::filesystem::create_directories(temp / "moved");
    std::filesystem::rename(temp / "plain.tsv", temp / "moved/plain.tsv");
    EXPECT_EQ(score("moved/plain.tsv").num_samples, own.num_samples);
}

TEST_F(PlainRun, MistakesShowTheTexts) {
    train_run("run", 2);
    Config config;
    config.data = temp / "new.tsv";
    write_text(temp / "new.tsv", rows(500, 33));
    config.cache = temp / "cache";
    config.threads = 1;
    config.threshold = 0.9999;
    config.probabilities = "raw";
    config.errors = 4;
    const Evaluation e = evaluate(quiet(), temp / "run", config);
    ASSERT_EQ(e.wrong_texts.size(), 4u);
    for (const WrongText& wrong : e.wrong_texts) {
        EXPECT_EQ(wrong.text, fmt::format("a {} thing {}", word_of((499 + wrong.row) % 10), 499 + wrong.row));
        EXPECT_EQ(wrong.expected, std::vector<std::string>{"kind of " + word_of((499 + wrong.row) % 10)});
    }
}

TEST_F(PlainRun, TwoRunsAreComparedOnTheSameRows) {
    train_run("run", 3);
    train_run("better", 120);
    Config config;
    config.cache = temp / "cache";
    config.threads = 1;
    const Comparison c = compare(quiet(), temp / "run", temp / "better", config);
    EXPECT_EQ(c.first.num_samples, c.second.num_samples);
    EXPECT_EQ(c.first.split, "test");
    ASSERT_EQ(c.differences.size(), c.first.scores.size());
    const ScoreDifference& p1 = c.differences[0];
    EXPECT_EQ(p1.name, "P@1");
    EXPECT_DOUBLE_EQ(p1.percent, c.second.get("P@1") - c.first.get("P@1"));
    EXPECT_GT(p1.percent, 0);
    EXPECT_LE(p1.low, p1.percent);
    EXPECT_GE(p1.high, p1.percent);
    // A run does not differ from itself, whatever the texts are.
    for (const ScoreDifference& d : compare(quiet(), temp / "run", temp / "run", config).differences) {
        EXPECT_EQ(d.percent, 0);
        EXPECT_EQ(d.low, 0);
        EXPECT_EQ(d.high, 0);
    }
    const auto json = nlohmann::json::parse(to_json(c));
    EXPECT_EQ(json["difference"]["P@1"], p1.percent);
    EXPECT_EQ(json["difference_intervals"]["P@1"].size(), 2u);
    config.errors = 3;
    EXPECT_NE(message_of<ConfigError>([&] {
                  compare(quiet(), temp / "run", temp / "better", config);
              }).find("errors"),
              std::string::npos);
}

TEST_F(HandCase, ARunKeepsItsScores) {
    write_tiny_data(temp / "data");
    Config run = tiny_config(temp);
    run.steps = 5;
    std::atomic<bool> stop{false};
    train(quiet().with_stop(stop), run);
    evaluate(quiet(), run.out, run);
    evaluate(quiet(), run.out + "/best", run);  // a checkpoint's folder is not written into
    const std::string kept = read_text(run.out + "/scores.jsonl");
    EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 2);
    EXPECT_NE(kept.find("(step 5, manifest xxh64 "), std::string::npos) << kept;
    run.save_scores = "none";
    evaluate(quiet(), run.out, run);
    EXPECT_EQ(read_text(run.out + "/scores.jsonl"), kept);
    run.overwrite = true;  // scores belong to the run
    train(quiet().with_stop(stop), run);
    EXPECT_FALSE(std::filesystem::exists(run.out + "/scores.jsonl"));
}

TEST(DataSetName, IsTheFoldersOrTheFiles) {
    EXPECT_EQ(data_set_name("."), std::filesystem::current_path().filename());
    EXPECT_EQ(data_set_name("./"), std::filesystem::current_path().filename());
    EXPECT_EQ(data_set_name(".."), std::filesystem::current_path().parent_path().filename());
    EXPECT_EQ(data_set_name("data/LF-AmazonTitles-1.3M/"), "LF-AmazonTitles-1.3M");
    EXPECT_EQ(data_set_name("data/LF-AmazonTitles-1.3M"), "LF-AmazonTitles-1.3M");
    TempFolder temp;
    write_text(temp / "tickets.csv.gz", "");
    EXPECT_EQ(data_set_name(temp / "tickets.csv.gz"), "tickets");
}

}  // namespace
}  // namespace elmo
