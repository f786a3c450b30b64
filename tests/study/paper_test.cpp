// elmo study paper: its figures are the paper's, and ours are the plan's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/study.h"
#include "quiet.h"
#include "study/paper_figures.h"
#include "tested_device.h"
#include "train/tiny_data.h"

namespace elmo::paper_test {
namespace {

using namespace test;

nlohmann::json made(const std::map<std::string, std::string>& settings) {
    const test::TempFolder folder;
    StudyRequest request;
    request.name = "paper";
    request.config.out = folder / "study";
    request.config.device = "cpu";  // plans for a GPU need libelmo_cuda.so
    request.settings = settings;
    request.settings["plan-only"] = "true";
    return nlohmann::json::parse(run_study(quiet(), request).content);
}

TEST(PaperStudy, OursIsThePlan) {
    const auto json = made({{"only", "T2,T10"}, {"sets", "amazon-3m"}});
    ASSERT_EQ(json["tables"]["memory"].size(), 3u);
    const auto& row = json["tables"]["memory"][1];
    EXPECT_EQ(row["mode"], "bf16");
    EXPECT_EQ(row["paper_gib"], 10.39);
    Config config;
    config.device = "cpu";
    config.shape = "amazon-3m";
    config.precision = "bf16";
    config.recompute = "none";
    EXPECT_EQ(row["ours_gib"], static_cast<double>(plan_memory(quiet(), config).total_bytes()) / (1 << 30));
    EXPECT_NEAR(row["difference_gib"].get<double>(), row["ours_gib"].get<double>() - 10.39, 1e-12);
    EXPECT_LE(row["recomputed_gib"], row["ours_gib"]);
    EXPECT_EQ(json["tables"]["T10"].size(), 8u);
    EXPECT_FALSE(json["tables"].contains("F4"));
}

TEST(PaperStudy, EveryItemIsMade) {
    const auto json = made({});
    for (const char* table : {"T1", "memory", "encoder", "T6", "T10", "F1_renee", "F3_fp8", "F4"})
        EXPECT_FALSE(json["tables"][table].empty()) << table;
    EXPECT_EQ(json["tables"]["memory"].size(), paper_results().size());
}

TEST(PaperStudy, UnknownItemsAndSetsAreNamed) {
    EXPECT_THROW(made({{"only", "T11"}}), ConfigError);
    EXPECT_THROW(made({{"sets", "amazon-4m"}}), ConfigError);
    EXPECT_THROW(made({{"only", "T3"}, {"sets", "amazon-3m"}}), ConfigError);
}

class PaperRuns : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "root/LF-AmazonTitles-131K");
        request.name = "paper";
        request.config = tiny_config(temp);
        request.config.data.clear();
        request.config.encoder = "bag";
        request.config.encoder_precision = "bf16";  // bag has no FP8 products
        request.config.device = kTestedDevice;
        request.config.steps = 30;
        request.config.warmup_steps = 2;
        request.config.out = temp / "study";
        request.settings = {
            {"data-root", temp / "root"}, {"only", "T8,T3"}, {"modes", "bf16,fp8+refine,renee"}};
    }
    nlohmann::json run() { return nlohmann::json::parse(run_study(quiet(), request).content); }

    test::TempFolder temp;
    StudyRequest request;
};

TEST_F(PaperRuns, TrainsWhatIsThereAndNamesWhatIsNot) {
    const nlohmann::json json = run();
    const auto& missing = json["tables"]["missing"];
    ASSERT_EQ(missing.size(), 1u) << missing.dump();
    EXPECT_EQ(missing[0]["set"], "lf-paper2keywords-8.6m");
    const auto& runs = json["tables"]["runs"];
    ASSERT_EQ(runs.size(), 3u) << runs.dump();    // fp8 itself is not shown: it was not asked for
    std::map<std::string, nlohmann::json> first;  // P@1 by mode
    for (const auto& row : json["tables"]["scores"])
        if (row["what"] == "P@1") first[row["mode"]] = row;
    ASSERT_EQ(first.size(), 3u);
    EXPECT_EQ(first["bf16"]["paper"], 45.6);
    EXPECT_EQ(first["renee"]["paper"], 46.05);
    EXPECT_TRUE(first["fp8+refine"]["paper"].is_null());
    for (auto& [mode, row] : first) {
        SCOPED_TRACE(mode);
        EXPECT_GT(row["ours"], 5);
        EXPECT_LE(row["low"], row["ours"]);
        EXPECT_GE(row["high"], row["ours"]);
        if (!row["paper"].is_null()) {
            EXPECT_NEAR(row["difference"].get<double>(),
                        row["ours"].get<double>() - row["paper"].get<double>(), 1e-9);
        }
        EXPECT_TRUE(
            std::filesystem::exists(temp / ("study/runs/lf-amazontitles-131k-" + mode + "-seed42/best")));
    }
    EXPECT_FALSE(json["tables"]["memory"].empty());  // planned figures stand beside them

    // A second call trains nothing: it shows what the cells hold.
    const std::string cell = temp / "study/cells/lf-amazontitles-131k-bf16-seed42.json";
    nlohmann::json marked = nlohmann::json::parse(read_text(cell));
    marked["P@1"] = 12.5;
    write_text(cell, marked.dump());
    request.config.resume = true;
    const nlohmann::json again = run();
    for (const auto& row : again["tables"]["runs"])
        if (row["mode"] == "bf16") {
            EXPECT_EQ(row["p1"], 12.5);
        }
    request.config.head_lr = 0.5;
    EXPECT_NE(message_of<ConfigError>([&] { run(); }).find("has head_lr = "), std::string::npos);
}

TEST_F(PaperRuns, SettingsThatMakeNoSenseAreRefused) {
    request.settings["epochs-scale"] = "0";
    EXPECT_THROW(run(), ConfigError);
    request.settings["epochs-scale"] = "1";
    request.settings["modes"] = "fp7";
    EXPECT_THROW(run(), ConfigError);
    request.settings = {{"data-root", temp / "nowhere"}};
    EXPECT_THROW(run(), ConfigError);
    request.settings = {};
    EXPECT_THROW(run(), ConfigError);
    request.settings = {{"plan-only", "true"}, {"data-root", temp / "root"}};
    EXPECT_THROW(run(), ConfigError);
}

// Whether a line of the paper's text holds all these numbers, written as it writes them.
bool a_line_holds(const std::vector<std::string>& lines, const std::vector<double>& numbers) {
    const auto holds = [](const std::string& line, double number) {
        for (const int digits : {0, 1, 2}) {
            char text[32];
            std::snprintf(text, sizeof text, "%.*f", digits, number);
            if (std::abs(std::stod(text) - number) > 1e-9) continue;
            for (std::size_t at = line.find(text); at != std::string::npos; at = line.find(text, at + 1)) {
                const char before = at == 0 ? ' ' : line[at - 1];
                const std::size_t end = at + std::strlen(text);
                const char after = end < line.size() ? line[end] : ' ';
                if (!std::isdigit(before) && before != '.' && !std::isdigit(after) && after != '.')
                    return true;
            }
        }
        return false;
    };
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return std::all_of(numbers.begin(), numbers.end(), [&](double n) { return holds(line, n); });
    });
}

TEST(PaperStudy, ItsFiguresAreThePapers) {
    const char* place = std::getenv("ELMO_SHARED");
    const std::filesystem::path folder =
        std::filesystem::path(place != nullptr ? place : ELMO_SOURCE_DIR "/../shared") / "paper";
    if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "the paper's text is not on this machine";
    std::vector<std::string> lines;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            if (!lines.empty() && !lines.back().empty() && lines.back().find("\\\\") == std::string::npos &&
                lines.back().find("&") != std::string::npos)
                lines.back() += " " + line;  // a row of a table that is written in two lines
            else
                lines.push_back(line);
        }
    }
    for (const PaperSet& set : paper_sets())
        EXPECT_TRUE(
            a_line_holds(lines, {static_cast<double>(set.train_rows), static_cast<double>(set.labels),
                                 static_cast<double>(set.test_rows), set.rows_per_label, set.labels_per_row}))
            << set.title;
    for (const PaperResult& r : paper_results()) {
        EXPECT_TRUE(a_line_holds(lines, {r.p1, r.p3, r.p5, r.gib})) << r.shape << " " << r.mode;
        if (!std::isnan(r.psp1)) {
            EXPECT_TRUE(a_line_holds(lines, {r.psp1, r.psp3, r.psp5})) << r.shape << " " << r.mode;
        }
    }
    for (const PaperGigabytes& r : paper_gigabytes()) EXPECT_TRUE(a_line_holds(lines, {r.gb})) << r.shape;
    for (const PaperRepair& r : paper_repairs())
        EXPECT_TRUE(a_line_holds(lines, {r.p1, r.p3, r.p5, r.gib})) << r.mode;
    for (const PaperChunks& r : paper_chunks())
        EXPECT_TRUE(a_line_holds(lines, {static_cast<double>(r.chunks), r.gib})) << r.chunks;
}

}  // namespace
}  // namespace elmo::paper_test
