// What the server answers, beside what the library says to the same question.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>

#include "elmo/evaluation.h"
#include "elmo/explain.h"
#include "elmo/predictor.h"
#include "elmo/resolve.h"
#include "elmo/vector_head.h"
#include "serve/served.h"

namespace elmo {
namespace {

using namespace test;
using Json = nlohmann::json;

Json texts_body(const std::vector<std::string>& texts, Json more = Json::object()) {
    more["texts"] = texts;
    return more;
}

std::string labels_json(const std::vector<Prediction>& labels) {
    JsonLine line;
    line.value(labels);
    return line.text();
}

class Answers : public Serve {
  protected:
    Json predict(const Json& body) {
        const Reply reply = client().post("/v1/predict", body.dump());
        EXPECT_EQ(reply.status, 200) << reply.body;
        return reply.json();
    }
    // The same through the library.
    std::vector<std::vector<Prediction>> expected(const std::string& run, std::int64_t top,
                                                  double threshold = 0, const LabelScope& scope = {}) {
        Config c = config();
        c.top = top;
        c.threshold = threshold;
        return Predictor(quiet(), run, resolve_for_run(run, c), scope).predict(texts);
    }
    const std::vector<std::string> texts = {text, "", word_of(7) + " \u00fc \U0001F600 " + word_of(8)};
};

// The tensors of a binary answer hold what those of an answer in JSON do.
void check_binary(const Reply& reply, const Json& wanted) {
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_NE(reply.head.find("Content-Type: application/octet-stream"), std::string::npos) << reply.head;
    const std::size_t at = reply.head.find("Inference-Header-Content-Length: ");
    ASSERT_NE(at, std::string::npos) << reply.head;
    const std::size_t json_length = std::stoul(reply.head.substr(at + 33));
    const Json found = Json::parse(reply.body.substr(0, json_length));
    std::string_view rest = std::string_view(reply.body).substr(json_length);
    const auto take = [&]<typename T>(T) {
        T value{};
        if (rest.size() < sizeof(T)) throw std::runtime_error("the binary data ends early");
        std::memcpy(&value, rest.data(), sizeof(T));
        rest.remove_prefix(sizeof(T));
        return value;
    };
    ASSERT_EQ(found["outputs"].size(), wanted["outputs"].size());
    for (std::size_t i = 0; i < found["outputs"].size(); ++i) {
        const Json &tensor = found["outputs"][i], &other = wanted["outputs"][i];
        EXPECT_EQ(tensor["name"], other["name"]);
        EXPECT_EQ(tensor["shape"], other["shape"]);
        if (tensor.contains("data")) {
            EXPECT_EQ(tensor["data"], other["data"]);
            continue;
        }
        const std::size_t before = rest.size();
        for (const Json& value : other["data"]) {
            if (tensor["datatype"] == "INT64") {
                EXPECT_EQ(take(std::int64_t{}), value.get<std::int64_t>());
            } else if (tensor["datatype"] == "FP32") {
                EXPECT_EQ(take(float{}), value.get<float>());
            } else {
                const auto length = take(std::uint32_t{});
                EXPECT_EQ(rest.substr(0, length), value.get<std::string>());
                rest.remove_prefix(length);
            }
        }
        EXPECT_EQ(tensor["parameters"]["binary_data_size"], before - rest.size());
    }
    EXPECT_TRUE(rest.empty());
}

TEST_F(Answers, ARunOfFeaturesTakesFeaturesAndIsWarmWithoutAWord) {
    TempFolder folder;
    std::string rows = "80 8 4\n";
    for (int i = 0; i < 80; ++i) rows += fmt::format("{} {}:1 {}:0.5\n", i % 4, i % 4, 4 + i % 3);
    Config trained = config();
    trained.data = folder / "x_train.txt";
    std::ofstream(trained.data) << rows;
    trained.cache = folder / "cache";
    trained.encoder = "bag";
    trained.width = 16;
    trained.steps = 60;
    trained.out = folder / "run";
    train(quiet(), trained);
    std::vector<std::string> said;
    Sinks sinks = silent();
    sinks.message = [&](Severity severity, std::string_view message) {
        if (severity == Severity::kWarning) said.emplace_back(message);
    };
    options.port = 0;
    server = std::make_unique<Server>(quiet().with_sinks(sinks), std::vector{trained.out}, config(), options);
    const Json answers = predict(texts_body({"2:1 5:0.5", "2 2 5"}))["answers"];
    EXPECT_EQ(answers.at(0).at("labels"), answers.at(1).at("labels"));
    EXPECT_EQ(said, std::vector<std::string>());
}

TEST_F(Answers, AreThoseOfThePredictor) {
    for (const std::string& run : {bag(), linear()}) {
        start({run});
        for (const std::int64_t top : {1, 5, 37}) {
            const auto wanted = expected(run, top);
            const Json reply = predict(texts_body(texts, {{"top", top}}));
            ASSERT_EQ(reply["answers"].size(), texts.size());
            for (std::size_t i = 0; i < texts.size(); ++i) {
                EXPECT_EQ(reply["answers"][i]["line"], i + 1);
                EXPECT_EQ(reply["answers"][i]["labels"], Json::parse(labels_json(wanted[i])));
            }
        }
        EXPECT_EQ(predict({{"text", text}})["answers"][0]["labels"],
                  Json::parse(labels_json(expected(run, 5)[0])));
        EXPECT_TRUE(predict(texts_body({}))["answers"].empty());
    }
}

// Texts of a large request are tokenized by another thread than those of a small one.
TEST_F(Answers, DoNotDependOnTheSizeOfTheRequest) {
    options.max_texts = 100'000;
    start();
    const std::string name = word_of(1);
    const Json few = predict(texts_body({text, name}));
    std::vector<std::string> many(16'000, text);
    many.back() = name;
    const Json reply = predict(texts_body(many));
    ASSERT_GT(texts_body(many).dump().size(), std::size_t{256} << 10);
    ASSERT_EQ(reply["answers"].size(), many.size());
    const auto labels = [](const Json& answer) {
        std::vector<std::int64_t> found;
        for (const Json& label : answer["labels"]) found.push_back(label["label"]);
        return found;
    };
    for (std::size_t i = 0; i < many.size(); i += 1000)
        EXPECT_EQ(labels(reply["answers"][i]), labels(few["answers"][0])) << i;
    EXPECT_EQ(labels(reply["answers"].back()), labels(few["answers"][1]));
}

// What Predictor::predict does at once, in parts.
TEST_F(Answers, InPartsAreTheSame) {
    for (const std::string& run : {bag(), linear()}) {
        Config c = config();
        c.top = 20;
        Predictor predictor(quiet(), run, resolve_for_run(run, c));
        Question question;
        question.top = 7;
        question.threshold = 1e-4;
        const std::string other = word_of(2);
        TokenizedTexts joined = predictor.tokenize(std::vector<std::string>{other});
        joined.append(predictor.tokenize(texts));
        ASSERT_EQ(joined.size(), 4);
        const auto rankings = predictor.rank(joined, question);
        const auto found = predictor.answer(*rankings, 1, 3);
        std::vector<std::string> all = {other};
        all.insert(all.end(), texts.begin(), texts.end());
        const auto wanted = predictor.predict(all, question);
        ASSERT_EQ(found.size(), texts.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            EXPECT_EQ(labels_json(found[i]), labels_json(wanted[i + 1]));
    }
}

TEST_F(Answers, KeepToThresholdAndLabels) {
    for (const std::string& run : {bag(), linear()}) {
        start({run});
        const auto check = [&](const Json& body, const std::vector<std::vector<Prediction>>& wanted) {
            const Json reply = predict(body);
            for (std::size_t i = 0; i < texts.size(); ++i)
                EXPECT_EQ(reply["answers"][i]["labels"], Json::parse(labels_json(wanted[i]))) << body;
        };
        check(texts_body(texts, {{"threshold", 0.05}}), expected(run, 100, 0.05));
        check(texts_body(texts, {{"threshold", 0}}), expected(run, 100));
        check(texts_body(texts, {{"threshold", 0}, {"top", 2}}), expected(run, 2));
        check(texts_body(texts, Json::object()), expected(run, 5));
        const LabelScope among{.label_list = {"kind 30", "7", "2", "36", "3"}};
        check(texts_body(texts, {{"labels", {"kind 30", "7", 2, 36, 3}}, {"top", 4}}),
              expected(run, 4, 0, among));
        check(texts_body(texts, {{"labels", {"kind 30", "7", 2, 36, 3}}, {"top", 4}}),
              expected(run, 4, 0, among));
        const LabelScope without{.without_list = {"kind 5", "1"}};
        check(texts_body(texts, {{"without", {"kind 5", 1}}, {"top", 7}}), expected(run, 7, 0, without));
    }
}

// "10" comes before "2": names that are numbers are not the numbers of their labels.
TEST_F(Answers, AJsonNumberIsTheNumberOfALabelAndATextItsNameFirst) {
    const TempFolder folder;
    std::ofstream rows(folder.path() / "rows.csv");
    rows << "text,labels\n";
    for (int i = 0; i < 120; ++i) rows << "thing " << word_of(i % 12) << " " << i << "," << i % 12 << "\n";
    rows.close();
    Config c = config();
    c.data = (folder.path() / "rows.csv").string();
    c.encoder = "linear";
    c.out = (folder.path() / "run").string();
    train(quiet(), c);
    start({c.out});
    const auto answered = [&](const char* field, const Json& label, std::size_t at) {
        const Json body = {{"text", "thing"}, {field, Json::array({label})}, {"top", 100}};
        return predict(body)["answers"][0]["labels"].at(at)["name"];
    };
    EXPECT_EQ(answered("labels", 2, 0), "10");
    EXPECT_EQ(answered("labels", "2", 0), "2");
    for (const Json& label : {Json(2), Json("10")}) {
        const Json body = {{"text", "thing"}, {"without", Json::array({label})}, {"top", 100}};
        const Json left = predict(body)["answers"][0]["labels"];
        EXPECT_EQ(left.size(), 11U);
        for (const Json& answer : left) EXPECT_NE(answer["name"], "10");
    }
    const Reply explained = client().post("/v1/explain", Json{{"text", "thing"}, {"labels", {2}}}.dump());
    ASSERT_EQ(explained.status, 200) << explained.body;
    EXPECT_EQ(explained.json()["labels"][0]["label"], 2);
    // Text, as all of a query is.
    EXPECT_EQ(client().get("/v1/label?label=2").json()["name"], "2");
    for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{12}, std::int64_t{1} << 40}) {
        const Reply refused =
            client().post("/v1/predict", Json{{"text", "thing"}, {"labels", {0, number}}}.dump());
        EXPECT_EQ(refused.status, 400);
        EXPECT_EQ(refused.json()["error"], "labels[1]: expected a label number from 0 to 11, found " +
                                               std::to_string(number) + "; a name stands in quotes");
    }
}

TEST_F(Answers, OfTextsTogetherAreThoseOfEachByItself) {
    start({linear()});
    std::vector<std::future<std::string>> replies;
    for (int i = 0; i < 40; ++i)
        replies.push_back(std::async(std::launch::async, [&, i] {
            return client()
                .post("/v1/predict", Json{{"text", word_of(i % 37)}}.dump())
                .json()["answers"]
                .dump();
        }));
    for (int i = 0; i < 40; ++i)
        EXPECT_EQ(replies[static_cast<std::size_t>(i)].get(),
                  predict({{"text", word_of(i % 37)}})["answers"].dump());
}

TEST_F(Answers, EmbedGivesTheVectors) {
    start();
    const Reply reply = client().post("/v1/embed", texts_body(texts).dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Embeddings wanted = Predictor(quiet(), bag(), resolve_for_run(bag(), config())).embed(texts);
    EXPECT_EQ(reply.json()["width"], wanted.width);
    for (std::int64_t i = 0; i < wanted.rows; ++i) {
        const auto row = wanted.row(i);
        EXPECT_EQ(reply.json()["vectors"][static_cast<std::size_t>(i)].get<std::vector<float>>(),
                  std::vector<float>(row.begin(), row.end()));
    }
    start({linear()});
    const Reply refused = client().post("/v1/embed", texts_body(texts).dump());
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.error().find("a linear model has no text vectors"), std::string::npos);
    EXPECT_EQ(refused.json()["field"], "model");
}

TEST_F(Answers, ToVectorsAreThoseToTheirTexts) {
    start();
    const Embeddings vectors = Predictor(quiet(), bag(), resolve_for_run(bag(), config())).embed(texts);
    Json rows = Json::array();
    for (std::int64_t i = 0; i < vectors.rows; ++i) {
        const auto row = vectors.row(i);
        rows.push_back(std::vector<float>(row.begin(), row.end()));
    }
    for (const Json& more : {Json{{"top", 7}}, Json{{"top", 2}, {"labels", {3, 5, 9}}}}) {
        Json of_vectors = more;
        of_vectors["vectors"] = rows;
        EXPECT_EQ(predict(of_vectors), predict(texts_body(texts, more)));
    }
    EXPECT_TRUE(predict({{"vectors", Json::array()}})["answers"].empty());
    const auto refused = [&](const Json& body, const std::string& field) {
        const Reply reply = client().post("/v1/predict", body.dump());
        EXPECT_EQ(reply.status, 400) << reply.body;
        EXPECT_EQ(reply.field(), field) << reply.body;
    };
    refused({{"vectors", {{1, 2}, {1}}}}, "vectors[1]");
    refused({{"vectors", {{1, 2}}}}, "vectors");
    refused({{"vectors", {{1, "x"}}}}, "vectors[0][1]");
    refused({{"vectors", rows}, {"text", "a"}}, "vectors");
    start({linear()});
    refused({{"vectors", {{1, 2}}}}, "vectors");
}

TEST_F(Answers, ExplainNamesTheWordThatCarriesALabel) {
    for (const std::string& run : {bag(), linear()}) {
        start({run});
        const Reply reply = client().post(
            "/v1/explain", Json{{"text", text}, {"labels", {"kind 5", "kind 1"}}, {"top", 2}}.dump());
        ASSERT_EQ(reply.status, 200) << reply.body;
        const Json explained = reply.json();
        ASSERT_EQ(explained["words"].size(), 7u);
        EXPECT_EQ(explained["words"][2]["word"], word_of(5));
        EXPECT_EQ(explained["words"][2]["begin"], 10);
        for (const Json& label : explained["labels"]) {
            const auto effects = label["effects"].get<std::vector<double>>();
            ASSERT_EQ(effects.size(), 7u);
            const auto most = std::max_element(effects.begin(), effects.end()) - effects.begin();
            EXPECT_EQ(explained["words"][static_cast<std::size_t>(most)]["word"],
                      word_of(label["label"].get<int>()))
                << run << label;
            EXPECT_GT(effects[static_cast<std::size_t>(most)], 0);
        }
        // Longer than words are counted one by one, and without a word.
        std::string longer;
        for (int i = 0; i < 1000; ++i) longer += word_of(i % 37) + " ";
        EXPECT_EQ(client().post("/v1/explain", Json{{"text", longer}}.dump()).json()["words"].size(), 250u);
        EXPECT_EQ(client().post("/v1/explain", Json{{"text", "  "}}.dump()).json()["words"].size(), 0u);
        EXPECT_EQ(client().post("/v1/explain", Json{{"text", " ."}}.dump()).json()["words"].size(), 1u);
    }
}

TEST_F(Answers, ExplainAnswersWithAllLabelsThatAreAskedFor) {
    Config uncertain = config();
    set_option(uncertain, "threshold", "0.9");
    const auto count = [&](const Json& more) {
        Json body = more;
        body["text"] = text;
        return client().post("/v1/explain", body.dump()).json()["labels"].size();
    };
    const Json six = {1, 2, 3, 4, 5, 6};
    for (const std::string& run : {bag(), linear()}) {
        options.port = 0;
        server = std::make_unique<Server>(quiet(), std::vector{run}, uncertain, options);
        EXPECT_EQ(count({{"labels", six}}), 6u);
        EXPECT_EQ(count({{"labels", six}, {"top", 2}, {"threshold", 0}}), 2u);
    }
    start();
    EXPECT_EQ(count(Json::object()), 3u);
    EXPECT_EQ(count({{"top", 10}}), 10u);
}

TEST_F(Answers, ExplainLeavesOutNothingButTheWord) {
    const std::string a = word_of(5), b = word_of(1), c = word_of(7);
    // A text, and what it is without each of its words.
    const std::vector<std::pair<std::string, std::vector<std::string>>> texts = {
        {a + ". " + b, {". " + b, a + " " + b, a + "."}},
        {a + " " + b + ", " + c, {b + ", " + c, a + ", " + c, a + " " + b + " " + c, a + " " + b + ","}},
        {a + " (" + b + ") " + c,
         {"(" + b + ") " + c, a + " " + b + ") " + c, a + " () " + c, a + " (" + b + " " + c,
          a + " (" + b + ")"}},
        {" " + a + " - " + b + "\n" + c + " ",
         {" - " + b + "\n" + c + " ", " " + a + " " + b + "\n" + c + " ", " " + a + " -\n" + c + " ",
          " " + a + " - " + b + "\n "}},
        {a + "-" + b, {"-" + b, a + b, a + "-"}},
        {a, {""}},
    };
    for (const std::string& run : {bag(), linear()}) {
        Predictor predictor(quiet(), run, resolve_for_run(run, config()));
        Question question;
        question.labels = {1};
        question.top = 1;
        for (const auto& [whole, without] : texts) {
            std::vector<std::string> asked = {whole};
            asked.insert(asked.end(), without.begin(), without.end());
            const auto scored = predictor.predict(asked, question);
            const Explanation explained = explain_answers(predictor, whole, question);
            ASSERT_EQ(explained.words.size(), without.size()) << whole;
            for (std::size_t i = 0; i < without.size(); ++i)
                EXPECT_EQ(explained.labels[0].effects[i], scored[0][0].score - scored[i + 1][0].score)
                    << run << ": '" << explained.words[i].word << "' of '" << whole << "'";
        }
    }
}

TEST_F(Answers, ExplainTakesLabelsInPartsWhereThePredictorHasLessRoom) {
    const auto explained = [&](const char* top) {
        Config given = config();
        set_option(given, "top", top);
        Predictor predictor(quiet(), bag(), resolve_for_run(bag(), given));
        Question question;
        question.labels = {1, 2, 3, 4, 5, 6, 7};
        question.top = 7;
        return to_json(explain_answers(predictor, text, question));
    };
    EXPECT_EQ(explained("3"), explained("7"));
}

TEST_F(Answers, LabelsAreFoundByAPartOfTheirName) {
    start();
    const Json found = client().get("/v1/labels?query=KIND+3&limit=3").json();
    EXPECT_EQ(found["found"], 8);  // 3, 30 .. 36
    ASSERT_EQ(found["labels"].size(), 3u);
    EXPECT_EQ(found["labels"][1]["label"], 30);
    EXPECT_EQ(found["labels"][1]["name"], "kind 30");
    EXPECT_GT(found["labels"][1]["train_rows"], 0);
    EXPECT_EQ(client().get("/v1/labels?query=kind%2030&first=1").json()["labels"].size(), 0u);
    EXPECT_EQ(client().get("/v1/labels").json()["found"], 37);
}

TEST_F(Answers, SeveralRunsAreChosenByName) {
    start({bag(), linear()});
    EXPECT_EQ(client().get("/v1/models").json()["models"].size(), 2u);
    const Json reply = predict({{"text", text}, {"model", "linear"}});
    EXPECT_EQ(reply["model"], "linear");
    EXPECT_EQ(reply["answers"][0]["labels"], Json::parse(labels_json(expected(linear(), 5)[0])));
    const Reply none = client().post("/v1/predict", R"({"text":"x"})");
    EXPECT_EQ(none.status, 400);
    EXPECT_EQ(none.field(), "model");
    EXPECT_NE(none.body.find("name one of the 2 models that /v1/models lists"), std::string::npos)
        << none.body;
    const Reply other = client().post("/v1/predict", R"({"text":"x","model":"linea"})");
    EXPECT_EQ(other.status, 400);
    EXPECT_NE(other.error().find("did you mean 'linear'"), std::string::npos);
    EXPECT_THROW(start({bag(), bag() + "/"}), ConfigError);
}

TEST_F(Answers, AHeadOnVectorsIsNoModelOfKServe) {
    TempFolder folder;
    Config head = config();
    head.precision = "bf16";
    VectorHead(quiet(), head, {5, 16, 4, 10}).save_run(folder / "head", {});
    options.port = 0;
    server = std::make_unique<Server>(quiet(), std::vector{folder / "head"}, config(), options);
    const Reply reply = client().get("/v2/models/head");
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(reply.error().find("head on vectors: POST them as `vectors` to /v1/predict"), std::string::npos)
        << reply.body;
}

TEST_F(Answers, KServeClientsGetTensors) {
    start();
    EXPECT_EQ(client().get("/v2").json()["name"], "elmo");
    EXPECT_EQ(client().get("/v2/health/ready").status, 200);
    EXPECT_EQ(client().get("/v2/models/bag/ready").status, 200);
    EXPECT_EQ(client().get("/v2/models/bag").json()["inputs"][0]["datatype"], "BYTES");
    EXPECT_EQ(client().get("/v2/models/none").status, 404);
    const Json tensor = {
        {"name", "text"}, {"datatype", "BYTES"}, {"shape", {3, 1}}, {"data", {{text}, {""}, {"a"}}}};
    const Json body = {{"id", "7"}, {"inputs", {tensor}}, {"parameters", {{"top", 2}}}};
    const Reply reply = client().post("/v2/models/bag/infer", body.dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json answer = reply.json();
    EXPECT_EQ(answer["id"], "7");
    EXPECT_EQ(answer["outputs"][0]["shape"], Json({3, 2}));
    EXPECT_EQ(answer["outputs"][0]["data"][0], expected(bag(), 2)[0][0].label);
    // The same with the texts as binary data after the JSON.
    std::string binary;
    for (const std::string& each : {text, std::string(), std::string("a")}) {
        const auto size = static_cast<std::uint32_t>(each.size());
        binary.append(reinterpret_cast<const char*>(&size), sizeof size).append(each);
    }
    Json with_binary = body;
    with_binary["inputs"][0].erase("data");
    with_binary["inputs"][0]["parameters"] = {{"binary_data_size", binary.size()}};
    with_binary["parameters"]["binary_data_output"] = true;
    const auto length = fmt::format("Inference-Header-Content-Length: {}\r\n", with_binary.dump().size());
    const Reply second = client().post("/v2/models/bag/infer", with_binary.dump() + binary, length);
    check_binary(second, answer);
    with_binary["parameters"].erase("binary_data_output");
    const auto shorter = fmt::format("Inference-Header-Content-Length: {}\r\n", with_binary.dump().size());
    EXPECT_EQ(client().post("/v2/models/bag/infer", with_binary.dump() + binary, shorter).body, reply.body);
    // Some of the outputs, in the order that was asked for, one of them as JSON.
    Json some = body;
    some["outputs"] = {{{"name", "score"}, {"parameters", {{"binary_data", true}}}}, {{"name", "label"}}};
    const Reply chosen = client().post("/v2/models/bag/infer", some.dump());
    check_binary(chosen, {{"outputs", {answer["outputs"][3], answer["outputs"][0]}}});
    some["outputs"][1]["name"] = "lable";
    const Reply unknown = client().post("/v2/models/bag/infer", some.dump());
    EXPECT_EQ(unknown.status, 400);
    EXPECT_EQ(unknown.field(), "outputs[1].name");
    with_binary["parameters"]["binary_data_output"] = true;
    with_binary["inputs"][0]["parameters"] = {{"binary_data_size", binary.size() + 1}};
    const Reply cut = client().post("/v2/models/bag/infer", with_binary.dump() + binary, length);
    EXPECT_EQ(cut.status, 400);
    EXPECT_EQ(cut.field(), "inputs[0]");
}

TEST_F(Answers, ALabelHasThoseThatAreLikeIt) {
    for (const std::string& run : {bag(), linear()}) {
        start({run});
        const Json found = client().get("/v1/label?label=kind+5&limit=4").json();
        EXPECT_EQ(found["label"], 5);
        EXPECT_EQ(found["name"], "kind 5");
        EXPECT_GT(found["train_rows"], 0);
        EXPECT_FALSE(found.contains("scores"));                               // nobody has made a report
        ASSERT_EQ(found["nearest"].size(), run == bag() ? 4u : 0u) << found;  // 37 labels need no tree
        double last = 1;
        for (const Json& other : found["nearest"]) {
            EXPECT_NE(other["label"], 5);
            EXPECT_EQ(other["name"], "kind " + std::to_string(other["label"].get<int>()));
            EXPECT_LE(other["similarity"].get<double>(), last + 1e-12);
            last = other["similarity"];
        }
        EXPECT_EQ(client().get("/v1/label?label=5&limit=4").json(), found);
        for (const auto& [target, field] : {std::pair("/v1/label", "label"),
                                            {"/v1/label?label=kind+37", "label"},
                                            {"/v1/label?label=37", "label"},
                                            {"/v1/label?label=5&limit=x", "limit"}}) {
            const Reply refused = client().get(target);
            EXPECT_EQ(refused.status, 400) << target;
            EXPECT_EQ(refused.field(), field) << refused.body;
        }
    }
}

TEST_F(Answers, ALabelSaysWhereItErrsAfterAReport) {
    start({bag()});
    Config scoring = config();
    scoring.data = tiny_runs().config.data;
    scoring.cache = tiny_runs().config.cache;
    scoring.errors = 5;
    scoring.threshold = 0.5;
    scoring.save_scores = "none";
    scoring.per_label = bag() + "/label_scores.jsonl";
    const Evaluation wanted = evaluate(quiet(), bag(), resolve_for_run(bag(), scoring));
    for (const LabelScores& label : wanted.frequent_labels) {
        const Json found = client().get("/v1/label?label=" + std::to_string(label.label)).json()["scores"];
        const Json expected_scores = Json::parse(to_json(label));
        for (const auto& [key, value] : expected_scores.items()) EXPECT_EQ(found[key], value) << key;
        EXPECT_EQ(found["protocol"]["split"], "test");
        EXPECT_EQ(found["protocol"]["threshold"], 0.5);
        EXPECT_EQ(found["protocol"]["threshold_source"], "given, of raw probabilities");
    }
    // Scores of other weights are not shown.
    std::string file = read_text(scoring.per_label);
    file.replace(file.find("manifest xxh64 ") + 15, 4, "0000");
    write_text(scoring.per_label, file);
    EXPECT_FALSE(client().get("/v1/label?label=5").json().contains("scores"));
    write_text(scoring.per_label, "[3]\n{");
    EXPECT_EQ(client().get("/v1/label?label=5").status, 200);
    std::filesystem::remove(scoring.per_label);
}

TEST_F(Answers, OtherPathsDescribeTheServer) {
    start({bag()});
    predict({{"text", text}});
    EXPECT_TRUE(client().get("/openapi.json").json().contains("paths"));
    const Reply page = client().get("/");
    EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
    EXPECT_NE(page.head.find("Content-Security-Policy"), std::string::npos);
    EXPECT_EQ(client().get("/healthz").status, 200);
    EXPECT_EQ(client().get("/readyz").status, 200);
    const std::string metrics = client().get("/metrics").body;
    for (const char* line :
         {"elmo_requests_total{route=\"/v1/predict\",status=\"200\"} 1\n", "elmo_texts_total 1\n",
          "elmo_batch_texts_bucket{model=\"bag\",le=\"1\"} 1\n", "elmo_queue_texts{model=\"bag\"} 0\n",
          "elmo_request_seconds_count{route=\"/v1/predict\"} 1\n",
          "elmo_device_memory_bytes{model=\"bag\",device=\"cpu\"} "})
        EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
    const Json run = client().get("/v1/run").json();
    EXPECT_EQ(run["labels"], 37);
    EXPECT_GT(run["steps"].size(), 1u);
    EXPECT_GT(run["steps"][0]["loss"], 0);
    EXPECT_GT(run["validations"].size(), 0u);
    EXPECT_GT(run["recipe"].size(), 0u);
    EXPECT_GT(run["memory"]["arena_bytes"], 0);
}

TEST_F(Answers, OptionsOfALinearRunHaveTheirReasonsToo) {
    start({linear()});
    const Json recipe = client().get("/v1/run").json()["recipe"];
    ASSERT_GT(recipe.size(), 0u);
    for (const Json& option : recipe) EXPECT_NE(option["reason"], "") << option;
}

// What is shown of a log does not grow with it: neither by its lines nor by what stands in one.
TEST_F(Answers, ALongLogIsThinned) {
    TempFolder temp;
    std::filesystem::copy(bag(), temp / "run", std::filesystem::copy_options::recursive);
    std::string log = "{\"event\":\"start\",\"total_steps\":5000}\n";
    for (int i = 1; i <= 5000; ++i)
        log += fmt::format("{{\"event\":\"step\",\"step\":{},\"loss\":1.0}}\n", i);
    const std::string much(1 << 17, '1');
    for (int i = 0; i < 20; ++i)
        log += fmt::format("{{\"event\":\"validation\",\"step\":1,\"P@1\":{}}}\n", much);
    log += "{\"event\":\"validation\",\"step\":7,\"P@1\":50}\nnot ours\n{\"event\":\"end\",\"step\":5000}\n";
    std::string scores;
    for (int i = 0; i < 30; ++i) scores += fmt::format("{{\"score\":{}}}\n{{torn\n", i);
    write_text(temp / "run/log.jsonl", log);
    write_text(temp / "run/scores.jsonl", scores);
    start({temp / "run"});
    const Reply reply = client().get("/v1/run");
    EXPECT_LT(reply.body.size(), much.size());
    const Json run = reply.json();
    EXPECT_LE(run["steps"].size(), 401u);
    EXPECT_GT(run["steps"].size(), 200u);
    EXPECT_EQ(run["steps"].front()["step"], 1);
    EXPECT_EQ(run["steps"].back()["step"], 5000);
    EXPECT_EQ(run["validations"].size(), 1u);
    EXPECT_EQ(run["training"]["total_steps"], 5000);
    EXPECT_EQ(run["end"]["step"], 5000);
    EXPECT_EQ(run["scores"].back()["score"], 29);
    EXPECT_EQ(run["scores"].size(), 5u);  // of the last ten lines
}

TEST_F(Answers, OneLineOfLogPerRequestWithoutTheText) {
    start();
    predict({{"text", text}});
    client().post("/v1/predict", R"({"txt":"secret"})");
    server->stop();
    ASSERT_EQ(log.size(), 2u);
    const Json line = Json::parse(log[0]);
    EXPECT_EQ(line["path"], "/v1/predict");
    EXPECT_EQ(line["status"], 200);
    EXPECT_EQ(line["texts"], 1);
    EXPECT_EQ(line["model"], "bag");
    EXPECT_EQ(log[0].find(word_of(5)), std::string::npos);
    EXPECT_EQ(Json::parse(log[1])["status"], 400);
    EXPECT_EQ(log[1].find("secret"), std::string::npos);
}

TEST_F(Answers, ANewCheckpointIsTakenWithoutDroppingARequest) {
    TempFolder temp;
    std::filesystem::copy(bag(), temp / "run", std::filesystem::copy_options::recursive);
    start({temp / "run"});
    const Json before = predict({{"text", text}});
    EXPECT_EQ(server->reload(), 0);
    // Requests all the while.
    std::atomic<bool> done{false};
    auto asking = std::async(std::launch::async, [&] {
        Client asker = client();
        int asked = 0;
        for (; !done; ++asked)
            if (asker.post("/v1/predict", Json{{"text", text}}.dump()).status != 200) return -1;
        return asked;
    });
    Config again = tiny_runs().config;
    again.out = temp / "run";
    again.overwrite = true;
    again.steps = 5;
    train(quiet(), again);
    // The server looks by itself too: one of the two has taken it.
    server->reload();
    const Json after = predict({{"text", text}});
    done = true;
    EXPECT_GT(asking.get(), 0);
    EXPECT_NE(before["checkpoint"], after["checkpoint"]);
    // One that is damaged is not taken, nor one that is not there.
    write_text(temp / "run/best/manifest.json", "{}");
    EXPECT_EQ(server->reload(), 0);
    std::filesystem::remove(temp / "run/best/manifest.json");
    EXPECT_EQ(server->reload(), 0);
    EXPECT_EQ(predict({{"text", text}})["checkpoint"], after["checkpoint"]);
}

TEST_F(Answers, WhatWasAcceptedIsAnsweredBeforeTheEnd) {
    start();
    std::vector<Client> clients;
    for (int i = 0; i < 20; ++i) {
        clients.push_back(client());
        EXPECT_EQ(clients.back().get("/healthz").status, 200);  // it is accepted
    }
    for (Client& each : clients) each.send("P");  // a request has begun to arrive
    Client idle = client();
    EXPECT_EQ(idle.get("/healthz").status, 200);
    // The bytes of all have been read when a later request on another connection of each is answered; to be
    // sure, each sends the rest only after the server was told to end.
    auto stopped = std::async(std::launch::async, [&] { server->stop(); });
    EXPECT_TRUE(idle.is_closed());
    for (Client& each : clients) {
        each.send(Client::request("/v1/predict", Json{{"text", text}}.dump()).substr(1));
        const Reply reply = each.receive();
        EXPECT_EQ(reply.status, 200);
        EXPECT_NE(reply.head.find("Connection: close"), std::string::npos);
    }
    stopped.get();
    EXPECT_THROW(client(), std::runtime_error);
}

}  // namespace
}  // namespace elmo
