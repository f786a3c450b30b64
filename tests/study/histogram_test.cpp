// Exponents counted exactly, fates as rounding really is, and what the probe sees in a step worked out by
// hand.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/study.h"
#include "numerics/minifloat.h"
#include "quiet.h"
#include "study/head_probe.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

std::map<int, std::int64_t> bins_of(std::initializer_list<double> values) {
    ExponentHistogram histogram;
    for (const double v : values) histogram.add(v);
    return histogram.bins();
}

TEST(ExponentHistogram, BinsAreFloorOfLog2) {
    const float below_one = std::nextafter(1.0f, 0.0f), below_two = std::nextafter(2.0f, 0.0f);
    EXPECT_EQ(bins_of({1, -1, below_two}), (std::map<int, std::int64_t>{{0, 3}}));
    EXPECT_EQ(bins_of({0.5, below_one}), (std::map<int, std::int64_t>{{-1, 2}}));
    EXPECT_EQ(bins_of({2}), (std::map<int, std::int64_t>{{1, 1}}));
    // Every power of two that a float can be, the subnormal ones too, and its neighbours.
    for (int e = -149; e <= 127; ++e) {
        const float power = std::ldexp(1.0f, e);
        EXPECT_EQ(bins_of({power}), (std::map<int, std::int64_t>{{e, 1}}));
        if (e > -149) {
            EXPECT_EQ(bins_of({std::nextafter(power, 0.0f)}), (std::map<int, std::int64_t>{{e - 1, 1}}));
        }
    }
    ExponentHistogram histogram;
    for (const double v : {0.0, -0.0, 3.0, std::nan(""), HUGE_VAL}) histogram.add(v);
    EXPECT_EQ(histogram.total(), 3);
    EXPECT_EQ(histogram.zeros(), 2);
    EXPECT_EQ(histogram.non_finite(), 2);
    EXPECT_EQ(histogram.bins(), (std::map<int, std::int64_t>{{1, 1}}));
}

TEST(ExponentHistogram, FatesAreThoseOfRounding) {
    const auto fate = [](const char* name, double v) {
        for (const FormatRange& format : kStudiedFormats)
            if (format.name == std::string(name)) return fate_in(format, v);
        throw std::logic_error(name);
    };
    EXPECT_EQ(fate("E4M3", 448), Fate::kNormal);
    EXPECT_EQ(fate("E4M3", -448.1), Fate::kSaturated);
    EXPECT_EQ(fate("E4M3", 0x1p-6), Fate::kNormal);
    EXPECT_EQ(fate("E4M3", 0x1.8p-7), Fate::kSubnormal);
    EXPECT_EQ(fate("E4M3", 0x1p-9), Fate::kSubnormal);
    EXPECT_EQ(fate("E4M3", 0x1p-10), Fate::kFlushed);
    EXPECT_EQ(fate("E4M3", 0x1.0001p-10), Fate::kSubnormal);
    EXPECT_EQ(fate("E3M4", 1.9375), Fate::kNormal);
    EXPECT_EQ(fate("E3M4", 2), Fate::kSaturated);
    EXPECT_EQ(fate("E3M4", -0x1p-11), Fate::kFlushed);
    EXPECT_EQ(fate("E5M2", 57344), Fate::kNormal);
    EXPECT_EQ(fate("E5M2", 60000), Fate::kSaturated);
    EXPECT_EQ(fate("E5M2", 0x1p-17), Fate::kFlushed);
    EXPECT_EQ(fate("BF16", 0x1p-134), Fate::kFlushed);
    EXPECT_EQ(fate("BF16", 0x1p-133), Fate::kSubnormal);
    EXPECT_EQ(fate("BF16", 0x1p127), Fate::kNormal);

    // Against the rounding itself, over many exponents.
    std::mt19937 rng(3);
    std::uniform_real_distribution<float> exponent(-14, 12);
    const std::pair<const char*, MiniFloat> formats[] = {{"E4M3", kE4M3}, {"E3M4", kE3M4}};
    for (int i = 0; i < 20000; ++i)
        for (const auto& [name, format] : formats) {
            const float v = std::exp2(exponent(rng));
            const float rounded = format.decode(round_nearest(format, v));
            EXPECT_EQ(fate(name, v) == Fate::kFlushed, rounded == 0) << name << " " << v;
            EXPECT_EQ(fate(name, v) == Fate::kSaturated, v > format.max_value()) << name << " " << v;
        }
}

TEST(ExponentHistogram, SharesAddUp) {
    std::mt19937 rng(4);
    std::normal_distribution<double> normal(0, 1);
    ExponentHistogram histogram;
    for (int i = 0; i < 1000; ++i) histogram.add(i % 10 == 0 ? 0.0 : std::ldexp(normal(rng), i % 40 - 30));
    std::int64_t counted = histogram.zeros();
    for (const auto& [exponent, count] : histogram.bins()) counted += count;
    EXPECT_EQ(counted, histogram.total());
    for (std::size_t f = 0; f < kNumFormats; ++f) {
        double sum = 0;
        for (std::size_t fate = 0; fate < kNumFates; ++fate)
            sum += histogram.share(f, static_cast<Fate>(fate));
        EXPECT_NEAR(sum, 1, 1e-14);
        EXPECT_EQ(histogram.share(f, Fate::kZero), 0.1);
    }
}

// x w = 0 for both labels, so g is 1/2 and -1/2 exactly, and the gradients of the weights are known.
TEST(HeadProbe, SeesTheNumbersOfTheStep) {
    const auto backend = make_cpu_backend(quiet(), "auto");
    std::vector<Bf16> x, w;
    for (const float v : {1.0f, 1.0f, 4.0f, 4.0f}) x.push_back(to_bf16(v));
    for (const float v : {0.25f, -0.25f, 0.0f, 0.0f}) w.push_back(to_bf16(v));
    const PositiveList positives = {{1, 0}};
    HeadProbe probe({3});
    EXPECT_FALSE(probe.wants(2));
    ASSERT_TRUE(probe.wants(3));
    probe.look(3, *backend, {x.data(), DType::kBf16, 2, 2}, {w.data(), DType::kBf16, 2, 2}, positives);
    const auto& seen = probe.seen().at(3);
    using Bins = std::map<int, std::int64_t>;
    EXPECT_EQ(seen[0].bins(), (Bins{{-2, 2}}));
    EXPECT_EQ(seen[0].zeros(), 2);
    EXPECT_EQ(seen[1].bins(), (Bins{{0, 2}, {2, 2}}));
    EXPECT_EQ(seen[2].bins(), (Bins{{-1, 4}}));
    // Label 0: (1 + 4) / 2 = 2.5; label 1, a positive of the first text: (-1 + 4) / 2 = 1.5.
    EXPECT_EQ(seen[3].bins(), (Bins{{1, 2}, {0, 2}}));
}

TEST(HeadProbe, WeighsPositivesAsTheStep) {
    const auto backend = make_cpu_backend(quiet(), "auto");
    std::vector<Bf16> x, w;
    for (const float v : {1.0f, 4.0f}) x.push_back(to_bf16(v));
    for (const float v : {0.0f, 0.0f, 0.0f}) w.push_back(to_bf16(v));
    PositiveList positives = {{0, 1}, {2, 0}};
    positives.weigh(std::vector<float>{8, 1, 0.5});
    HeadProbe probe({1});
    probe.look(1, *backend, {x.data(), DType::kBf16, 2, 1}, {w.data(), DType::kBf16, 3, 1}, positives);
    const auto& seen = probe.seen().at(1);
    using Bins = std::map<int, std::int64_t>;
    // g of each label: 1/2 and -4; 1/2 and 1/2; -1/4 and 1/2.
    EXPECT_EQ(seen[2].bins(), (Bins{{-2, 1}, {-1, 4}, {2, 1}}));
    EXPECT_EQ(seen[3].bins(), (Bins{{3, 1}, {1, 1}, {0, 1}}));  // -15.5, 2.5, 1.75
}

// With a grid of E4M3's numbers, logits take inputs through E4M3 whatever stores the weights.
TEST(HeadProbe, RoundsInputsAsTheStep) {
    const auto backend = make_cpu_backend(quiet(), "auto");
    std::vector<Bf16> x, w;
    for (const float v : {16.0f, 17.0f}) x.push_back(to_bf16(v));  // E4M3: 16, 16
    for (const float v : {1.0f, -1.0f}) w.push_back(to_bf16(v));
    const View inputs{x.data(), DType::kBf16, 1, 2}, weights{w.data(), DType::kBf16, 1, 2};
    HeadProbe bf16({1}), e4m3({1}, parse_grid("exmy:4,3"));
    bf16.look(1, *backend, inputs, weights, PositiveList{});
    e4m3.look(1, *backend, inputs, weights, PositiveList{});
    using Bins = std::map<int, std::int64_t>;
    EXPECT_EQ(bf16.seen().at(1)[2].bins(), (Bins{{-2, 1}}));  // sigmoid(-1)
    EXPECT_EQ(e4m3.seen().at(1)[2].bins(), (Bins{{-1, 1}}));  // sigmoid(0)
}

TEST(HistogramStudy, TrainsAndAddsUp) {
    const test::TempFolder temp;
    test::write_tiny_data(temp / "data");
    StudyRequest request{"histogram", test::tiny_config(temp), {{"values", "1,20"}}, "elmo study histogram"};
    request.config.out = temp / "study";
    request.config.precision = "e3m4";
    const auto json = nlohmann::json::parse(run_study(quiet(), request).content);
    std::map<std::pair<std::int64_t, std::string>, std::int64_t> totals;
    std::int64_t gradients_near_half = 0;
    for (const auto& row : json["tables"]["histogram"]) {
        totals[{row["step"], row["tensor"]}] += row["count"].get<std::int64_t>();
        // Weights start near 0: every g is near +-1/2.
        if (row["step"] == 1 && row["tensor"] == "logit gradients" && !row["exponent"].is_null() &&
            (row["exponent"] == -1 || row["exponent"] == -2))
            gradients_near_half += row["count"].get<std::int64_t>();
    }
    EXPECT_EQ(totals.size(), 8u);
    EXPECT_EQ((totals[{1, "weights"}]), 37 * 16);
    EXPECT_EQ((totals[{20, "classifier inputs"}]), 16 * 16);
    EXPECT_EQ((totals[{20, "logit gradients"}]), 37 * 16);
    EXPECT_EQ((totals[{20, "weight gradients"}]), 37 * 16);
    EXPECT_EQ(gradients_near_half, 37 * 16);
    int rows = 0;
    for (const auto& row : json["tables"]["formats"]) {
        ++rows;
        double sum = 0;
        for (const char* fate : {"zero", "flushed", "subnormal", "normal", "saturated"})
            sum += row[fate].get<double>();
        EXPECT_NEAR(sum, 1, 1e-12);
        if (row["format"] == "E3M4" && row["tensor"] == "weights") {  // that is what they are stored in
            EXPECT_EQ(row["flushed"].get<double>(), 0);
            EXPECT_EQ(row["saturated"].get<double>(), 0);
        }
    }
    EXPECT_EQ(rows, 2 * 4 * 4);
    request.settings["values"] = "21";
    request.config.overwrite = true;
    EXPECT_THROW(run_study(quiet(), request), ConfigError);
}

// A run whose last steps patience leaves out.
TEST(HistogramStudy, NamesTheLabelsAndStepsThatItSaw) {
    const test::TempFolder temp;
    test::write_tiny_data(temp / "data");
    StudyRequest request{
        "histogram", test::tiny_config(temp), {{"values", "1,1000"}}, "elmo study histogram"};
    request.config.out = temp / "study";
    request.config.steps = 1000;
    request.config.patience = 1;
    request.config.eval_every = 1;
    request.config.head_lr = 5;  // scores go up and down
    request.config.on_collapse = "ignore";
    run_study(quiet(), request);
    const std::string page = test::read_text(temp / "study/study.html");
    EXPECT_NE(page.find("looked into at step 1 (not at 1000: patience ended the run after step "),
              std::string::npos)
        << page;
    EXPECT_EQ(page.find("A run of 1000 steps"), std::string::npos) << page;
    EXPECT_NE(page.find("those of 37 labels"), std::string::npos) << page;
    request.config.overwrite = true;
    request.settings = {{"values", "1000"}};
    const std::string message = test::message_of<ConfigError>([&] { run_study(quiet(), request); });
    EXPECT_NE(message.find("values: expected steps that are trained, found 1000"), std::string::npos)
        << message;
}

TEST(HistogramStudy, StoppedItWritesNothing) {
    const test::TempFolder temp;
    test::write_tiny_data(temp / "data");
    StudyRequest request{"histogram", test::tiny_config(temp), {{"values", "1,20"}}, "elmo study histogram"};
    request.config.out = temp / "study";
    std::atomic<bool> stop{false};
    EXPECT_THROW(run_study(stopping_before_the_first_step(stop), request), Interrupted);
    EXPECT_FALSE(std::filesystem::exists(temp / "study/study.json"));
    run_study(quiet(), request);  // the same again
}

// Codes are not numbers without their row's exponent.
TEST(HistogramStudy, RefusesCodesWithExponents) {
    const test::TempFolder temp;
    test::write_tiny_data(temp / "data");
    StudyRequest request{"histogram", test::tiny_config(temp), {{"values", "1"}}, "elmo study histogram"};
    request.config.out = temp / "study";
    request.config.device = "cuda";  // nothing is started yet
    for (const char* precision : {"e2m5", "e2m1"}) {
        request.config.precision = precision;
        try {
            run_study(quiet(), request);
            ADD_FAILURE() << precision;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find("has the same weights"), std::string::npos)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace elmo
