// The metrics of a real prediction file against two independent public implementations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "metrics/metrics.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

fs::path shared_folder() {
    const char* variable = std::getenv("ELMO_SHARED");
    return variable != nullptr ? variable : ELMO_SOURCE_DIR "/../shared";
}

struct Sparse {
    std::int64_t num_columns = 0;
    std::vector<std::vector<ScoredLabel>> rows;
};

Sparse read_sparse(const fs::path& path) {
    std::ifstream in(path);
    Sparse result;
    std::int64_t num_rows = 0;
    std::string line;
    std::getline(in, line);
    std::istringstream(line) >> num_rows >> result.num_columns;
    while (std::getline(in, line)) {
        std::istringstream fields(line);
        auto& row = result.rows.emplace_back();
        ScoredLabel entry;
        char colon = 0;
        while (fields >> entry.label >> colon >> entry.score) row.push_back(entry);
    }
    EXPECT_EQ(static_cast<std::int64_t>(result.rows.size()), num_rows) << path;
    return result;
}

TEST(Conformance, TateSubjects) {
    const fs::path expected_path = shared_folder() / "conformance/metrics/expected.json";
    const fs::path data = shared_folder() / "data/tate-subjects";
    if (!fs::exists(expected_path) || !fs::exists(data)) GTEST_SKIP() << shared_folder() << " is not there";
    std::ifstream expected_file(expected_path);
    const auto expected = nlohmann::json::parse(expected_file)["tate-subjects"];
    const Sparse predictions =
        read_sparse(shared_folder() / "conformance/metrics/tate-subjects_pred_top10.txt");
    const Sparse train = read_sparse(data / "trn_X_Y.txt"), test = read_sparse(data / "tst_X_Y.txt");
    std::vector<std::int64_t> counts(static_cast<std::size_t>(train.num_columns));
    for (const auto& row : train.rows)
        for (const auto& entry : row) ++counts[static_cast<std::size_t>(entry.label)];

    int compared = 0;
    for (const auto& [protocol, a, b] :
         {std::tuple{"A=0.55,B=1.5", 0.55, 1.5}, std::tuple{"A=0.6,B=2.6", 0.6, 2.6}}) {
        const auto& wanted = expected[protocol];
        const auto q = inverse_propensities(counts, static_cast<std::int64_t>(train.rows.size()), a, b);
        double sum = 0;
        for (const double value : q) sum += value;
        EXPECT_NEAR(sum / wanted["inv_propensity_sum"].get<double>(), 1, 1e-6);
        for (std::size_t i = 0; i < 10; ++i)
            EXPECT_NEAR(q[i] / wanted["inv_propensity_first10"][i].get<double>(), 1, 1e-6);

        RankingMetrics metrics({1, 2, 3, 4, 5}, q);
        for (std::size_t row = 0; row < test.rows.size(); ++row) {
            TopK top(5);
            for (const auto& entry : predictions.rows[row]) top.offer(entry.score, entry.label);
            const auto ranked = top.sorted();
            std::vector<std::int64_t> truth;
            for (const auto& entry : test.rows[row]) truth.push_back(entry.label);
            metrics.add_row(std::span<const ScoredLabel>(ranked), std::span<const std::int64_t>(truth));
        }
        for (const auto& score : metrics.scores())
            for (const char* peer : {"xclib", "napkinxc"}) {
                const double theirs = wanted[score.metric][peer][static_cast<std::size_t>(score.k - 1)];
                // The two peers differ from the sixth digit on in recall.
                EXPECT_NEAR(score.value, theirs, score.metric == "R" ? 0.5e-4 : 0.5e-6)
                    << score.name() << " " << peer;
                ++compared;
            }
    }
    EXPECT_EQ(compared, 2 * 25 * 2);
}

}  // namespace
}  // namespace elmo
