// elmo report: the page holds what an evaluation with the same options finds.
#include "elmo/report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "browser.h"
#include "elmo/calibrate.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "elmo/fields.h"
#include "elmo/resolve.h"
#include "elmo/train.h"
#include "train/tiny_data.h"

namespace elmo::report_test {
namespace {

using namespace test;

class ReportPage : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        Config training = tiny_config(temp);
        training.device = "cpu";
        training.steps = 60;
        train(quiet(), training);
        config.out = temp / "report.html";
        config.cache = temp / "cache";
        config.data = temp / "data";
        config.device = "cpu";
        config.threads = 1;
    }
    std::string run() const { return temp / "run"; }

    test::TempFolder temp;
    Config config;
};

TEST_F(ReportPage, ShowsWhatTheEvaluationFinds) {
    Config scoring = config;
    scoring.errors = 20;
    scoring.threshold = 0.5;
    const Evaluation found = evaluate(quiet(), run(), resolve_for_run(run(), scoring));
    const Report made = report(quiet(), run(), config, "elmo report <run> data");
    EXPECT_EQ(made.page, config.out);
    Evaluation shown = made.evaluation;
    shown.texts_per_second = found.texts_per_second;
    ASSERT_TRUE(shown.at_threshold);
    const std::string source = "the default of a report, of raw probabilities";
    EXPECT_EQ(shown.at_threshold->source, source);  // nobody gave it
    EXPECT_NE(read_text(temp / "run/label_scores.jsonl").find(source), std::string::npos);
    shown.at_threshold->source = found.at_threshold->source;
    EXPECT_EQ(to_json(shown), to_json(found));
    const std::string page = read_text(config.out);
    for (const char* part : {"id=\"scores\"", "id=\"answers\"", "id=\"labels\"", "id=\"worst_labels\"",
                             "id=\"examples\"", "id=\"protocol\"", "Calibration", "F1 of labels",
                             "The run is not calibrated", "elmo report &lt;run&gt; data", "kind "})
        EXPECT_NE(page.find(part), std::string::npos) << part;
    for (const char* outside : {"src=", "@import", "url(", "<script", "<link"})
        EXPECT_EQ(page.find(outside), std::string::npos) << outside;
    EXPECT_NE(page.find(fmt::format("data-value=\"{}\"", found.get("P@1"))), std::string::npos);
    std::int64_t labels = 0, pairs = 0;
    for (const F1Band& band : found.f1_bands) labels += band.labels;
    EXPECT_EQ(labels, static_cast<std::int64_t>(found.frequent_labels.size()));  // all of them: they are few
    for (const CalibrationBin& bin : found.calibration_curve) pairs += bin.pairs;
    EXPECT_EQ(pairs, 20 * found.num_samples);
}

TEST_F(ReportPage, OfACalibratedRunIsAtItsThreshold) {
    const Calibration fitted = calibrate(quiet(), run(), resolve_for_run(run(), config));
    const Report made = report(quiet(), run(), config, "elmo report");
    ASSERT_TRUE(made.evaluation.at_threshold);
    EXPECT_EQ(made.evaluation.at_threshold->threshold, fitted.f1_threshold);
    EXPECT_EQ(read_text(config.out).find("The run is not calibrated"), std::string::npos);
}

TEST_F(ReportPage, OfStoredScoresSpeaksOfNoProbabilities) {
    Config scoring = config;
    scoring.save_predictions = temp / "scores.txt";
    evaluate(quiet(), run(), resolve_for_run(run(), scoring));
    config.predictions = scoring.save_predictions;
    config.threshold = 0.3;
    report(quiet(), "", config, "elmo report");
    const std::string page = read_text(config.out);
    EXPECT_NE(page.find("answers above a threshold of 0.3 (given, of stored scores)"), std::string::npos);
    EXPECT_EQ(page.find("probabilit"), std::string::npos) << page.substr(page.find("probabilit"), 100);
}

TEST_F(ReportPage, DoesNotReplaceAFileUnasked) {
    write_text(config.out, "mine");
    EXPECT_NE(message_of<ConfigError>([&] { report(quiet(), run(), config, ""); }).find("exists already"),
              std::string::npos);
    EXPECT_EQ(read_text(config.out), "mine");
    config.overwrite = true;
    report(quiet(), run(), config, "");
    EXPECT_NE(read_text(config.out), "mine");
    config.out.clear();
    EXPECT_NE(message_of<ConfigError>([&] { report(quiet(), run(), config, ""); }).find("expected a file"),
              std::string::npos);
    config.out = temp.path().string();
    EXPECT_NE(message_of<ConfigError>([&] { report(quiet(), run(), config, ""); }).find("found the folder"),
              std::string::npos);
}

TEST_F(ReportPage, ABrowserShowsItNarrowAndWideLightAndDark) {
    report(quiet(), run(), config, "elmo report");
    test::check_in_browser("check_pages.py", config.out);
}

}  // namespace
}  // namespace elmo::report_test
