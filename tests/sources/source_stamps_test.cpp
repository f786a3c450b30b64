// Files of a data set that change while it is read.
#include "sources/source_stamps.h"

#include "data/test_folder.h"
#include "quiet.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

class SourceStampsTest : public testing_data::TestFolder {
  protected:
    void SetUp() override {
        TestFolder::SetUp();
        write("set/trn_X.txt", "one\ntwo\n");
        write("set/trn_X_Y.txt", "2 2\n0:1\n1:1\n");
        write("set/Y.txt", "a\nb\n");
    }
};

TEST_F(SourceStampsTest, AnyChangeIsSeenAndNamed) {
    const Layout layout = find_layout(config("set"));
    for (const char* name : {"trn_X.txt", "trn_X_Y.txt", "Y.txt"}) {
        const fs::path file = folder_ / "set" / name;
        const SourceStamps stamps(layout);
        EXPECT_EQ(message([&] { stamps.require_unchanged(); }), "");
        const std::string before = read(file);
        const auto time = fs::last_write_time(file);
        // Another file of the same size and time.
        write("set/other", before);
        fs::last_write_time(folder_ / "set/other", time);
        fs::rename(file, folder_ / "aside");
        fs::rename(folder_ / "set/other", file);
        EXPECT_NE(message([&] { stamps.require_unchanged(); }).find(file.string()), std::string::npos);
        // Changed where it lies.
        const SourceStamps again(layout);
        fs::last_write_time(file, time + std::chrono::seconds(1));
        EXPECT_NE(message([&] { again.require_unchanged(); }).find("changed meanwhile"), std::string::npos);
        const SourceStamps there(layout);
        fs::remove(file);
        EXPECT_NE(message([&] { there.require_unchanged(); }).find(file.string()), std::string::npos);
        write("set/" + std::string(name), before);
    }
}

// Replaced between the pass for labels and the pass for texts by a file of as many rows.
TEST_F(SourceStampsTest, LabelsAndTextsAreOfOneFile) {
    const std::string first = "alpha beta\tx\ngamma delta\ty\n", second = "gamma delta\ty\nalpha beta\tx\n";
    write("data.tsv", first);
    Config how = config("data.tsv");
    how.test_share = 0;
    const auto tokenizer = testing_data::small_tokenizer();
    bool replaced = false;
    Sinks sinks;
    sinks.message = [&](Severity, std::string_view text) {
        if (replaced || text.find("importing the train texts") == std::string_view::npos) return;
        write("other.tsv", second);
        fs::rename(folder_ / "other.tsv", folder_ / "data.tsv");
        replaced = true;
    };
    const Context context = quiet().with_sinks(sinks);
    EXPECT_NE(message([&] { Dataset::open(context, how, *tokenizer); }).find("data.tsv"), std::string::npos);
    EXPECT_TRUE(replaced);
    // And the cache holds nothing of the two: the next import is of the second.
    const Dataset data = Dataset::open(context, how, *tokenizer);
    write("clean/data.tsv", second);
    how.data = (folder_ / "clean/data.tsv").string();
    const Dataset expected = Dataset::open(context, how, *tokenizer);
    for (std::int64_t row = 0; row < 2; ++row) {
        EXPECT_EQ(data.train().labels.row(row)[0], expected.train().labels.row(row)[0]);
        EXPECT_EQ(data.train().tokens.row(row)[1], expected.train().tokens.row(row)[1]);
    }
}

}  // namespace
}  // namespace elmo
