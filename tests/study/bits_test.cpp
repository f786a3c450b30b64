// elmo study bits on a tiny data set: a run per cell, resumed cell by cell.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "study/engines.h"
#include "train/tiny_data.h"

namespace elmo::bits_test {
namespace {

using namespace test;
namespace fs = std::filesystem;

class BitsStudy : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        request.name = "bits";
        request.config = tiny_config(temp);
        request.config.steps = 30;
        request.config.out = temp / "study";
        request.settings = {{"exponents", "2,4"}, {"mantissas", "3"}, {"seeds", "1,2"}};
    }
    nlohmann::json run() { return nlohmann::json::parse(run_study(quiet(), request).content); }
    std::string cell(const std::string& name) { return (temp / "study/cells/") + name + ".json"; }

    test::TempFolder temp;
    StudyRequest request;
};

TEST_F(BitsStudy, ARunACellAndNoneTwice) {
    const nlohmann::json first = run();
    const auto& cells = first["tables"]["cells"];
    EXPECT_EQ(cells.size(), 12u)
        << cells.dump();  // fp32, bf16, 2 exponents x (stochastic, nearest), two seeds
    EXPECT_TRUE(fs::is_empty(temp / "study/runs"));
    EXPECT_TRUE(fs::exists(cell("exmy_4_3-seed1")));
    EXPECT_TRUE(fs::exists(cell("exmy_4_3_nearest-seed2")));
    for (const char* name : {"study.json", "study.csv", "study.html"})
        EXPECT_TRUE(fs::exists(temp / ("study/" + std::string(name))));

    // What a cell says is taken from it, and only a missing cell is run.
    nlohmann::json marked = nlohmann::json::parse(read_text(cell("exmy_4_3-seed1")));
    const double was = marked["P@1"];
    marked["P@1"] = 12.5;
    write_text(cell("exmy_4_3-seed1"), marked.dump());
    const std::string removed = read_text(cell("exmy_2_3-seed2"));
    fs::remove(cell("exmy_2_3-seed2"));
    request.config.resume = true;
    const nlohmann::json second = run();
    EXPECT_NE(second.dump().find("12.5"), std::string::npos);
    EXPECT_NE(was, 12.5);
    nlohmann::json a = nlohmann::json::parse(removed),
                   b = nlohmann::json::parse(read_text(cell("exmy_2_3-seed2")));
    a.erase("seconds"), b.erase("seconds");
    EXPECT_EQ(a, b);  // the same run again
}

TEST_F(BitsStudy, CompensatesWhereAskedAndSomethingIsRounded) {
    request.settings = {{"formats", "fp32 e3m4"}};
    request.config.head_kahan = "20%";
    run();
    const auto recipe = [&](const char* name) {
        return nlohmann::json::parse(std::ifstream(cell(name)))["recipe"].get<std::string>();
    };
    EXPECT_NE(recipe("fp32-seed42").find("head_kahan = \"0\""), std::string::npos);
    EXPECT_NE(recipe("e3m4-seed42").find("head_kahan = \"20%\""), std::string::npos);
}

TEST_F(BitsStudy, OtherWordsOfHelpAndNewOptionsAreNoOtherOptions) {
    request.settings = {{"formats", "bf16"}};
    run();
    nlohmann::json old = nlohmann::json::parse(read_text(cell("bf16-seed42")));
    std::string recipe = old["recipe"], lines;
    std::istringstream text(recipe);
    for (std::string line; std::getline(text, line);)
        if (line.rfind("patience", 0) != 0)  // as if that option were newer than the cell
            lines += line.substr(0, line.find('#')) + "# other words\n";
    ASSERT_NE(lines, recipe);
    old["recipe"] = lines;
    old["P@1"] = 12.5;
    write_text(cell("bf16-seed42"), old.dump());
    request.config.resume = true;
    EXPECT_NE(run().dump().find("12.5"), std::string::npos);  // taken, not refused and not run again
}

TEST_F(BitsStudy, WhatIsNamedTwiceCountsOnce) {
    request.settings = {{"formats", "bf16 e3m4 bf16"}, {"seeds", "2,1,2"}};
    const nlohmann::json listed = run()["tables"];
    EXPECT_EQ(listed["formats"].size(), 2u) << listed.dump();
    EXPECT_EQ(listed["cells"].size(), 4u) << listed.dump();
    request.config.overwrite = true;
    request.settings = {{"exponents", "2,2"}, {"mantissas", "3,3"}};
    EXPECT_EQ(run()["tables"]["formats"].size(), 4u);  // fp32, bf16, and stochastic and nearest
}

TEST_F(BitsStudy, OneSeedHasNoDeviation) {
    request.settings = {{"formats", "bf16"}};
    EXPECT_TRUE(run()["tables"]["formats"][0]["p1_deviation"].is_null()) << run().dump();
}

// What is left of a cell that was interrupted would give its own options to one of others.
TEST_F(BitsStudy, ACellBegunWithOtherOptionsIsRefused) {
    request.settings = {{"formats", "bf16"}};
    run();
    const auto numbers = [&] {
        nlohmann::json made = nlohmann::json::parse(read_text(cell("bf16-seed42")));
        made.erase("seconds");
        return made;
    };
    const nlohmann::json whole = numbers();
    request.config.overwrite = true;
    request.config.head_lr = 5;
    std::atomic<bool> stop{false};
    EXPECT_THROW(run_study(stopping_before_the_first_step(stop), request), Interrupted);
    request.config.overwrite = false;
    request.config.resume = true;
    request.config.head_lr = tiny_config(temp).head_lr;
    EXPECT_NE(message_of<ConfigError>([&] { run(); }).find("runs/bf16-seed42 has head_lr = 5, found 0.02"),
              std::string::npos)
        << message_of<ConfigError>([&] { run(); });
    EXPECT_FALSE(fs::exists(cell("bf16-seed42")));

    request.config.head_lr = 5;
    request.config.threads = 2;  // changes no result
    run();
    EXPECT_NE(numbers(), whole);

    fs::remove(cell("bf16-seed42"));
    fs::create_directories(temp / "study/runs/bf16-seed42");
    EXPECT_NE(message_of<ConfigError>([&] { run(); }).find("bf16-seed42.toml"), std::string::npos)
        << message_of<ConfigError>([&] { run(); });
}

TEST_F(BitsStudy, OtherOptionsAndDamageAreRefused) {
    request.settings = {{"formats", "bf16 exmy:0,5,row/steps"}};
    run();
    request.config.resume = true;
    request.config.threads = 2;  // changes no result
    EXPECT_EQ(message_of<Error>([&] { run(); }), "");
    request.config.head_lr = 0.5;
    EXPECT_NE(message_of<ConfigError>([&] { run(); }).find("bf16-seed42.json has head_lr = 0.02, found 0.5"),
              std::string::npos)
        << message_of<ConfigError>([&] { run(); });
    request.config.head_lr = tiny_config(temp).head_lr;
    write_text(cell("bf16-seed42"), "{}");
    EXPECT_NE(message_of<DataError>([&] { run(); }).find("bf16-seed42"), std::string::npos);
    request.config.resume = false;
    request.config.overwrite = true;
    EXPECT_EQ(message_of<Error>([&] { run(); }), "");

    for (const auto& [name, value] :
         {std::pair("formats", "exmy:9,9"), std::pair("formats", "e3m4/nearest"),
          std::pair("formats", "bf16/loud"), std::pair("seeds", "1,x"), std::pair("exponents", "-1")}) {
        request.settings = {{name, value}};
        EXPECT_NE(message_of<ConfigError>([&] { run(); }), "") << value;
    }
}

}  // namespace
}  // namespace elmo::bits_test
