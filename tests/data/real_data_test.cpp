// Real data sets, where they are at hand.
#include <gtest/gtest.h>

#include <chrono>

#include "data/test_folder.h"
#include "data/token_import.h"
#include "datasets/wordnet.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using testing_data::shared_data;

class RealData : public testing_data::TestFolder {
  protected:
    Config of(const fs::path& data) const {
        Config result;
        result.data = data.string();
        result.cache = (folder_ / "cache").string();
        return result;
    }
};

TEST_F(RealData, TateSubjects) {
    const auto path = shared_data("tate-subjects");
    if (path.empty()) GTEST_SKIP() << "tate-subjects is not here";
    DataSummary summary;
    const auto tokenizer = testing_data::small_tokenizer();
    const Dataset data = Dataset::open(quiet(), of(path), *tokenizer, &summary);
    EXPECT_EQ(summary.train_rows, 35922);
    EXPECT_EQ(summary.test_rows, 8970);
    EXPECT_EQ(summary.labels, 14298);
    EXPECT_NEAR(summary.labels_per_row, 6.57, 0.005);
    EXPECT_NEAR(summary.rows_per_label, 16.50, 0.005);
    EXPECT_EQ(std::count(data.label_counts().begin(), data.label_counts().end(), 1), 7537);
    EXPECT_EQ(summary.labels_unseen_in_train, 0);
    EXPECT_EQ(data.label_name(0), "Vale of Pickering");
    EXPECT_EQ(testing_data::row(data.train().labels, 0),
              (std::vector<std::uint32_t>{5426, 7814, 10805, 11988}));
    EXPECT_FALSE(summary.cache_reused);
    Dataset::open(quiet(), of(path), *tokenizer, &summary);
    EXPECT_TRUE(summary.cache_reused);
    RecordProperty("import_seconds", std::to_string(summary.import_seconds));
}

TEST_F(RealData, WordnetRelated) {
    const auto path = shared_data("wordnet-related");
    if (path.empty()) GTEST_SKIP() << "wordnet-related is not here";
    DataSummary summary;
    const Dataset data = Dataset::open_labels(quiet(), of(path), &summary);
    EXPECT_EQ(summary.train_rows, 93311);
    EXPECT_EQ(summary.test_rows, 23060);
    EXPECT_EQ(summary.labels, 103827);
    EXPECT_GT(summary.train_filter_pairs, 0);
    EXPECT_GT(summary.test_filter_pairs, 0);
    EXPECT_EQ(testing_data::row(data.test().filter, 2), std::vector<std::uint32_t>{89});
}

TEST_F(RealData, AmazonTitlesHasLabelsOnly) {
    const auto path = shared_data("lf-amazontitles-131k-labels");
    if (path.empty()) GTEST_SKIP() << "lf-amazontitles-131k-labels is not here";
    DataSummary summary;
    const Dataset data = Dataset::open_labels(quiet(), of(path), &summary);
    EXPECT_FALSE(data.train().present);
    EXPECT_TRUE(data.label_counts().empty());
    EXPECT_EQ(data.test().rows(), 134835);
    EXPECT_EQ(data.num_labels(), 131073);
    EXPECT_FALSE(data.has_label_names());
    EXPECT_EQ(data.label_name(5), "");
    EXPECT_EQ(testing_data::row(data.test().filter, 0), (std::vector<std::uint32_t>{54982, 90562}));
    EXPECT_THROW(SplitTexts(quiet(), of(path)), DataError);
}

TEST_F(RealData, BagOfWordsSets) {
    const auto path = shared_data("xmlrepo-bow");
    if (path.empty()) GTEST_SKIP() << "xmlrepo-bow is not here";
    struct Set {
        const char* name;
        std::int64_t train, test, labels, features;
    };
    for (const Set& set : {Set{"bibtex", 4880, 2515, 159, 1836}, Set{"delicious", 12920, 3185, 983, 500},
                           Set{"enron", 1123, 579, 53, 1001}, Set{"yeast", 1500, 917, 14, 104}}) {
        DataSummary summary;
        const Config options = of(path / (std::string(set.name) + "_train.txt"));
        const Dataset data = Dataset::open(quiet(), options, *number_tokenizer(set.features), &summary);
        EXPECT_EQ(summary.train_rows, set.train) << set.name;
        EXPECT_EQ(summary.test_rows, set.test) << set.name;
        EXPECT_EQ(summary.labels, set.labels) << set.name;
        EXPECT_EQ(data.train().tokens.rows(), set.train) << set.name;
    }
    const Dataset data = Dataset::open_labels(quiet(), of(path / "bibtex_train.txt"));
    EXPECT_EQ(testing_data::row(data.train().labels, 0), (std::vector<std::uint32_t>{3, 23, 61, 63, 76}));
}

TEST_F(RealData, WordnetHypernyms) {
    const fs::path dict = "/usr/share/wordnet";
    if (!fs::exists(dict / "data.noun")) GTEST_SKIP() << "Debian's wordnet-base is not installed";
    const DataSummary made = write_wordnet(quiet(), dict, folder_ / "out");
    EXPECT_NEAR(static_cast<double>(made.train_rows), 76000, 1000);
    EXPECT_NEAR(static_cast<double>(made.labels), 19000, 1000);
    DataSummary summary;
    const Dataset data = Dataset::open_labels(quiet(), config("out"), &summary);
    EXPECT_EQ(summary.train_rows, made.train_rows);
    EXPECT_EQ(summary.test_rows, made.test_rows);
    EXPECT_EQ(summary.labels, made.labels);
    EXPECT_EQ(summary.rows_without_labels, 0);
    EXPECT_EQ(summary.labels_unseen_in_train, 0);
    EXPECT_DOUBLE_EQ(summary.labels_per_row, made.labels_per_row);
    for (const std::int64_t count : data.label_counts()) {
        EXPECT_GT(count, 0);
        EXPECT_LT(count,
                  0.05 * static_cast<double>(made.train_rows + made.test_rows + made.rows_without_labels));
    }
    EXPECT_THROW(write_wordnet(quiet(), dict, folder_ / "out"), ConfigError);
    WordnetOptions again;
    again.overwrite = true;
    EXPECT_EQ(write_wordnet(quiet(), dict, folder_ / "out", again).train_rows, made.train_rows);
}

}  // namespace
}  // namespace elmo
