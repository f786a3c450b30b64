// Prediction among and without labels, calibrated probabilities, and files into files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "formats/safetensors.h"
#include "io/checksum.h"
#include "io/folder_lock.h"
#include "linear/model_file.h"
#include "metrics/platt.h"
#include "model/head/head.h"
#include "quiet.h"
#include "rank/label_list.h"
#include "run/calibration_file.h"
#include "run/manifest.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

class Predict : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        config.device = "reference";  // scalar: a row's score does not depend on its neighbours by a bit
        config.steps = 40;
    }
    void train_run() { train(quiet().with_stop(stop), config); }
    std::vector<Prediction> answer(const LabelScope& scope, std::int64_t top = 5) {
        Config c = config;
        c.top = top;
        return Predictor(quiet(), config.out, c, scope).predict({text})[0];
    }

    TempFolder temp;
    Config config;
    std::atomic<bool> stop{false};
    const std::string text = "the thing " + word_of(5) + " beside " + word_of(1) + " number 0";
};

TEST_F(Predict, AmongGivenLabelsIsTheFullRankingRestricted) {
    for (const char* precision : {"bf16", "fp8"}) {
        config.precision = precision;
        config.out = temp / precision;
        train_run();
        const auto full = answer({}, 37);
        ASSERT_EQ(full.size(), 37u);
        write_text(temp / "labels.txt", "kind 30\n\n7\r\nkind 2\nkind 30\n36\n3\n");
        const auto some = answer({.labels = temp / "labels.txt"}, 37);
        std::vector<Prediction> expected;
        for (const Prediction& p : full)
            if (p.label == 30 || p.label == 7 || p.label == 2 || p.label == 36 || p.label == 3)
                expected.push_back(p);
        ASSERT_EQ(some.size(), 5u);
        for (std::size_t i = 0; i < 5; ++i) {
            EXPECT_EQ(some[i].label, expected[i].label);
            EXPECT_EQ(some[i].score, expected[i].score);
            EXPECT_EQ(some[i].name, fmt::format("kind {}", some[i].label));
        }
        EXPECT_EQ(answer({.labels = temp / "labels.txt"}, 2).size(), 2u);
    }
}

TEST_F(Predict, AThresholdIsNotCutAtTheUsualNumberOfLabels) {
    train_run();
    Config low = config;
    low.threshold = 1e-6;
    Predictor all(quiet(), config.out, low);
    EXPECT_EQ(all.predict({text})[0].size(), 37u);
    EXPECT_EQ(all.cut_answers(), 0);
    low.top = 7;  // given: it holds
    EXPECT_EQ(Predictor(quiet(), config.out, low).predict({text})[0].size(), 7u);
    EXPECT_EQ(resolve_prediction(config).top, 5);
}

TEST_F(Predict, TakesAnyNumberOfTextsAndCanBeMoved) {
    config.batch_size = 4;
    train_run();
    std::vector<std::string> texts;
    for (int i = 0; i < 11; ++i) texts.push_back(fmt::format("the {} of {}", word_of(i % 7), word_of(i)));
    std::optional<Predictor> first(std::in_place, quiet(), config.out, config);
    Predictor moved = std::move(*first);
    first.reset();
    const auto together = moved.predict(texts);
    ASSERT_EQ(together.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto single = moved.predict({texts[i]})[0];
        ASSERT_EQ(together[i].size(), single.size());
        for (std::size_t j = 0; j < single.size(); ++j) {
            EXPECT_EQ(together[i][j].label, single[j].label);
            EXPECT_EQ(together[i][j].score, single[j].score);
        }
    }
    EXPECT_TRUE(moved.predict({}).empty());
}

TEST_F(Predict, TheVectorsOfTextsAreThoseThatTheHeadScores) {
    config.batch_size = 4;
    train_run();
    std::vector<std::string> texts;
    for (int i = 0; i < 6; ++i) texts.push_back(fmt::format("{} beside {}", word_of(i), word_of(i + 1)));
    texts.push_back(texts[0]);
    config.top = 37;
    Predictor predictor(quiet(), config.out, config);
    const Embeddings vectors = predictor.embed(texts);
    ASSERT_EQ(vectors.rows, 7);
    ASSERT_EQ(vectors.width, config.width);
    ASSERT_EQ(vectors.values.size(), static_cast<std::size_t>(7 * config.width));
    EXPECT_TRUE(std::ranges::equal(vectors.row(0), vectors.row(6)));
    EXPECT_FALSE(std::ranges::equal(vectors.row(0), vectors.row(1)));
    // A score is the product of the text's vector and the label's row of the head.
    const SafeTensors head =
        SafeTensors::open(predictor.checkpoint_folder() + "/head-00001-of-00001.safetensors");
    const auto* weights = reinterpret_cast<const Bf16*>(head.at("weight").data.data());
    const auto answers = predictor.predict(texts);
    for (std::int64_t i = 0; i < vectors.rows; ++i)
        for (const Prediction& p : answers[static_cast<std::size_t>(i)]) {
            double score = 0;
            for (std::int64_t d = 0; d < vectors.width; ++d)
                score += static_cast<double>(vectors.row(i)[static_cast<std::size_t>(d)]) *
                         static_cast<double>(to_float(weights[p.label * vectors.width + d]));
            EXPECT_FLOAT_EQ(p.score, static_cast<float>(score));
        }
    EXPECT_EQ(predictor.embed({}).rows, 0);
}

TEST_F(Predict, AQuestionIsAnsweredAsAPredictorMadeForItWould) {
    const auto same = [](const std::vector<Prediction>& a, const std::vector<Prediction>& b) {
        return std::ranges::equal(a, b, [](const Prediction& p, const Prediction& q) {
            return p.label == q.label && p.score == q.score && p.probability == q.probability &&
                   p.name == q.name;
        });
    };
    for (const char* encoder : {"bag", "linear"}) {
        config = {};
        config.data = temp / "data";
        config.cache = temp / "cache";
        config.out = temp / encoder;
        config.encoder = encoder;
        config.validation = "0.1";
        config.device = "cpu";
        train_run();
        Config room = config;
        room.top = 30;
        Predictor predictor(quiet(), config.out, room);
        const auto ask = [&](const Question& question) {
            return predictor.predict({text}, question).front();
        };
        EXPECT_TRUE(same(ask({.top = 5}), answer({}, 5)));
        EXPECT_TRUE(same(ask({.top = 4, .labels = {2, 3, 7, 30, 36}}),
                         answer({.label_list = {"kind 30", "7", "2", "36", "3"}}, 4)));
        EXPECT_TRUE(same(ask({.top = 6, .without = {1, 5}}), answer({.without_list = {"1", "5"}}, 6)));
        EXPECT_TRUE(same(ask({.top = 3, .labels = {1, 5, 9}, .without = {5}}),
                         answer({.label_list = {"1", "9"}}, 3)));
        const double second = 0.9999 * answer({}, 5)[1].probability;
        EXPECT_EQ(ask({.top = 5, .threshold = second}).size(), 2u);
        // More heads than are kept.
        for (std::int64_t label = 0; label < 8; ++label)
            EXPECT_EQ(ask({.top = 1, .labels = {label}})[0].label, label);
        const auto error = [&](const Question& question) {
            return message_of<Error>([&] { predictor.predict({text}, question); });
        };
        EXPECT_EQ(error({.top = 31}), "top: expected 1 to 30 labels, found 31");
        EXPECT_EQ(error({.top = 29, .without = {1, 2}}), "without: expected up to 1 labels, found 2");
        EXPECT_EQ(error({.top = 1, .labels = {1}, .without = {1}}),
                  "labels: expected a label to be left to answer with, found none");
        EXPECT_NE(error({.threshold = -1}).find("needs a calibrated run"), std::string::npos);
    }
}

TEST_F(Predict, LabelsAreFoundByNameNumberOrPart) {
    train_run();
    const Predictor predictor(quiet(), config.out, config);
    EXPECT_EQ(predictor.find_labels({"kind 30", "7", "kind 2", "7"}, "x"),
              (std::vector<std::int64_t>{2, 7, 30}));
    EXPECT_EQ(message_of<DataError>([&] {
                  predictor.find_labels({"kind 1", "kind"}, "x");
              }),
              "x[1]: expected the name of a label or a label number from 0 to 36, found 'kind'");
    const FoundLabels found = predictor.search_labels("KIND 3", 1, 2);
    EXPECT_EQ(found.found, 8);
    ASSERT_EQ(found.labels.size(), 2u);
    EXPECT_EQ(found.labels[0].name, "kind 30");
    EXPECT_GT(found.labels[0].train_rows, 0);
    EXPECT_EQ(predictor.search_labels("nothing", 0, 5).found, 0);
}

TEST_F(Predict, AmongGivenLabelsOnlyTheirWeightsAreInMemory) {
    train_run();
    write_text(temp / "labels.txt", "3\n5\n9\n");
    Predictor predictor(quiet(), config.out, config, {.labels = temp / "labels.txt"});
    EXPECT_EQ(predictor.num_labels(), 37);
    EXPECT_EQ(predictor.num_answers(), 3);
    EXPECT_EQ(predictor.plan().mapped_bytes, 0);
    std::int64_t bytes = 0;
    for (const Segment& segment : predictor.plan().segments)
        if (segment.name == "head/weights") bytes = segment.bytes;
    EXPECT_GE(bytes, 3 * 16 * 2);
    EXPECT_LT(bytes, 37 * 16 * 2);
    // The CPU backend picks the same labels.
    Config cpu = config;
    cpu.device = "cpu";
    Predictor fast(quiet(), config.out, cpu, {.labels = temp / "labels.txt"});
    const auto a = predictor.predict({text})[0], b = fast.predict({text})[0];
    ASSERT_EQ(a.size(), 3u);
    ASSERT_EQ(b.size(), 3u);
    EXPECT_EQ(a[0].label, 5);
    EXPECT_EQ(b[0].label, 5);
}

TEST_F(Predict, WithoutGivenLabelsTheNextBestMoveUp) {
    train_run();
    const auto full = answer({}, 37);
    std::string without;
    for (const std::size_t i : {0u, 2u, 3u}) without += std::string(full[i].name) + "\n";
    write_text(temp / "without.txt", without);
    const auto rest = answer({.without = temp / "without.txt"});
    ASSERT_EQ(rest.size(), 5u);
    const std::size_t expected[] = {1, 4, 5, 6, 7};
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(rest[i].label, full[expected[i]].label);
    // Both: the list without the others.
    write_text(temp / "labels.txt", fmt::format("{}\n{}\n", full[0].label, full[1].label));
    const auto both = answer({.labels = temp / "labels.txt", .without = temp / "without.txt"});
    ASSERT_EQ(both.size(), 1u);
    EXPECT_EQ(both[0].label, full[1].label);
    write_text(temp / "labels.txt", fmt::format("{}\n", full[0].label));
    EXPECT_THROW(answer({.labels = temp / "labels.txt", .without = temp / "without.txt"}), DataError);
    // Lists in the place of files.
    const auto number = [&](std::size_t i) { return std::to_string(full[i].label); };
    const auto listed =
        answer({.label_list = {number(5), number(2), number(0)}, .without_list = {number(0)}});
    ASSERT_EQ(listed.size(), 2u);
    EXPECT_EQ(listed[0].label, full[2].label);
    EXPECT_EQ(listed[1].label, full[5].label);
    EXPECT_EQ(message_of<DataError>([&] {
                  answer({.label_list = {number(0), "no label"}});
              }).find("labels[1]: expected "),
              0u);
}

TEST_F(Predict, WithoutManyLabelsTheOthersAreGathered) {
    write_tiny_data(temp / "data", {.labels = 1300});
    config.steps = 3;
    train_run();
    const auto full = answer({}, 1300);
    std::string without;
    std::vector<Prediction> expected;
    for (const Prediction& p : full) {
        if (p.label % 13 == 4)
            expected.push_back(p);
        else
            without += fmt::format("{}\n", p.label);
    }
    write_text(temp / "without.txt", without);
    const auto rest = answer({.without = temp / "without.txt"}, 1300);
    ASSERT_EQ(rest.size(), expected.size());
    for (std::size_t i = 0; i < rest.size(); ++i) {
        EXPECT_EQ(rest[i].label, expected[i].label);
        EXPECT_EQ(rest[i].score, expected[i].score);
    }
}

TEST_F(Predict, ARunServesAsATokenizer) {
    train_run();
    Config of_run, of_checkpoint;
    of_run.tokenizer = config.out;
    of_checkpoint.tokenizer = config.out + "/best";
    EXPECT_EQ(TextEncoder(quiet(), of_run).encode(text), TextEncoder(quiet(), of_checkpoint).encode(text));
}

// A run from somebody else may hold any weights. NaN has no place in an order: sorting with it ends anywhere.
TEST_F(Predict, WeightsThatOverflowGiveNumbers) {
    const auto huge = [](std::size_t i) { return i % 3 == 0 ? -3e38f : 3e38f; };
    Config other;
    other.data = config.data;
    other.cache = config.cache;
    other.encoder = "linear";
    other.device = "cpu";
    other.threads = 1;
    other.out = temp / "linear";
    train(quiet(), other);
    const std::filesystem::path folder = temp / "linear/best";
    LinearModel model = load_linear_model(InputFolder(folder), 37);
    for (std::size_t i = 0; i < model.trees.weights.size(); ++i) model.trees.weights[i] = to_bf16(huge(i));
    for (std::size_t i = 0; i < model.neighbours.values.size(); ++i)
        model.neighbours.values[i] = to_bf16(huge(i));
    std::vector<std::uint64_t> hashes(model.vocabulary.hashes().begin(), model.vocabulary.hashes().end());
    std::vector<float> weights(hashes.size());
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 2 == 0 ? 3.4e38f : 1;
    model.vocabulary = Vocabulary(std::move(hashes), std::move(weights));
    save_linear_model(folder, model);
    write_manifest(folder);
    Config all = config, all_cpu;
    all.top = all_cpu.top = 37;
    all_cpu.device = "cpu";
    const auto answers = Predictor(quiet(), other.out, all_cpu).predict({text + " " + text});
    for (const Prediction& p : answers[0])
        EXPECT_TRUE(std::isfinite(p.score) && std::isfinite(p.probability)) << p.name;

    config.precision = "fp32";
    train_run();
    const std::filesystem::path best = std::filesystem::path(config.out) / "best";
    const std::int64_t width = stored_head(InputFolder(best)).width;
    std::vector<float> rows(static_cast<std::size_t>(37 * width));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = huge(i * i / 7);
    std::fill_n(rows.begin() + width, width, 1.0f);
    write_head(best, DType::kF32, 37, width, [&](std::int64_t row) {
        return std::as_bytes(std::span(rows).subspan(static_cast<std::size_t>(row * width)));
    });
    write_manifest(best);
    Predictor predictor(quiet(), config.out, all);
    for (const std::int64_t label : {0, 1, 36})
        for (const NearLabel& near : predictor.nearest_labels(label, 37))
            EXPECT_TRUE(std::isfinite(near.similarity)) << near.name;
}

TEST_F(Predict, LabelFilesThatAreWrongAreNamed) {
    const std::vector<std::string_view> names = {"a", "b", "a", "1"};
    write_text(temp / "list", "a\n1\n");
    EXPECT_EQ(read_label_list(temp / "list", names, 4), (std::vector<std::int64_t>{0, 2, 3}));
    EXPECT_EQ(read_label_list(temp / "list", {"a", "b"}, 2), (std::vector<std::int64_t>{0, 1}));
    write_text(temp / "list", "b\nc\nd\n");
    const std::string message = message_of<DataError>([&] { read_label_list(temp / "list", names, 4); });
    EXPECT_NE(message.find("list:2: expected the name of a label or a label number from 0 to 3, found 'c'"),
              std::string::npos)
        << message;
    for (const char* bad : {"4\n", "-1\n", "1x\n", "99999999999999999999\n", "\n", ""}) {
        write_text(temp / "list", bad);
        EXPECT_THROW(read_label_list(temp / "list", {}, 4), DataError) << bad;
    }
    EXPECT_THROW(read_label_list(temp / "absent", names, 4), DataError);
    EXPECT_EQ(all_labels_but({0, 3}, 5), (std::vector<std::int64_t>{1, 2, 4}));
}

TEST_F(Predict, CalibratedProbabilitiesAreKeptWithTheRunAndUsed) {
    config.validation = "0.3";
    train_run();
    const auto raw = answer({});
    Config asked = config;
    asked.probabilities = "calibrated";
    EXPECT_THROW(Predictor(quiet(), config.out, asked), ConfigError);
    asked.probabilities = "auto";
    asked.threshold = -1;
    EXPECT_THROW(Predictor(quiet(), config.out, asked), ConfigError);

    const Calibration c = calibrate(quiet(), config.out, config);
    EXPECT_GT(c.a, 0);
    EXPECT_EQ(c.top, 20);
    EXPECT_EQ(c.pairs, 20 * c.rows);
    EXPECT_GT(c.right, 0);
    EXPECT_LE(c.right, c.positives);
    EXPECT_LT(c.log_loss, c.log_loss_raw);
    EXPECT_TRUE(std::filesystem::exists(config.out + "/calibration-best.json"));

    Predictor predictor(quiet(), config.out, config);
    EXPECT_TRUE(predictor.calibrated());
    const auto now = predictor.predict({text})[0];
    ASSERT_EQ(now.size(), raw.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
        EXPECT_EQ(now[i].label, raw[i].label);
        EXPECT_EQ(now[i].score, raw[i].score);
        EXPECT_FLOAT_EQ(now[i].probability, 1 / (1 + std::exp(-(c.a * now[i].score + c.b))));
        EXPECT_FLOAT_EQ(raw[i].probability, 1 / (1 + std::exp(-raw[i].score)));
    }
    asked.threshold = -1;
    const auto sure = Predictor(quiet(), config.out, asked).predict({text});
    for (const Prediction& p : sure[0]) EXPECT_GE(p.probability, static_cast<float>(c.f1_threshold));
    asked = config;
    asked.probabilities = "raw";
    EXPECT_EQ(Predictor(quiet(), config.out, asked).predict({text})[0][0].probability, raw[0].probability);

    // Other weights: not used. Damaged: an error.
    const std::string kept = read_text(config.out + "/calibration-best.json");
    std::string flipped = kept;
    char& digit = flipped[flipped.find("\"a\": ") + 5];
    digit = digit == '1' ? '2' : '1';
    write_text(config.out + "/calibration-best.json", flipped);
    EXPECT_NE(message_of<DataError>([&] { Predictor(quiet(), config.out, config); }).find("checksum"),
              std::string::npos);
    auto older = nlohmann::json::parse(kept);  // of a version that wrote no checksum
    older.erase("xxh64");
    write_text(config.out + "/calibration-best.json", older.dump());
    EXPECT_TRUE(Predictor(quiet(), config.out, config).calibrated());
    config.steps = 41;
    config.overwrite = true;
    train_run();
    EXPECT_FALSE(std::filesystem::exists(config.out + "/calibration-best.json"));
    write_text(config.out + "/calibration-best.json", kept);
    EXPECT_FALSE(Predictor(quiet(), config.out, config).calibrated());
    write_text(config.out + "/calibration-best.json", "{\"method\": \"platt\", \"a\": []}");
    EXPECT_THROW(Predictor(quiet(), config.out, config), DataError);
}

TEST_F(Predict, EvaluationCountsTextsThatMayHaveMoreAnswersAsPredictionDoes) {
    write_tiny_data(temp / "data", {.labels = 150});
    train_run();
    std::vector<std::string> texts;
    std::istringstream lines(read_text(temp / "data/tst_X.txt"));
    for (std::string line; std::getline(lines, line);) texts.push_back(line);
    Config deep = config;
    deep.top = 100;
    std::vector<double> last;  // of the 100 best labels of each text
    for (const auto& ranked : Predictor(quiet(), config.out, deep).predict(texts))
        last.push_back(Platt{}.probability(ranked.back().score));
    std::ranges::sort(last);
    // Label 0 alone has the lowest threshold: nearly nothing is answered, but half of the texts may have
    // more.
    const double lowest = last[last.size() / 2];
    const auto expected = last.end() - std::ranges::lower_bound(last, lowest);
    Calibration c;
    c.f1_threshold = 0.99;
    c.label_thresholds.emplace();
    c.label_thresholds->labels = {0};
    c.label_thresholds->thresholds = {lowest};
    write_calibration(Checkpoint(config.out, "best"), c);
    for (const bool of_labels : {true, false}) {
        Config asked = config;
        asked.label_thresholds = of_labels;
        if (!of_labels) asked.threshold = lowest;
        Predictor predictor(quiet(), config.out, asked);
        predictor.predict(texts);
        EXPECT_EQ(predictor.cut_answers(), expected);
        std::string said;
        Sinks sinks = silent();
        sinks.message = [&](Severity, std::string_view message) { said += std::string(message) + "\n"; };
        const Evaluation e = evaluate(quiet().with_sinks(sinks), config.out, asked);
        EXPECT_EQ(e.at_threshold->cut_texts, expected);
        EXPECT_NE(said.find(of_labels ? fmt::format("{} texts whose 100 best labels are all above the lowest "
                                                    "threshold, so that others may be above theirs",
                                                    expected)
                                      : fmt::format(
                                            "{} texts with 100 labels or more above the threshold of {:.4g}",
                                            expected, lowest)),
                  std::string::npos)
            << said;
    }
}

TEST_F(Predict, CalibrationLooksAtAsManyLabelsAsEvaluationForThresholds) {
    // Texts of four kinds: three have 30 labels each, the fourth has 10, so some of the 20 best are wrong.
    const auto part = [&](const char* name, int rows) {
        std::string texts, labels = fmt::format("{} 100\n", rows);
        for (int i = 0; i < rows; ++i) {
            texts += fmt::format("the thing {} number {}\n", word_of(i % 4), i);
            const int first = 30 * (i % 4), end = std::min(first + 30, 100);
            for (int l = first; l < end; ++l) labels += fmt::format("{}:1{}", l, l + 1 < end ? " " : "\n");
        }
        write_text(temp / fmt::format("data/{}_X.txt", name), texts);
        write_text(temp / fmt::format("data/{}_X_Y.txt", name), labels);
    };
    part("trn", 200);
    part("tst", 4);
    std::filesystem::remove(temp / "data/Y.txt");
    config.validation = "0.3";
    config.steps = 60;
    for (const char* encoder : {"bag", "linear"}) {
        config.encoder = encoder;
        config.out = temp / encoder;
        if (config.encoder == "linear") config.device = "auto";
        train_run();
        Config asked = config;
        asked.label_thresholds = true;
        const Calibration c = calibrate(quiet(), config.out, asked);
        EXPECT_EQ(c.pairs, 20 * c.rows);
        asked.split = "validation";
        const ThresholdScores own = *evaluate(quiet(), config.out, asked).at_threshold;
        asked.label_thresholds = false;
        asked.threshold = -1;
        const ThresholdScores common = *evaluate(quiet(), config.out, asked).at_threshold;
        // The rows are learnt, so evaluation and a fit on either half find nearly all; with 20 labels per
        // text no micro F1 is above 83.
        const LabelThresholds& said = *c.label_thresholds;
        for (const double f1 : {common.micro.f1, common.macro.f1, own.micro.f1, own.macro.f1,
                                said.micro_f1_common, said.macro_f1_common, said.micro_f1, said.macro_f1})
            EXPECT_GT(f1, 95) << encoder;
    }
}

class PredictFiles : public Predict {
  protected:
    void SetUp() override {
        Predict::SetUp();
        train_run();
        for (int i = 0; i < 30; ++i)
            lines.push_back(fmt::format("the thing {} beside {}", word_of(i % 12), word_of(i % 7)));
        config.batch_size = 4;
        config.out = temp / "answers.jsonl";
    }
    std::string run() const { return temp / "run"; }
    void write_inputs() {
        std::string first, second;
        for (int i = 0; i < 30; ++i) (i < 11 ? first : second) += lines[static_cast<std::size_t>(i)] + "\n";
        write_text(temp / "first.txt", first);
        write_text(temp / "second.txt", second);
        files = {temp / "first.txt", temp / "second.txt"};
    }
    std::vector<std::string> lines, files;
};

TEST_F(PredictFiles, AnInterruptedCallIsContinuedToTheSameBytes) {
    write_inputs();
    PredictedFiles done = predict_files(quiet(), run(), files, {}, config);
    EXPECT_EQ(done.texts, 30);
    EXPECT_EQ(done.resumed, 0);
    const std::string whole = read_text(config.out);
    EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 30);
    const auto last = nlohmann::json::parse(whole.substr(whole.rfind('\n', whole.size() - 2) + 1));
    EXPECT_EQ(last["file"], files[1]);
    EXPECT_EQ(last["line"], 19);
    EXPECT_FALSE(std::filesystem::exists(config.out + ".partial"));
    EXPECT_FALSE(std::filesystem::exists(config.out + ".partial.json"));
    EXPECT_FALSE(std::filesystem::exists(config.out + ".partial.texts"));
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, config), ConfigError);  // it is there
    Config again = config;
    again.resume = true;
    EXPECT_EQ(predict_files(quiet(), run(), files, {}, again).resumed, 30);

    // An unreadable text in the middle stops the call; once repaired, the call continues.
    const std::string good = lines[20];
    lines[20][4] = '\xff';
    write_inputs();
    Config other = config;
    other.out = temp / "other.jsonl";
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, other), DataError);
    EXPECT_FALSE(std::filesystem::exists(other.out));
    const std::string partial = read_text(other.out + ".partial");
    EXPECT_EQ(partial, whole.substr(0, partial.size()));
    EXPECT_EQ(std::count(partial.begin(), partial.end(), '\n'),
              19);  // 3 batches of the first file, 2 of the second
    write_text(other.out + ".partial", partial + "{\"line\": 9, \"lab");  // torn
    lines[20] = good;
    write_inputs();
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, other), ConfigError);
    other.resume = true;
    Config changed = other;
    changed.top = 3;
    EXPECT_NE(message_of<ConfigError>([&] {
                  predict_files(quiet(), run(), files, {}, changed);
              }).find("another top"),
              std::string::npos);
    EXPECT_THROW(predict_files(quiet(), run(), {files[0]}, {}, other), ConfigError);
    changed = other;
    Config batched = changed;  // few texts at a time are scored by other sums
    batched.batch_size = 7;
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, batched), ConfigError);
    done = predict_files(quiet(), run(), files, {}, changed);
    EXPECT_EQ(done.texts, 30);
    EXPECT_EQ(done.resumed, 19);
    EXPECT_EQ(read_text(other.out), whole);
}

TEST_F(PredictFiles, AllHeadersAreReadBeforeTheFirstAnswer) {
    write_text(temp / "a.csv", "id,text\n1,one\n");
    write_text(temp / "b.csv", "id,title\n1,one\n");
    for (const char* second : {"b.csv", "missing.csv"}) {
        EXPECT_THROW(predict_files(quiet(), run(), {temp / "a.csv", temp / second}, {}, config), DataError);
        EXPECT_FALSE(std::filesystem::exists(config.out + ".partial")) << second;
    }
    write_text(temp / "b.csv", "id,text\n1,one\n");
    EXPECT_EQ(predict_files(quiet(), run(), {temp / "a.csv", temp / "b.csv"}, {}, config).texts, 2);
}

// What a crash of the machine may leave between answers is done again; more answers than texts are refused.
TEST_F(PredictFiles, OnlyWholeAnswersOfADamagedPartialFileAreKept) {
    const std::string good = lines[20];
    write_inputs();
    Config reference = config;
    reference.out = temp / "whole.jsonl";
    predict_files(quiet(), run(), files, {}, reference);
    const std::string whole = read_text(reference.out);
    lines[20][4] = '\xff';
    write_inputs();
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, config), DataError);
    lines[20] = good;
    write_inputs();
    config.resume = true;
    const std::string partial = read_text(config.out + ".partial"),
                      call = read_text(config.out + ".partial.json"),
                      texts = read_text(config.out + ".partial.texts");
    std::size_t third = 0;  // the end of the third line
    for (int i = 0; i < 3; ++i) third = partial.find('\n', third) + 1;
    const std::string front = partial.substr(0, third), back = partial.substr(third);
    for (const std::string& hole : {std::string(100, '\0'), std::string(100, '\0') + "\n", std::string("\n"),
                                    std::string("{\"line\": 4, \"la\n"), std::string("}\n")}) {
        write_text(config.out + ".partial", front + hole + back);
        write_text(config.out + ".partial.json", call);
        write_text(config.out + ".partial.texts", texts);
        EXPECT_EQ(predict_files(quiet(), run(), files, {}, config).resumed, 3);
        EXPECT_EQ(read_text(config.out), whole);
        std::filesystem::remove(config.out);
    }
    // Answers beyond the texts that are known to be answered are done again.
    write_text(config.out + ".partial", partial);
    write_text(config.out + ".partial.json", call);
    write_text(config.out + ".partial.texts", texts.substr(0, 5 * 8 + 3));
    EXPECT_EQ(predict_files(quiet(), run(), files, {}, config).resumed, 5);
    EXPECT_EQ(read_text(config.out), whole);
    std::filesystem::remove(config.out);
    write_text(config.out + ".partial", partial);
    write_text(config.out + ".partial.json", call);
    write_text(config.out + ".partial.texts", texts.substr(0, 7 * 8) + std::string(80, '\0'));
    EXPECT_EQ(predict_files(quiet(), run(), files, {}, config).resumed, 7);
    EXPECT_EQ(read_text(config.out), whole);
    std::filesystem::remove(config.out);

    std::string all;
    for (std::size_t i = 0; i < 33; ++i) {
        const std::uint64_t hash = hash64(lines[i % 30]);
        all.append(reinterpret_cast<const char*>(&hash), sizeof hash);
    }
    write_text(config.out + ".partial", whole + front);
    write_text(config.out + ".partial.json", call);
    write_text(config.out + ".partial.texts", all);
    const std::string message =
        message_of<DataError>([&] { predict_files(quiet(), run(), files, {}, config); });
    EXPECT_NE(message.find(".partial: expected at most 30 answers"), std::string::npos) << message;
    EXPECT_FALSE(std::filesystem::exists(config.out));
}

// Another text where one was answered, in a file of the same name and size; and other ways to read or
// compute.
TEST_F(PredictFiles, AnswersToOtherTextsAreNotContinued) {
    const std::string good = lines[20];
    lines[20][4] = '\xff';
    write_inputs();
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, config), DataError);
    const std::string partial = read_text(config.out + ".partial");
    lines[20] = good;
    std::swap(lines[12][4], lines[12][5]);  // the second text of the second file
    write_inputs();
    config.resume = true;
    const std::string message =
        message_of<ConfigError>([&] { predict_files(quiet(), run(), files, {}, config); });
    EXPECT_NE(message.find("second.txt: text 2 is another"), std::string::npos) << message;
    EXPECT_EQ(read_text(config.out + ".partial"), partial);
    std::swap(lines[12][4], lines[12][5]);
    write_inputs();
    for (const auto& [key, value] :
         {std::pair("encoding", "latin-1"), {"cpu_products", "fp32"}, {"device", "cpu"}}) {
        Config other = config;
        set_option(other, key, value);
        EXPECT_NE(message_of<ConfigError>([&] {
                      predict_files(quiet(), run(), files, {}, other);
                  }).find(fmt::format("another {}", key)),
                  std::string::npos)
            << key;
    }
    EXPECT_EQ(predict_files(quiet(), run(), files, {}, config).resumed, 19);
}

TEST_F(PredictFiles, OverwriteStartsAgainAndWrongCallsAreRefused) {
    write_inputs();
    {
        const FileLock other(config.out + ".partial");  // as a second process would hold it
        for (const bool resume : {false, true}) {
            Config second = config;
            (resume ? second.resume : second.overwrite) = true;
            EXPECT_NE(message_of<ConfigError>([&] {
                          predict_files(quiet(), run(), files, {}, second);
                      }).find("another process or thread is writing"),
                      std::string::npos);
        }
    }
    write_text(config.out, "old\n");
    config.overwrite = true;
    EXPECT_EQ(predict_files(quiet(), run(), {files[0]}, {}, config).texts, 11);
    EXPECT_EQ(
        nlohmann::json::parse(read_text(config.out).substr(0, read_text(config.out).find('\n')))["line"], 1);
    EXPECT_THROW(predict_files(quiet(), run(), {}, {}, config), ConfigError);
    EXPECT_THROW(predict_files(quiet(), run(), {"-"}, {}, config), ConfigError);
    EXPECT_THROW(predict_files(quiet(), run(), {temp / "absent"}, {}, config), DataError);
    config.out = temp / "data";
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, config), ConfigError);
    config.out = temp / "pipe";  // the finished file would take its place
    ASSERT_EQ(mkfifo(config.out.c_str(), 0600), 0);
    EXPECT_THROW(predict_files(quiet(), run(), files, {}, config), ConfigError);
    EXPECT_TRUE(std::filesystem::is_fifo(config.out));
}

}  // namespace
}  // namespace elmo
