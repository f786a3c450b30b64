// The file of a linear model: what is written is read back, and a damaged one is refused.
#include "linear/model_file.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "base/process_memory.h"
#include "elmo/error.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

LinearModel small_model() {
    LinearModel model;
    model.num_labels = 4;
    model.features.letters = 4;
    model.vocabulary = Vocabulary({10, 20, 30}, {1, 2, 3});
    LabelTrees& trees = model.trees;
    trees.roots = {0};
    trees.leaf = {0, 1, 1};
    trees.children = {1, 2, 0, 3, 1, 2};
    trees.child_begin = {0, 2, 4, 6};
    trees.bias = {0, 1, 2, 3, 4, 5};
    trees.columns = {0, 2, 1};
    trees.column_begin = {0, 2, 3, 3};
    trees.weight_begin = {0, 2, 3, 4};
    trees.weight_child = {0, 1, 1, 0};
    trees.weights = {to_bf16(1), to_bf16(-1), to_bf16(0.5f), to_bf16(2)};
    return model;
}

// With two training texts.
LinearModel model_with_texts() {
    LinearModel model = small_model();
    Neighbours& index = model.neighbours;
    index.votes = {0.3f, 6};
    index.row_begin = {0, 1, 1, 3};
    index.rows = {1, 0, 1};
    index.values = {to_bf16(1), to_bf16(0.5f), to_bf16(0.25f)};
    index.label_begin = {0, 1, 3};
    index.labels = {3, 0, 2};
    return model;
}

class LinearFile : public ::testing::Test {
  protected:
    void SetUp() override {
        folder = fs::temp_directory_path() / ("elmo-linear-" + std::to_string(::getpid()));
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }

    void expect_refused(const std::function<void(LinearModel&)>& damage, LinearModel model = small_model()) {
        damage(model);
        save_linear_model(folder, model);
        EXPECT_THROW(load_linear_model(InputFolder(folder), 4), DataError);
    }
    fs::path folder;
};

// A child of this process begins with its own peak.
TEST_F(LinearFile, IsReadWithoutASecondCopyInMemory) {
    LinearModel model = small_model();
    model.trees.columns.resize(1);
    model.trees.column_begin = {0, 1, 1, 1};
    model.trees.weights.assign(std::size_t{24} << 20, to_bf16(1));
    model.trees.weight_child.assign(model.trees.weights.size(), 0);
    model.trees.weight_begin = {0, static_cast<std::int64_t>(model.trees.weights.size())};
    save_linear_model(folder, model);
    model = {};
    const auto file = static_cast<std::int64_t>(fs::file_size(folder / kLinearFile));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const std::int64_t before = peak_resident_bytes();
        const LinearModel read = load_linear_model(InputFolder(folder), 4);
        const std::int64_t taken = peak_resident_bytes() - before;
        ::_exit(2 * taken > file && 2 * taken < 3 * file ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(LinearFile, IsReadBackAsItWas) {
    const LinearModel model = small_model();
    save_linear_model(folder, model);
    const LinearModel read = load_linear_model(InputFolder(folder), 4);
    EXPECT_EQ(read.features.letters, 4);
    EXPECT_FALSE(read.features.tokens_only);
    EXPECT_FALSE(read.features.shorter_letters);
    EXPECT_EQ(read.vocabulary.find(20), 1);
    EXPECT_EQ(read.vocabulary.find(21), -1);
    EXPECT_EQ(read.trees.children, model.trees.children);
    EXPECT_EQ(read.trees.bias, model.trees.bias);
    EXPECT_EQ(read.trees.columns, model.trees.columns);
    EXPECT_EQ(read.trees.weight_child, model.trees.weight_child);
    EXPECT_EQ(read.trees.weights, model.trees.weights);
    EXPECT_THROW(load_linear_model(InputFolder(folder), 5), DataError);
}

TEST_F(LinearFile, OfSplitTextsIsReadBackWithAllElse) {
    for (LinearModel model : {small_model(), model_with_texts()})
        for (const bool shorter : {false, true}) {
            model.features.splits_text = true;
            model.features.shorter_letters = shorter;
            save_linear_model(folder, model);
            const LinearModel read = load_linear_model(InputFolder(folder), 4);
            EXPECT_TRUE(read.features.splits_text);
            EXPECT_EQ(read.features.shorter_letters, shorter);
            EXPECT_EQ(read.neighbours.texts(), model.neighbours.texts());
        }
}

TEST_F(LinearFile, ShorterLettersAreReadBackWithTextsAndWithout) {
    for (LinearModel model : {small_model(), model_with_texts()}) {
        model.features.shorter_letters = true;
        save_linear_model(folder, model);
        const LinearModel read = load_linear_model(InputFolder(folder), 4);
        EXPECT_TRUE(read.features.shorter_letters);
        EXPECT_EQ(read.features.letters, 4);
        EXPECT_EQ(read.neighbours.texts(), model.neighbours.texts());
    }
}

TEST_F(LinearFile, TextsAreReadBackAndCheckedToo) {
    const LinearModel model = model_with_texts();
    save_linear_model(folder, model);
    const LinearModel read = load_linear_model(InputFolder(folder), 4);
    EXPECT_EQ(read.neighbours.votes.share, 0.3f);
    EXPECT_EQ(read.neighbours.votes.power, 6);
    EXPECT_EQ(read.neighbours.row_begin, model.neighbours.row_begin);
    EXPECT_EQ(read.neighbours.rows, model.neighbours.rows);
    EXPECT_EQ(read.neighbours.values, model.neighbours.values);
    EXPECT_EQ(read.neighbours.label_begin, model.neighbours.label_begin);
    EXPECT_EQ(read.neighbours.labels, model.neighbours.labels);
    const auto refused = [&](const std::function<void(Neighbours&)>& damage) {
        expect_refused([&](LinearModel& m) { damage(m.neighbours); }, model_with_texts());
    };
    refused([](Neighbours& n) { n.rows[0] = 2; });  // no such text
    refused([](Neighbours& n) { n.rows[0] = -1; });
    refused([](Neighbours& n) { n.labels[0] = 4; });  // no such label
    refused([](Neighbours& n) { n.row_begin.pop_back(); });
    refused([](Neighbours& n) { n.row_begin[1] = 4; });
    refused([](Neighbours& n) { n.label_begin[1] = 9; });
    refused([](Neighbours& n) { n.values.pop_back(); });
    refused([](Neighbours& n) { n.values[0] = Bf16{0x7f80}; });
    refused([](Neighbours& n) { n.votes.share = 1; });
}

TEST_F(LinearFile, IndicesThatLeadElsewhereAreRefused) {
    expect_refused([](LinearModel& m) { m.trees.children[2] = 4; });  // no such label
    expect_refused([](LinearModel& m) { m.trees.children[2] = -1; });
    expect_refused([](LinearModel& m) { m.trees.children[0] = 0; });  // its own child
    expect_refused([](LinearModel& m) { m.trees.children[0] = 3; });  // no such node
    expect_refused([](LinearModel& m) { m.trees.children[1] = 1; });  // two parents
    expect_refused([](LinearModel& m) { m.trees.leaf[1] = 0; });      // leaves at two depths
    expect_refused([](LinearModel& m) { m.trees.roots[0] = 1; });
    expect_refused([](LinearModel& m) { m.trees.roots.clear(); });
    expect_refused([](LinearModel& m) { m.trees.columns[1] = 3; });       // no such feature
    expect_refused([](LinearModel& m) { m.trees.columns[0] = 2; });       // not ascending
    expect_refused([](LinearModel& m) { m.trees.weight_child[1] = 2; });  // no such child
    expect_refused([](LinearModel& m) { m.trees.weight_begin[1] = 5; });
    expect_refused([](LinearModel& m) { m.trees.column_begin[1] = -1; });
    expect_refused([](LinearModel& m) { m.trees.child_begin.pop_back(); });
    expect_refused([](LinearModel& m) { m.trees.weights[0] = Bf16{0x7f80}; });  // infinite
    expect_refused([](LinearModel& m) { m.trees.bias[0] = NAN; });
    expect_refused([](LinearModel& m) { m.vocabulary = Vocabulary({10, 10, 30}, {1, 2, 3}); });
    expect_refused([](LinearModel& m) { m.features.letters = 17; });
}

}  // namespace
}  // namespace elmo
