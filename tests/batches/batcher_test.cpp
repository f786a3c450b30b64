// Batches: content, order, limits, sorted positives, prefetching.
#include "batches/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "data/dataset.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

// `rows` rows; row i has i % 5 tokens and i % 3 labels, all recognisable.
struct Rows {
    std::vector<std::int64_t> token_offsets = {0}, label_offsets = {0};
    std::vector<std::int32_t> tokens;
    std::vector<std::uint32_t> labels;
    Split split;

    explicit Rows(std::int64_t rows) {
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t t = 0; t < i % 5; ++t) tokens.push_back(static_cast<std::int32_t>(10 * i + t));
            for (std::int64_t p = 0; p < i % 3; ++p)
                labels.push_back(static_cast<std::uint32_t>((7 * i + p) % 50));
            std::sort(labels.begin() + label_offsets.back(), labels.end());
            token_offsets.push_back(static_cast<std::int64_t>(tokens.size()));
            label_offsets.push_back(static_cast<std::int64_t>(labels.size()));
        }
        split.present = true;
        split.tokens = {token_offsets, tokens};
        split.labels = {label_offsets, labels};
    }
};

template <class A, class B>
void expect_equal(const A& a, const B& b) {
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

void expect_rows(const Batch& batch, const Split& split) {
    ASSERT_EQ(batch.offsets.size(), batch.rows.size() + 1);
    ASSERT_EQ(batch.label_offsets.size(), batch.rows.size() + 1);
    EXPECT_EQ(batch.offsets.back(), static_cast<std::int64_t>(batch.tokens.size()));
    EXPECT_EQ(batch.label_offsets.back(), static_cast<std::int64_t>(batch.labels.size()));
    for (std::int64_t i = 0; i < batch.size(); ++i) {
        expect_equal(
            std::span(batch.tokens).subspan(batch.offsets[i], batch.offsets[i + 1] - batch.offsets[i]),
            split.tokens.row(batch.rows[i]));
        expect_equal(
            std::span(batch.labels)
                .subspan(batch.label_offsets[i], batch.label_offsets[i + 1] - batch.label_offsets[i]),
            split.labels.row(batch.rows[i]));
    }
}

TEST(Batcher, EveryEpochHasEveryRowOnceInItsOwnOrder) {
    const Rows data(23);
    const BatchPlan plan(data.split, all_rows(23), 4, 42);
    EXPECT_EQ(plan.steps_per_epoch(), 6);
    std::vector<std::vector<std::int64_t>> orders;
    Batch batch;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < 6; ++i) {
            plan.fill(epoch * 6 + i, batch);
            EXPECT_EQ(batch.size(), i < 5 ? 4 : 3);
            EXPECT_EQ(batch.step, epoch * 6 + i);
            expect_rows(batch, data.split);
            order.insert(order.end(), batch.rows.begin(), batch.rows.end());
        }
        EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 23u);
        orders.push_back(order);
    }
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[2]);
}

TEST(Batcher, SequentialKeepsTheGivenRows) {
    const Rows data(10);
    const BatchPlan plan(data.split, {9, 2, 2, 0}, 3);
    Batch batch;
    plan.fill(0, batch);
    EXPECT_EQ(batch.rows, (std::vector<std::int64_t>{9, 2, 2}));
    plan.fill(1, batch);
    EXPECT_EQ(batch.rows, std::vector<std::int64_t>{0});
    expect_rows(batch, data.split);
}

TEST(Batcher, LimitsAreThoseOfTheBatches) {
    const Rows data(531);
    for (const bool shuffle : {false, true}) {
        const BatchPlan plan =
            shuffle ? BatchPlan(data.split, all_rows(531), 7, 3) : BatchPlan(data.split, all_rows(531), 7);
        BatchLimits expected;
        Batch batch;
        for (std::int64_t step = 5; step < 300; ++step) {
            plan.fill(step, batch);
            expected.tokens = std::max<std::int64_t>(expected.tokens, batch.tokens.size());
            expected.positives = std::max<std::int64_t>(expected.positives, batch.labels.size());
            for (std::int64_t i = 0; i < batch.size(); ++i)
                expected.longest_row =
                    std::max<std::int64_t>(expected.longest_row, batch.offsets[i + 1] - batch.offsets[i]);
        }
        const BatchLimits found = plan.limits(quiet(), 5, 300);
        EXPECT_EQ(found.tokens, expected.tokens);
        EXPECT_EQ(found.positives, expected.positives);
        EXPECT_EQ(found.longest_row, expected.longest_row);
        EXPECT_EQ(plan.limits(quiet(), 5, 5).tokens, 0);
    }
}

// As long as no step is walked: this many would take days.
TEST(Batcher, LimitsOfEndlessRunsHoldForEveryBatch) {
    const Rows data(531);
    const BatchPlan plan(data.split, all_rows(531), 7, 3);
    constexpr std::int64_t kEndless = std::int64_t{1} << 50;
    std::vector<std::int64_t> tokens, labels;
    for (std::int64_t row = 0; row < 531; ++row) {
        tokens.push_back(data.split.tokens.length(row));
        labels.push_back(data.split.labels.length(row));
    }
    const auto seven_largest = [](std::vector<std::int64_t> all) {
        std::ranges::sort(all, std::greater<>());
        return std::accumulate(all.begin(), all.begin() + 7, std::int64_t{0});
    };
    const BatchLimits any = plan.limits(quiet(), 0, kEndless);
    EXPECT_EQ(any.tokens, seven_largest(tokens));
    EXPECT_EQ(any.positives, seven_largest(labels));
    EXPECT_EQ(any.longest_row, std::ranges::max(tokens));
    for (const std::int64_t shards : {1, 2, 3, 8}) {
        RankShare share;
        share.shards = shards;
        const BatchLimits most = plan.limits(quiet(), 0, kEndless, share);
        const BatchLimits exact = plan.limits(quiet(), 0, 3000, share);
        EXPECT_GE(most.tokens, exact.tokens);
        EXPECT_GE(most.positives, exact.positives);
        EXPECT_GE(most.shard_tokens, exact.shard_tokens);
        EXPECT_GE(most.shard_texts, exact.shard_texts);
        EXPECT_GE(most.rank_texts, exact.rank_texts);
        EXPECT_LE(most.shard_tokens, any.tokens / shards + any.longest_row);
    }
}

TEST(Batcher, PositivesAreSortedByLabelThenSample) {
    const Rows data(200);
    const BatchPlan plan(data.split, all_rows(200), 150, 1);
    Batch batch;
    plan.fill(0, batch);
    fill_positives(batch, [](std::int64_t label) { return label; });
    const Positives positives = batch.positives;
    ASSERT_EQ(positives.rows.size(), batch.labels.size());
    std::set<std::pair<std::uint32_t, std::int32_t>> expected;
    for (std::int32_t i = 0; i < batch.size(); ++i)
        for (auto p = batch.label_offsets[i]; p < batch.label_offsets[i + 1]; ++p)
            expected.emplace(batch.labels[p], i);
    std::size_t at = 0;
    for (const auto& [label, sample] : expected) {
        EXPECT_EQ(positives.rows[at], label);
        EXPECT_EQ(positives.samples[at], sample);
        ++at;
    }
    EXPECT_EQ(at, positives.rows.size());
    const Positives part = positives.of_rows(10, 20);
    const auto in_part = [](std::int64_t row) { return row >= 10 && row < 20; };
    EXPECT_EQ(part.size(), std::count_if(positives.rows.begin(), positives.rows.end(), in_part));
    EXPECT_TRUE(std::all_of(part.rows.begin(), part.rows.end(), in_part));
    EXPECT_EQ(part.samples.size(), part.rows.size());
}

// A head of some labels under numbers of its own; two labels of one row are one positive.
TEST(Batcher, AReaderGivesThePositivesOfTheHeadThatIsTrained) {
    const Rows data(200);
    const BatchPlan plan(data.split, all_rows(200), 64, 1);
    const auto row_of = [](std::int64_t label) { return label < 8 ? (7 - label) / 2 : -1; };
    BatchReader reader(plan, 0, 6, row_of), plain(plan, 0, 6);
    std::int64_t found = 0;
    while (const Batch* batch = reader.next()) {
        std::set<std::pair<std::int64_t, std::int32_t>> expected;
        for (std::int32_t i = 0; i < batch->size(); ++i)
            for (auto p = batch->label_offsets[i]; p < batch->label_offsets[i + 1]; ++p)
                if (batch->labels[p] < 8) expected.emplace(row_of(batch->labels[p]), i);
        const Positives positives = batch->positives;
        ASSERT_EQ(positives.rows.size(), expected.size());
        std::size_t at = 0;
        for (const auto& [row, sample] : expected) {
            EXPECT_EQ(positives.rows[at], row);
            EXPECT_EQ(positives.samples[at++], sample);
        }
        found += positives.size();
        EXPECT_EQ(plain.next()->positives.size(), 0);
    }
    EXPECT_GT(found, 0);
}

TEST(Batcher, ABatchWithoutLabelsAndARowWithoutTokens) {
    const Rows data(16);
    const BatchPlan plan(data.split, {0, 15}, 2);  // neither has labels or tokens
    Batch batch;
    plan.fill(0, batch);
    EXPECT_EQ(batch.size(), 2);
    EXPECT_TRUE(batch.tokens.empty());
    batch.positives.push_back(1, 0);
    fill_positives(batch, [](std::int64_t label) { return label; });
    EXPECT_EQ(batch.positives.size(), 0);
    EXPECT_EQ(Positives(batch.positives).of_rows(0, 100).size(), 0);
}

TEST(Batcher, RefusesNothingToDo) {
    const Rows data(3);
    EXPECT_THROW(BatchPlan(data.split, {}, 4), ConfigError);
    EXPECT_THROW(BatchPlan(data.split, all_rows(3), 0), ConfigError);
}

TEST(BatchReader, HandsOutWhatFillGives) {
    const Rows data(57);
    const BatchPlan plan(data.split, all_rows(57), 5, 9);
    for (const std::int64_t first : {0, 3}) {
        BatchReader reader(plan, first, 40);
        std::int64_t step = first;
        Batch expected;
        while (const Batch* batch = reader.next()) {
            plan.fill(step, expected);
            EXPECT_EQ(batch->step, step);
            EXPECT_EQ(batch->rows, expected.rows);
            EXPECT_EQ(batch->tokens, expected.tokens);
            EXPECT_EQ(batch->labels, expected.labels);
            ++step;
        }
        EXPECT_EQ(step, 40);
        EXPECT_EQ(reader.next(), nullptr);
    }
    BatchReader left_early(plan, 0, 1000);
    left_early.next();
}

TEST(Validation, AShareIsAFunctionOfSeedAndRow) {
    Config config;
    config.validation = "0.1";
    config.equal_texts = "apart";
    const RowLists all = split_validation(config, 20000, {}), fewer = split_validation(config, 15000, {});
    EXPECT_EQ(all.train.size() + all.validation.size(), 20000u);
    // Binomial(20000, 0.1): mean 2000, standard deviation 42.4; six of them.
    EXPECT_NEAR(static_cast<double>(all.validation.size()), 2000, 255);
    EXPECT_TRUE(std::is_sorted(all.validation.begin(), all.validation.end()));
    EXPECT_TRUE(std::equal(fewer.validation.begin(), fewer.validation.end(), all.validation.begin()));
    config.seed = 43;
    EXPECT_NE(split_validation(config, 20000, {}).validation, all.validation);
    config.validation = "0";
    EXPECT_TRUE(split_validation(config, 100, {}).validation.empty());
    EXPECT_THROW(split_validation(config, 0, {}), ConfigError);
    config.validation = "no such file";
    EXPECT_THROW(split_validation(config, 100, {}), ConfigError);
}

// Texts of one token each. Half of the 2000 rows repeat the text of another one.
TEST(Validation, EqualTextsAreOnOneSide) {
    Config config;
    config.validation = "0.1";
    std::vector<std::int64_t> offsets(2001);
    std::iota(offsets.begin(), offsets.end(), std::int64_t{0});
    std::vector<std::int32_t> tokens(2000);
    for (int row = 0; row < 2000; ++row) tokens[static_cast<std::size_t>(row)] = row % 1000;
    const RowLists lists = split_validation(config, 2000, {offsets, tokens});
    std::set<std::int64_t> texts;
    for (const std::int64_t row : lists.train) texts.insert(row % 1000);
    for (const std::int64_t row : lists.validation) EXPECT_FALSE(texts.contains(row % 1000)) << row;
    EXPECT_FALSE(lists.validation.empty());
    EXPECT_TRUE(std::is_sorted(lists.validation.begin(), lists.validation.end()));

    // Where no text is repeated, the rows are those of earlier versions; texts without a token have no equal.
    std::iota(tokens.begin(), tokens.end(), 0);
    const std::vector<std::int64_t> no_tokens(2001);
    config.equal_texts = "apart";
    const RowLists one_by_one = split_validation(config, 2000, {});
    config.equal_texts = "together";
    EXPECT_EQ(split_validation(config, 2000, {offsets, tokens}).validation, one_by_one.validation);
    EXPECT_EQ(split_validation(config, 2000, {no_tokens, {}}).validation, one_by_one.validation);
    EXPECT_NE(lists.validation, one_by_one.validation);
}

}  // namespace
}  // namespace elmo
