// The studies that need no data: their numbers are those of the plan and the bench.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text_util.h"
#include "elmo/elmo.h"
#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/study.h"
#include "io/folder_lock.h"
#include "io/temp_folder.h"
#include "quiet.h"

namespace elmo {
namespace {

class Studies : public ::testing::Test {
  protected:
    void SetUp() override {
        request.config.labels = 700;
        request.config.width = 64;
        request.config.vocab_size = 100;
        request.config.batch_size = 8;
        request.config.max_length = 16;
        request.config.steps = 2;
        request.config.out = (folder.path() / "study").string();
    }
    nlohmann::json run() { return nlohmann::json::parse(run_study(quiet(), request).content); }

    TempFolder folder;
    StudyRequest request;
};

TEST_F(Studies, TheTimelinesMaximumIsThePlansPeak) {
    request.name = "memory";
    request.settings["values"] = "900,700";
    request.config.precision = "fp8";
    const auto json = run();
    EXPECT_EQ(json["study"], "memory");
    for (const auto& [table, precision] : {std::pair("timeline", "fp8"), {"timeline_renee", "renee"}}) {
        Config config = request.config;
        config.precision = precision;
        const double peak = static_cast<double>(plan_memory(quiet(), config).arena_bytes) / (1 << 30);
        double most = 0;
        std::map<std::string, double> sums;
        for (const auto& row : json["tables"][table])
            for (const auto& [column, value] : row.items()) {
                if (!value.is_number()) continue;
                if (row["segment"] == "total") {
                    most = std::max(most, value.get<double>());
                    EXPECT_NEAR(sums[column], value.get<double>(), 1e-12) << column;
                } else {
                    sums[column] += value.get<double>();
                }
            }
        EXPECT_EQ(most, peak) << table;  // whole bytes over a power of two: exact
    }
}

// The baseline and the modes of the peaks stand beside a head that does more than they can.
TEST_F(Studies, OtherModesAreWithoutWhatTheirHeadsRefuse) {
    request.name = "memory";
    request.settings["values"] = "700";
    request.config.overwrite = true;
    const Config plain = request.config;
    const std::vector<std::vector<std::pair<const char*, const char*>>> asked = {
        {{"precision", "fp8"}, {"head_kahan", "20%"}},
        {{"precision", "fp8"}, {"weight_dropout", "0.3"}},
        {{"precision", "bf16"}, {"head_rounding", "nearest"}},
        {{"precision", "bf16"}, {"head_noise", "steps"}}};
    nlohmann::json peaks;
    for (const auto& options : asked) {
        request.config = plain;
        for (const auto& [key, value] : options) set_option(request.config, key, value);
        const auto json = run();
        double most = 0;
        for (const auto& [column, value] : json["tables"]["timeline"].back().items())
            if (value.is_number()) most = std::max(most, value.get<double>());
        EXPECT_EQ(most, static_cast<double>(plan_memory(quiet(), request.config).arena_bytes) / (1 << 30));
        if (peaks.is_null()) peaks = json["tables"]["peaks"];
        EXPECT_EQ(json["tables"]["peaks"], peaks) << options[1].first;
    }
}

TEST_F(Studies, OtherModesAreWithoutWhatOnlyOneCanHave) {
    request.name = "memory";
    request.settings["values"] = "700";
    request.config.overwrite = true;
    const Config plain = request.config;
    const nlohmann::json baseline = run()["tables"]["timeline_renee"];
    const auto peak = [&](const nlohmann::json& json, const std::string& mode) {
        for (const auto& row : json["tables"]["peaks"])
            if (row["mode"] == mode) return row["planned_gib"].get<double>();
        return -1.0;
    };
    const auto planned = [&](const Config& config) {
        return static_cast<double>(plan_memory(quiet(), config).total_bytes()) / (1 << 30);
    };
    for (const auto& [key, value] : {std::pair("accumulate", "2"), std::pair("ranks", "2"),
                                     std::pair("batch_shards", "2"), std::pair("label_groups", "2"),
                                     std::pair("head_memory", "host"), std::pair("encoder_state", "8bit")}) {
        SCOPED_TRACE(key);
        request.config = plain;
        set_option(request.config, key, value);
        const nlohmann::json json = run();
        if (key != std::string("encoder_state")) {
            EXPECT_EQ(json["tables"]["timeline_renee"], baseline);
        }
        Config bf16 = request.config;
        bf16.precision = "bf16";
        EXPECT_EQ(peak(json, "bf16"), planned(bf16));  // has the option
    }
    request.config = plain;
    request.config.precision = "renee";
    request.config.encoder_precision = "fp16";
    const nlohmann::json json = run();
    EXPECT_EQ(peak(json, "renee"), planned(request.config));
    Config bf16 = plain;
    bf16.precision = "bf16";
    EXPECT_EQ(peak(json, "bf16"), planned(bf16));
}

TEST_F(Studies, PeaksAreThoseOfThePlanAndMarkedWhereMeasured) {
    request.name = "memory";
    request.settings = {{"values", "900,700"}, {"measure", "true"}};
    const auto json = run();
    const auto& peaks = json["tables"]["peaks"];
    ASSERT_EQ(peaks.size(), 8u);  // four modes, two counts
    for (const auto& row : peaks) {
        Config config = request.config;
        const std::string mode = row["mode"];
        config.precision = mode == "8 bits" ? "e3m4" : mode;
        if (mode == "fp32") config.encoder_precision = "fp32";
        config.labels = row["labels"];
        EXPECT_EQ(row["planned_gib"].get<double>(),
                  static_cast<double>(plan_memory(quiet(), config).total_bytes()) / (1 << 30));
        EXPECT_GT(row["measured_gib"].get<double>(), 0);
    }
    request.settings.erase("measure");
    request.config.overwrite = true;
    const auto planned = run();
    for (const auto& row : planned["tables"]["peaks"]) EXPECT_TRUE(row["measured_gib"].is_null());
}

TEST_F(Studies, ChunksAreMeasuredAsAskedFor) {
    request.name = "chunks";
    request.settings["values"] = "3,1,3";
    const auto json = run();
    const auto& rows = json["tables"]["chunks"];
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["chunks"], 1);
    EXPECT_EQ(rows[1]["chunks"], 3);
    for (const auto& row : rows) {
        EXPECT_GT(row["step_ms"].get<double>(), 0);
        EXPECT_GE(row["step_max_ms"].get<double>(), row["step_min_ms"].get<double>());
    }
}

TEST_F(Studies, WhatIsWrongIsNamed) {
    const auto message = [&] {
        try {
            run();
            return std::string("no error");
        } catch (const ConfigError& error) {
            return std::string(error.what());
        }
    };
    request.name = "memori";
    EXPECT_NE(message().find("did you mean 'memory'"), std::string::npos);
    request.name = "chunks";
    request.settings["values"] = "1,two";
    EXPECT_NE(message().find("found 'two'"), std::string::npos);
    request.settings["values"] = "1";
    EXPECT_EQ(message(), "no error");
    EXPECT_NE(message().find("holds a study already"), std::string::npos);
    request.config.overwrite = true;
    {
        const FolderLock writer(request.config.out);
        EXPECT_NE(message().find("another process or thread is writing"), std::string::npos);
    }
    EXPECT_EQ(message(), "no error");
    request.config.overwrite = false;
    request.config.resume = true;
    for (const char* name : {"chunks", "memory"}) {
        request.name = name;
        EXPECT_EQ(message(), "no error") << name;
    }
    request.config.out.clear();
    EXPECT_NE(message().find("--out"), std::string::npos);
}

}  // namespace
}  // namespace elmo
