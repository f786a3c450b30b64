// Label texts as training rows: what they hold, what they do not change.
#include "data/augment.h"

#include <set>

#include "batches/batcher.h"
#include "config/views.h"
#include "data/test_folder.h"
#include "quiet.h"

namespace elmo {
namespace {

using namespace testing_data;

class AugmentTest : public TestFolder {
  protected:
    void SetUp() override {
        TestFolder::SetUp();
        write("trn_X.txt", "the fox\nthe dog\nover the dog\n");
        write("trn_X_Y.txt", "3 4\n0:1 3:1\n1:1\n1:1 3:1\n");
        write("Y.txt", "fox\nlazy dog\n\nbrown\n");
    }
    const std::unique_ptr<Tokenizer> tokenizer_ = small_tokenizer();
};

TEST_F(AugmentTest, EveryLabelWithATextIsARowOfItself) {
    Config labels = config();
    labels.augment = "labels";
    for (int time = 0; time < 2; ++time) {  // made, then from the cache
        const Dataset dataset = Dataset::open(quiet(), labels, *tokenizer_, nullptr, {SplitName::kTrain});
        const Augmentation extra = Augmentation::open(quiet(), labels, dataset, *tokenizer_);
        ASSERT_EQ(extra.rows().rows(), 3) << "label 2 has no text";
        EXPECT_EQ(row(extra.rows().labels, 0), (std::vector<std::uint32_t>{0}));
        EXPECT_EQ(row(extra.rows().labels, 1), (std::vector<std::uint32_t>{1}));
        EXPECT_EQ(row(extra.rows().labels, 2), (std::vector<std::uint32_t>{3}));
        std::vector<std::int32_t> ids;
        tokenizer_->encode("lazy dog", ReadOptions(labels).max_length, ids);
        const auto tokens = extra.rows().tokens.row(1);
        EXPECT_EQ(std::vector<std::int32_t>(tokens.begin(), tokens.end()), ids);
        // Propensities count the data set's own rows.
        const auto counts = dataset.label_counts();
        EXPECT_EQ(std::vector<std::int64_t>(counts.begin(), counts.end()),
                  (std::vector<std::int64_t>{1, 2, 0, 2}));
    }
}

TEST_F(AugmentTest, ChangedNamesMakeOtherRows) {
    Config labels = config();
    labels.augment = "labels";
    Augmentation::open(quiet(), labels, Dataset::open(quiet(), labels, *tokenizer_), *tokenizer_);
    write("Y.txt", "fox\nlazy dog\nquick\nbrown\n");
    const Augmentation extra =
        Augmentation::open(quiet(), labels, Dataset::open(quiet(), labels, *tokenizer_), *tokenizer_);
    EXPECT_EQ(extra.rows().rows(), 4);
}

TEST_F(AugmentTest, LongTextsAreCutAndCounted) {
    Config labels = config();
    labels.augment = "labels";
    labels.max_length = 3;
    const Dataset dataset = Dataset::open(quiet(), labels, *tokenizer_);
    const Augmentation extra = Augmentation::open(quiet(), labels, dataset, *tokenizer_);
    EXPECT_GE(extra.cut_rows(), 1);
    for (std::int64_t i = 0; i < extra.rows().rows(); ++i) EXPECT_LE(extra.rows().tokens.length(i), 3);
}

TEST_F(AugmentTest, NoneMakesNoRowsAndNoNamesAreAnError) {
    const Dataset dataset = Dataset::open(quiet(), config(), *tokenizer_);
    EXPECT_FALSE(Augmentation::open(quiet(), config(), dataset, *tokenizer_).rows().present);
    std::filesystem::remove(folder_ / "Y.txt");
    Config labels = config();
    labels.augment = "labels";
    EXPECT_TRUE(contains(message([&] {
                             Augmentation::open(quiet(), labels, Dataset::open(quiet(), labels, *tokenizer_),
                                                *tokenizer_);
                         }),
                         "expected label texts"));
}

TEST_F(AugmentTest, BatchesHoldTheRowsOfBoth) {
    Config labels = config();
    labels.augment = "labels";
    const Dataset dataset = Dataset::open(quiet(), labels, *tokenizer_);
    const Augmentation extra = Augmentation::open(quiet(), labels, dataset, *tokenizer_);
    BatchPlan plan(dataset.train(), {0, 2}, 2, 7);  // row 1 validates
    plan.append(extra.rows());
    ASSERT_EQ(plan.num_rows(), 5);
    const BatchLimits limits = plan.limits(quiet(), 0, plan.steps_per_epoch());
    std::set<std::int64_t> seen;
    Batch batch;
    std::int64_t most = 0;
    for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
        plan.fill(step, batch);
        most = std::max<std::int64_t>(most, batch.tokens.size());
        for (std::int64_t i = 0; i < batch.size(); ++i) {
            const std::int64_t number = batch.rows[i];
            seen.insert(number);
            const Split& from = number < 3 ? dataset.train() : extra.rows();
            const auto expected = from.labels.row(number < 3 ? number : number - 3);
            const auto tokens = from.tokens.row(number < 3 ? number : number - 3);
            EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                                   batch.labels.begin() + batch.label_offsets[i],
                                   batch.labels.begin() + batch.label_offsets[i + 1]));
            EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), batch.tokens.begin() + batch.offsets[i],
                                   batch.tokens.begin() + batch.offsets[i + 1]));
        }
    }
    EXPECT_EQ(seen, (std::set<std::int64_t>{0, 2, 3, 4, 5}));
    EXPECT_EQ(limits.tokens, most);
}

TEST_F(AugmentTest, SoftTargetsAreSharesOfTheLabelsRows) {
    // Label 3 is in rows 0 and 2, once beside 0 and once beside 1; label 1 in rows 1 and 2, once beside 3.
    Config soft = config();
    soft.augment = "cooccurrence";
    const Dataset dataset = Dataset::open(quiet(), soft, *tokenizer_);
    for (int time = 0; time < 2; ++time) {
        const Augmentation extra = Augmentation::open(quiet(), soft, dataset, *tokenizer_);
        ASSERT_EQ(extra.rows().rows(), 3);
        EXPECT_EQ(row(extra.rows().labels, 0), (std::vector<std::uint32_t>{0, 3}));
        EXPECT_EQ(row(extra.rows().labels, 1), (std::vector<std::uint32_t>{1, 3}));
        EXPECT_EQ(row(extra.rows().labels, 2), (std::vector<std::uint32_t>{0, 1, 3}));
        const auto targets = extra.rows().label_targets;
        EXPECT_EQ(std::vector<float>(targets.begin(), targets.end()),
                  (std::vector<float>{1, 1, 1, 0.5f, 0.5f, 0.5f, 1}));
    }
    soft.augment_threshold = 0.6;
    const Augmentation fewer = Augmentation::open(quiet(), soft, dataset, *tokenizer_);
    EXPECT_EQ(row(fewer.rows().labels, 2), (std::vector<std::uint32_t>{3}));
}

TEST_F(AugmentTest, SoftTargetsArePositivesInTheirShareOfTheSteps) {
    Config soft = config();
    soft.augment = "cooccurrence";
    const Dataset dataset = Dataset::open(quiet(), soft, *tokenizer_);
    const Augmentation extra = Augmentation::open(quiet(), soft, dataset, *tokenizer_);
    BatchPlan plan(dataset.train(), {0, 1, 2}, 6, 7);
    plan.append(extra.rows());
    const BatchLimits limits = plan.limits(quiet(), 0, 4000);
    Batch batch, again;
    std::int64_t half = 0, own = 0;
    for (std::int64_t step = 0; step < 4000; ++step) {
        plan.fill(step, batch);
        EXPECT_LE(static_cast<std::int64_t>(batch.labels.size()), limits.positives);
        for (std::int64_t i = 0; i < batch.size(); ++i) {
            if (batch.rows[i] != 4) continue;  // the text of label 1
            for (std::int64_t p = batch.label_offsets[i]; p < batch.label_offsets[i + 1]; ++p)
                ++(batch.labels[p] == 1 ? own : half);
        }
        plan.fill(step, again);
        EXPECT_EQ(batch.labels, again.labels) << "a step is always the same";
    }
    EXPECT_EQ(own, 4000);
    // Binomial(4000, 1/2): standard deviation 31.6; six of them.
    EXPECT_NEAR(static_cast<double>(half), 2000, 190);
}

}  // namespace
}  // namespace elmo
