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
    EXPECT_EQ(data_set_name("data/LF-AmazonTitles-1.3M/"), "LF-AmazonTitles-1.3M");
    EXPECT_EQ(data_set_name("data/LF-AmazonTitles-1.3M"), "LF-AmazonTitles-1.3M");
    TempFolder temp;
    write_text(temp / "tickets.csv.gz", "");
    EXPECT_EQ(data_set_name(temp / "tickets.csv.gz"), "tickets");
}

}  // namespace
}  // namespace elmo
