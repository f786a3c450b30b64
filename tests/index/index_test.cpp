// Approximate search: the sketch finds what exact search finds, and the index of a run is refused unless it
// is sound and of these weights.
#include "elmo/index.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "elmo/error.h"
#include "elmo/predictor.h"
#include "elmo/serve.h"
#include "elmo/train.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "numerics/philox.h"
#include "rank/index/index_file.h"
#include "rank/index/label_sketch.h"
#include "serve/client.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::read_text;
using test::TempFolder;
using test::write_text;

// Uniform in [-1, 1), a function of its address.
float noise(std::uint32_t stream, std::int64_t row, std::int64_t column) {
    return static_cast<float>(static_cast<std::int32_t>(noise_block({7, 0, stream}, row, column)[0])) *
           0x1p-31f;
}

// Labels like those of a trained head: close to a common vector, in clusters, and each with something of its
// own; texts near labels, in few directions, with a common vector too.
struct Vectors {
    std::int64_t labels, width, texts;
    std::vector<float> w;
    std::vector<Bf16> x;

    Vectors(std::int64_t num_labels, std::int64_t num_texts, std::int64_t size)
        : labels(num_labels), width(size), texts(num_texts) {
        for (std::int64_t l = 0; l < labels; ++l)
            for (std::int64_t d = 0; d < width; ++d)
                w.push_back(2 * noise(0, 0, d) + spread(d) * noise(1, l % 50, d) +
                            0.5f * spread(d) * noise(2, l, d));
        for (std::int64_t i = 0; i < texts; ++i)
            for (std::int64_t d = 0; d < width; ++d) {
                const std::int64_t label = i * 37 % labels;
                x.push_back(
                    to_bf16(noise(3, 0, d) + spread(d) * (noise(1, label % 50, d) + noise(2, label, d))));
            }
    }
    float spread(std::int64_t d) const { return 4.0f / static_cast<float>(4 + d); }

    std::set<std::int64_t> best(std::int64_t text, std::int64_t k) const {
        TopK top(k);
        for (std::int64_t l = 0; l < labels; ++l) {
            double score = 0;
            for (std::int64_t d = 0; d < width; ++d)
                score += static_cast<double>(w[static_cast<std::size_t>(l * width + d)]) *
                         to_float(x[static_cast<std::size_t>(text * width + d)]);
            top.offer(static_cast<float>(score), l);
        }
        std::set<std::int64_t> found;
        for (const ScoredLabel& label : top.sorted()) found.insert(label.label);
        return found;
    }
    LabelSketch sketch(const Context& context) const {
        return make_sketch(
            context, labels, width,
            [&](std::span<const std::int64_t> rows) {
                std::vector<float> values;
                for (const std::int64_t row : rows)
                    values.insert(values.end(), w.begin() + row * width, w.begin() + (row + 1) * width);
                return values;
            },
            std::span(x).first(x.size() / 2));
    }
};

TEST(LabelSketch, FindsTheBestLabels) {
    const Vectors vectors(3000, 80, 200);  // more columns than the sketch has numbers
    const LabelSketch sketch = vectors.sketch(quiet());
    EXPECT_EQ(sketch.dims, kSketchDims);
    const auto found = sketch_candidates(quiet(), sketch, vectors.x, 60);
    std::int64_t hits = 0;
    for (std::int64_t i = 40; i < 80; ++i)  // texts that did not shape it
        for (const std::int64_t label : found[static_cast<std::size_t>(i)])
            hits += static_cast<std::int64_t>(vectors.best(i, 5).count(label));
    EXPECT_GE(hits, 198);  // of 200
}

TEST(LabelSketch, DoesNotDependOnThreadsOrCompany) {
    const Vectors vectors(150'001, 20, 33);  // an odd width: half a byte of each label is empty
    const Context one({.threads = 1, .sinks = silent()}), three({.threads = 3, .sinks = silent()});
    const LabelSketch a = vectors.sketch(one), b = vectors.sketch(three);
    EXPECT_TRUE(std::equal(a.codes.begin(), a.codes.end(), b.codes.begin(), b.codes.end()));
    EXPECT_TRUE(std::equal(a.biases.begin(), a.biases.end(), b.biases.begin(), b.biases.end()));
    const auto all = sketch_candidates(three, b, vectors.x, 40);
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(sketch_candidates(one, a, std::span(vectors.x).subspan(i * 33, 33), 40).front(), all[i]);
    // Fewer candidates are the first of more, however many are sampled or ordered for them.
    const auto most = sketch_candidates(one, a, vectors.x, 150'001);
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(most[i].size(), 150'001u);
        EXPECT_TRUE(std::equal(all[i].begin(), all[i].end(), most[i].begin()));
    }
}

// More labels than are scored by all their numbers, and numbers that only those are scored by.
TEST(LabelSketch, FindsThemInTwoPasses) {
    const Vectors vectors(20'001, 60, 100);
    const Context one({.threads = 1, .sinks = silent()}), three({.threads = 3, .sinks = silent()});
    const LabelSketch sketch = vectors.sketch(three);
    ASSERT_GT(sketch.rest_bytes(), 0);
    const auto found = sketch_candidates(three, sketch, vectors.x, 60);
    const auto most = sketch_candidates(one, sketch, vectors.x, 2000);
    std::int64_t hits = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(std::equal(found[i].begin(), found[i].end(), most[i].begin()));
        const std::set<std::int64_t> best = vectors.best(static_cast<std::int64_t>(i), 5);
        for (const std::int64_t label : found[i]) hits += static_cast<std::int64_t>(best.count(label));
    }
    EXPECT_GE(hits, 297);  // of 300
}

// Where just the groups of the sample score high, it promises far more labels than there are.
TEST(LabelSketch, FindsThemWhereTheSampleMisleads) {
    Vectors vectors(150'001, 8, 33);
    for (std::int64_t l = 0; l < vectors.labels; ++l) {
        const std::int64_t group = l / LabelSketch::kGroup;
        if (LabelSketch::sampled_group(group / LabelSketch::kSampled) != group) continue;
        for (std::int64_t d = 0; d < vectors.width; ++d)
            vectors.w[static_cast<std::size_t>(l * vectors.width + d)] += noise(3, 0, d);
    }
    const LabelSketch sketch = vectors.sketch(quiet());
    const auto all = sketch_candidates(quiet(), sketch, vectors.x, 150'001);
    for (const std::int64_t count : {40, 6000})  // fewer than are raised, and more
        for (std::size_t i = 0; const auto& found : sketch_candidates(quiet(), sketch, vectors.x, count)) {
            ASSERT_EQ(std::ssize(found), count);
            EXPECT_TRUE(std::equal(found.begin(), found.end(), all[i++].begin()));
        }
}

class Index : public testing::Test {
  protected:
    void SetUp() override {
        test::TinyShape shape;
        shape.train_rows = 600;
        test::write_tiny_data(temp / "data", shape);
        Config training = test::tiny_config(temp);
        training.encoder = "bag";
        train(quiet(), training);
        config.cache = temp / "cache";
        approximate.search = "approximate";
        approximate.device = "cpu";
        file = temp / "run/index-best.safetensors";
    }
    // What using the index says.
    std::string refusal() const {
        return message_of<DataError>([&] { Predictor(quiet(), temp / "run", approximate); });
    }
    // The file with another value of a key of its metadata.
    void forge(const std::string& key, const std::string& value) const {
        const SafeTensors whole = SafeTensors::open(fs::path(file));
        auto metadata = whole.metadata();
        metadata[key] = value;
        std::vector<TensorSpec> tensors;
        for (const TensorInfo& tensor : whole.tensors())
            tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
        SafeTensorsWriter writer(file, tensors, metadata);
        for (const TensorInfo& tensor : whole.tensors()) writer.write(tensor.name, tensor.data);
        writer.commit();
    }

    TempFolder temp;
    Config config, approximate;
    std::string file;
    const std::vector<std::string> texts = {"the thing baxo beside daxo number 3", "lexo", ""};
};

// It runs on a CPU: a GPU is not asked for unless it is named.
TEST_F(Index, NeedsNoDeviceNamedWhereAutoIsAGpu) {
    build_index(quiet(), temp / "run", config);
    const char* named = std::getenv("ELMO_DEVICE");
    const std::string before = named == nullptr ? "" : named;
    ::setenv("ELMO_DEVICE", "cuda", 1);
    ::setenv("ELMO_CUDA_LIBRARY", "/no/such/libelmo_cuda.so", 1);
    approximate.device = "auto";
    EXPECT_NO_THROW(Predictor(quiet(), temp / "run", approximate));
    before.empty() ? ::unsetenv("ELMO_DEVICE") : ::setenv("ELMO_DEVICE", before.c_str(), 1);
    ::unsetenv("ELMO_CUDA_LIBRARY");
}

TEST_F(Index, AnswersHaveTheScoresOfExactSearch) {
    const SearchIndex index = build_index(quiet(), temp / "run", config);
    EXPECT_EQ(index.labels, 37);
    EXPECT_EQ(index.candidates, 37);  // a tiny head is scored whole
    EXPECT_EQ(index.recall_at_5, 1);
    EXPECT_GE(index.texts, 10);
    Config exact = approximate;
    exact.search = "exact";
    Predictor found(quiet(), temp / "run", approximate), wanted(quiet(), temp / "run", exact);
    ASSERT_TRUE(found.index().has_value());
    EXPECT_EQ(found.index()->recall_at_5, 1);
    EXPECT_EQ(found.index()->texts, index.texts);
    EXPECT_FALSE(wanted.index().has_value());
    const auto a = found.predict(texts), b = wanted.predict(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        ASSERT_EQ(a[i].size(), b[i].size());
        for (std::size_t j = 0; j < a[i].size(); ++j) {
            EXPECT_EQ(a[i][j].label, b[i][j].label);
            EXPECT_EQ(a[i][j].score, b[i][j].score);
        }
    }
    // Questions: without some labels, and among others, which are scored whole.
    Question question;
    question.top = 2;
    question.without = {1, 2};
    EXPECT_EQ(found.predict(texts, question).front().size(), 2u);
    question.without = {};
    question.labels = {3, 4, 5};
    EXPECT_EQ(found.predict(texts, question).front().front().score,
              wanted.predict(texts, question).front().front().score);
    EXPECT_FALSE(
        Predictor(quiet(), temp / "run", approximate, {.label_list = {"3", "4"}}).index().has_value());
}

TEST_F(Index, TheServerReportsRecallWithEveryAnswer) {
    EXPECT_NE(message_of<DataError>([&] { Server(quiet(), {temp / "run"}, approximate, {.port = 0}); }), "");
    build_index(quiet(), temp / "run", config);
    Server server(quiet(), {temp / "run"}, approximate, {.port = 0});
    test::Client client(server.port());
    const auto answer = client.post("/v1/predict", R"({"texts": ["the thing baxo"], "top": 3})").json();
    EXPECT_EQ(answer.at("recall_at_5"), 1.0);
    EXPECT_EQ(answer.at("answers").at(0).at("labels").size(), 3u);
    // All of the given labels are scored.
    EXPECT_FALSE(client.post("/v1/predict", R"({"texts": ["the thing baxo"], "labels": ["kind 1"]})")
                     .json()
                     .contains("recall_at_5"));
    EXPECT_EQ(client.get("/v1/models").json().at("models").at(0).at("index").at("labels"), 37);
}

TEST_F(Index, WithoutOneTheMessageSaysHowToMakeIt) {
    EXPECT_NE(refusal().find("'elmo index' makes it"), std::string::npos) << refusal();
}

TEST_F(Index, OfOtherWeightsIsRefused) {
    build_index(quiet(), temp / "run", config);
    Config training = test::tiny_config(temp);
    training.encoder = "bag";
    training.steps = 10;
    training.out = temp / "other";
    train(quiet(), training);
    fs::copy_file(file, temp / "other/index-best.safetensors");
    const std::string error = message_of<DataError>([&] { Predictor(quiet(), temp / "other", approximate); });
    EXPECT_NE(error.find("made for other weights"), std::string::npos) << error;
}

TEST_F(Index, DamageIsRefused) {
    build_index(quiet(), temp / "run", config);
    const std::string whole = read_text(file);
    for (const std::size_t at : {whole.size() - 1, whole.size() / 2, std::size_t{9}, std::size_t{0}}) {
        std::string damaged = whole;
        damaged[at] ^= 4;
        write_text(file, damaged);
        EXPECT_NE(refusal(), "") << at;
    }
    for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{7}, std::size_t{0}}) {
        write_text(file, whole.substr(0, size));
        EXPECT_NE(refusal(), "") << size;
    }
    write_text(file, whole);
    EXPECT_EQ(refusal(), "");
}

TEST_F(Index, ForgeriesAreRefused) {
    build_index(quiet(), temp / "run", config);
    const std::string whole = read_text(file);
    const SafeTensors stored = SafeTensors::open(fs::path(file));
    const std::string report = stored.metadata().at("report");
    const auto replaced = [&](const std::string& from, const std::string& to) {
        std::string text = report;
        const std::size_t at = text.find(from);
        return at == std::string::npos ? std::string("none") : text.replace(at, from.size(), to);
    };
    const std::pair<std::string, std::string> cases[] = {
        {"kind", "other"},
        {"report", "{"},
        {"report", "[]"},
        {"report", std::string(100'000, '[')},
        {"report", replaced("\"labels\":37", "\"labels\":1000000")},
        {"report", replaced("\"dims\":16", "\"dims\":4611686018427387904")},
        {"report", replaced("\"dims\":16", "\"dims\":-2")},
        {"report", replaced("\"candidates\":37", "\"candidates\":0")},
        {"report", replaced("\"recall_at_5\":1.0", "\"recall_at_5\":7.0")},
        {"xxh64", "0000000000000000"}};
    for (const auto& [key, value] : cases) {
        forge(key, value);
        EXPECT_NE(refusal(), "") << key << " " << value.substr(0, 80);
        write_text(file, whole);
    }
    fs::remove(file);
    fs::create_symlink(temp / "cache", file);
    EXPECT_NE(refusal().find("symbolic link"), std::string::npos) << refusal();
    EXPECT_NE(
        message_of<DataError>([&] { build_index(quiet(), temp / "run", config); }).find("symbolic link"),
        std::string::npos);
}

TEST_F(Index, NeedsAnEncoderAndEnoughTexts) {
    Config training = test::tiny_config(temp);
    training.encoder = "linear";
    training.out = temp / "linear";
    train(quiet(), training);
    EXPECT_NE(
        message_of<ConfigError>([&] { build_index(quiet(), temp / "linear", config); }).find("linear model"),
        std::string::npos);
    EXPECT_NE(message_of<ConfigError>([&] {
                  Predictor(quiet(), temp / "linear", approximate);
              }).find("linear model"),
              std::string::npos);
    EXPECT_NE(
        message_of<ConfigError>([&] { build_index(quiet(), temp / "run", config, 1.5); }).find("recall"),
        std::string::npos);
    write_text(temp / "few.tsv", "the thing baxo\tkind 1\nthe thing daxo\tkind 2\n");
    set_option(config, "data", temp / "few.tsv");
    EXPECT_NE(message_of<DataError>([&] { build_index(quiet(), temp / "run", config); }), "");
}

}  // namespace
}  // namespace elmo
