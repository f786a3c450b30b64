// elmo data inspect: counts that can be made by hand.
#include <gtest/gtest.h>

#include "elmo/data.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

Config small(const TempFolder& temp, const std::string& name) {
    Config config;
    config.data = temp / name;
    config.cache = temp / "cache";
    config.vocab_size = 100;
    config.threads = 1;
    return config;
}

TEST(DataReport, CountsByHand) {
    TempFolder temp;
    write_text(temp / "set/trn_X.txt", "one two\nthree\none two\n\n");
    write_text(temp / "set/trn_X_Y.txt", "4 5\n0:1 1:1 2:1\n\n0:1\n0:1\n");
    write_text(temp / "set/tst_X.txt", "three\nsix\n");
    write_text(temp / "set/tst_X_Y.txt", "2 5\n0:1\n3:1 4:1\n");
    write_text(temp / "set/Y.txt", "a\nb\na\n\nc\n");
    const DataReport report = report_data(quiet(), small(temp, "set"));
    ASSERT_EQ(report.splits.size(), 2u);
    const SplitReport &train = report.splits[0], &test = report.splits[1];
    EXPECT_EQ(train.rows, 4);
    EXPECT_EQ(train.rows_without_labels, 1);
    EXPECT_EQ(train.labels_per_row.most, 3);
    EXPECT_DOUBLE_EQ(train.labels_per_row.mean, 5.0 / 4);
    EXPECT_EQ(train.repeated_texts, 1);
    EXPECT_EQ(train.empty_texts, 1);
    EXPECT_EQ(test.texts_in_train, 1);
    EXPECT_EQ(report.labels, 5);
    EXPECT_EQ(report.repeated_names, 1);
    EXPECT_EQ(report.empty_names, 1);
    EXPECT_EQ(report.labels_unseen_in_train, 2);
    const std::vector<LabelsByRows> bins = {{"0", 2}, {"1", 2}, {"2", 0}, {"3-4", 1}};
    EXPECT_EQ(report.histogram, bins);
    EXPECT_EQ(report.steps_per_epoch, 1);
    EXPECT_EQ(report.steps_with_label_texts, 1);
    EXPECT_GT(report.plan_bytes, 0);
    EXPECT_TRUE(report.trouble.empty());
}

TEST(DataReport, TroubleIsCountedAndNamed) {
    TempFolder temp;
    write_text(temp / "a.tsv", "caf\xe9 one\ta\nplain\tb,b\nna\xefve\tc\n");
    Config config = small(temp, "a.tsv");
    config.test_share = 0;
    const DataReport report = report_data(quiet(), config);
    ASSERT_EQ(report.trouble.size(), 1u);
    EXPECT_NE(report.trouble[0].find("a.tsv:1: expected UTF-8"), std::string::npos) << report.trouble[0];
    EXPECT_EQ(report.splits[0].not_utf8, 2);
    EXPECT_EQ(report.splits[0].like_latin1, 2);
    EXPECT_NE(report.splits[0].first_not_utf8.find("a.tsv:1"), std::string::npos);
    EXPECT_EQ(report.merged_labels, 1);
}

}  // namespace
}  // namespace elmo
