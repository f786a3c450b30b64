// The memory of trained texts: exact for few, an estimate for many, joined, stored and read back.
#include "run/trained_texts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>

#include "elmo/error.h"

namespace elmo {
namespace {

// Rows of two tokens that name them.
struct Rows {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> values;
    std::vector<std::int64_t> numbers;

    Rows(std::int32_t first, std::int32_t last) {
        for (std::int32_t i = first; i < last; ++i) {
            values.insert(values.end(), {i, 7});
            offsets.push_back(static_cast<std::int64_t>(values.size()));
        }
        numbers.resize(offsets.size() - 1);
        std::iota(numbers.begin(), numbers.end(), 0);
    }
    TokenRows rows() const { return {offsets, values}; }
};

TrainedTexts texts_of(std::int32_t first, std::int32_t last) {
    const Rows rows(first, last);
    TrainedTexts texts;
    texts.add(rows.rows(), rows.numbers);
    return texts;
}

std::int64_t count(const TrainedTexts& texts, std::int32_t first, std::int32_t last) {
    const Rows rows(first, last);
    return texts.count(rows.rows(), rows.numbers);
}

TEST(TrainedTexts, CountsFewExactly) {
    const TrainedTexts texts = texts_of(0, 1000);
    EXPECT_EQ(count(texts, 0, 1000), 1000);
    EXPECT_EQ(count(texts, 900, 1200), 100);
    EXPECT_EQ(count(texts, 1000, 2000), 0);
    EXPECT_EQ(count(TrainedTexts(), 0, 10), 0);
    const Rows rows(0, 10);
    TrainedTexts some;
    some.add(rows.rows(), std::vector<std::int64_t>{2, 5});
    EXPECT_EQ(count(some, 0, 10), 2) << "only the given rows";
}

TEST(TrainedTexts, EstimatesMany) {
    const TrainedTexts texts = texts_of(0, 400'000);
    EXPECT_EQ(count(texts, 0, 50'000), 50'000) << "all of those that are known";
    EXPECT_EQ(count(texts, 400'000, 450'000), 0);
    // Half of them: about 16,400 of 100,000 are asked, so the standard deviation is below 400.
    EXPECT_NEAR(static_cast<double>(count(texts, 350'000, 450'000)), 50'000, 2000);
}

TEST(TrainedTexts, JoinsAsIfAllHadBeenAdded) {
    for (const std::int32_t n : {1000, 200'000}) {
        TrainedTexts joined = texts_of(0, n);
        joined.add(texts_of(n, 2 * n));
        for (const auto& [first, last] : {std::pair(0, 2 * n), std::pair(n / 2, n), std::pair(n, 3 * n)})
            EXPECT_NEAR(static_cast<double>(count(joined, first, last)),
                        static_cast<double>(count(texts_of(0, 2 * n), first, last)),
                        n < 65536 ? 0 : 0.02 * n);
    }
    TrainedTexts twice = texts_of(0, 200'000);
    twice.add(texts_of(0, 200'000));
    const auto folder = std::filesystem::temp_directory_path() / ("elmo_trained_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    twice.save(folder / "twice");
    texts_of(0, 200'000).save(folder / "once");
    const auto bytes = [&](const char* name) {
        std::ifstream in(folder / name, std::ios::binary);
        return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    };
    EXPECT_EQ(bytes("twice"), bytes("once"));
    EXPECT_LT(bytes("once").size(), 600'000u);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace elmo
