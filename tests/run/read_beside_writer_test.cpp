// A checkpoint that is read while a trainer replaces it: encoder, head, labels and state are of one save.
#include <gtest/gtest.h>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "rank/scored_run.h"
#include "run/calibration_file.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using namespace test;

class ReadBesideAWriter : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        config.checkpoint = "last";
        train(quiet(), config);
        Config other = config;
        other.out = temp / "other";
        other.seed = 7;
        train(quiet(), other);
        fs::copy(config.out, temp / "first", fs::copy_options::recursive);
    }
    // What a save does to who reads: other files by the same names, the old ones gone.
    void save_another() const {
        fs::remove_all(temp / "run/last");
        fs::copy(temp / "other/last", temp / "run/last", fs::copy_options::recursive);
    }
    std::vector<ScoredLabel> rank(const ScoredRun& run) const {
        std::vector<ScoredLabel> all;
        run.rank(5, "ranking", [&](const ScoredRow&, std::vector<ScoredLabel>& ranked) {
            all.insert(all.end(), ranked.begin(), ranked.end());
        });
        return all;
    }

    TempFolder temp;
    Config config;
};

TEST_F(ReadBesideAWriter, ScoresAreOfTheCheckpointThatWasOpened) {
    const auto expected = rank(ScoredRun(quiet(), temp / "first", config));
    const ScoredRun opened(quiet(), config.out, config);
    save_another();
    const auto found = rank(opened);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].label, expected[i].label);
        EXPECT_EQ(found[i].score, expected[i].score);
    }
    EXPECT_NE(rank(ScoredRun(quiet(), config.out, config))[0].score, expected[0].score);
}

// A calibration names the weights that it was fitted to, not those that lie there when it is written.
TEST_F(ReadBesideAWriter, ACalibrationIsOfTheCheckpointThatWasOpened) {
    const Checkpoint opened(config.out, "last");
    save_another();
    Calibration calibration;
    calibration.a = 1;
    write_calibration(opened, calibration);
    EXPECT_TRUE(read_calibration(quiet(), opened).has_value());
    EXPECT_FALSE(read_calibration(quiet(), Checkpoint(config.out, "last")).has_value());
}

TEST_F(ReadBesideAWriter, AllOfACheckpointStaysReadable) {
    Checkpoint opened(config.out, "last");
    const auto counts = opened.read_label_counts();
    fs::remove_all(temp / "run/last");
    EXPECT_EQ(opened.read_label_counts(), counts);
    EXPECT_EQ(static_cast<std::int64_t>(opened.label_names().size()), opened.state().labels);
    for (const std::string& name : opened.files())
        EXPECT_TRUE(opened.content().read(name) == read_text(temp / ("first/last/" + name))) << name;
}

// Nothing of a run is read through a link.
TEST_F(ReadBesideAWriter, LinkedFilesAreRefused) {
    fs::rename(temp / "run/last/state.json", temp / "state.json");
    fs::create_symlink(temp / "state.json", temp / "run/last/state.json");
    const std::string message = message_of<DataError>([&] { Checkpoint(config.out, "last"); });
    EXPECT_NE(message.find("last/state.json: expected a file, found a symbolic link"), std::string::npos)
        << message;
}

}  // namespace
}  // namespace elmo
