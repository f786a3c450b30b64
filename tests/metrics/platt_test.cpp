#include "metrics/platt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "elmo/error.h"

namespace elmo {
namespace {

double sigmoid(double u) {
    return 1 / (1 + std::exp(-u));
}

// For each score on a grid, as many right ones as sigmoid(a z + b) says.
std::vector<JudgedScore> sample(double a, double b, int copies) {
    std::vector<JudgedScore> judged;
    for (float z = -4; z <= 4; z += 0.5f)
        for (int i = 0; i < copies; ++i) judged.push_back({z, i + 0.5 < copies * sigmoid(a * z + b)});
    return judged;
}

TEST(Platt, TheFitIsTheMaximumOfTheLikelihood) {
    for (const auto& [a, b] : {std::pair{1.0, 0.0}, std::pair{2.0, -1.0}, std::pair{0.3, -2.5}}) {
        const auto judged = sample(a, b, 1000);
        double right = 0, wrong = 0;
        for (const auto& j : judged) (j.right ? right : wrong) += 1;
        const Platt fit = fit_platt(judged);
        // Both derivatives vanish there: the promised gain of a further step is 1e-13 of the loss or less,
        // and the loss is at most ln 2 a term.
        double ga = 0, gb = 0, haa = 0, hbb = 0;
        for (const auto& j : judged) {
            const double p = fit.probability(j.score),
                         t = j.right ? (right + 1) / (right + 2) : 1 / (wrong + 2);
            ga += (p - t) * j.score;
            gb += p - t;
            haa += p * (1 - p) * j.score * j.score;
            hbb += p * (1 - p);
        }
        const double gain = 1e-13 * (1 + std::log(2.0) * static_cast<double>(judged.size()));
        EXPECT_LE(std::abs(ga), std::sqrt(2 * gain * haa) + 1e-9) << a << " " << b;
        EXPECT_LE(std::abs(gb), std::sqrt(2 * gain * hbb) + 1e-9) << a << " " << b;
        // Counts are rounded to one in a thousand at each score.
        EXPECT_NEAR(fit.a, a, 0.01 * (1 + a));
        EXPECT_NEAR(fit.b, b, 0.02 * (1 + std::abs(b)));
    }
}

TEST(Platt, ProbabilitiesKeepTheOrderAndDoNotOverflow) {
    const Platt platt{0.5, -1};
    EXPECT_DOUBLE_EQ(platt.probability(2), 0.5);
    EXPECT_EQ(platt.probability(1e30), 1);
    EXPECT_EQ(platt.probability(-1e30), 0);
    EXPECT_LT(platt.probability(1), platt.probability(1.001));
    EXPECT_DOUBLE_EQ(Platt{}.probability(3), sigmoid(3));
}

TEST(Platt, Refuses) {
    EXPECT_THROW(fit_platt({}), DataError);
    EXPECT_THROW(fit_platt(std::vector<JudgedScore>{{1, true}, {2, true}}), DataError);
    EXPECT_THROW(fit_platt(std::vector<JudgedScore>{{1, true}, {2, false}}), DataError);
    EXPECT_THROW(fit_platt(std::vector<JudgedScore>{{NAN, true}, {2, false}}), DataError);
    // Perfectly separated: the smoothed targets keep it finite.
    const Platt fit = fit_platt(std::vector<JudgedScore>{{1, false}, {2, false}, {3, true}, {4, true}});
    EXPECT_TRUE(std::isfinite(fit.a) && fit.a > 0);
}

TEST(Platt, QualityByHand) {
    const std::vector<JudgedScore> judged = {{0, true}, {0, false}, {2, true}};
    const CalibrationQuality quality = calibration_quality(Platt{}, judged);
    const double p = sigmoid(2);
    EXPECT_NEAR(quality.log_loss, (2 * std::log(2.0) - std::log(p)) / 3, 1e-15);
    EXPECT_NEAR(quality.brier, (0.25 + 0.25 + (1 - p) * (1 - p)) / 3, 1e-15);
    // Three predictions in fifteen bins: each is alone.
    EXPECT_NEAR(quality.error, (0.5 + 0.5 + (1 - p)) / 3, 1e-15);
    // A grid that is right as often as it says, in bins that hold whole scores.
    std::vector<JudgedScore> exact;
    for (int i = 0; i < 15; ++i) {
        exact.push_back({0, true});
        exact.push_back({0, false});
    }
    EXPECT_NEAR(calibration_quality(Platt{}, exact).error, 0, 1e-15);
}

TEST(Platt, BestF1ByHand) {
    // Falling: right, right, wrong, right, wrong; five positives in all. F1 after each: 2/6, 4/7, 4/8, 6/9,
    // 6/10.
    const std::vector<JudgedScore> judged = {{1, false}, {5, true}, {2, true}, {4, true}, {3, false}};
    EXPECT_DOUBLE_EQ(best_f1_score(judged, 5), 1.5);
    EXPECT_DOUBLE_EQ(best_f1_score(std::vector<JudgedScore>{{3, true}, {3, false}, {1, false}}, 1), 2);
    EXPECT_DOUBLE_EQ(best_f1_score(std::vector<JudgedScore>{{3, true}}, 1), 2);
    EXPECT_EQ(best_f1_score({}, 1), 0);
}

}  // namespace
}  // namespace elmo
