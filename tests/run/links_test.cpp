// A run folder that was made to harm: its entries are symbolic links to what lies outside of it. Nothing
// there is changed, whatever is done with the run.
#include <gtest/gtest.h>

#include <map>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "run/manifest.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using namespace test;

class LinkedRun : public ::testing::Test {
  protected:
    // A run stopped before its first step: best/ and last/ are written again when it is continued.
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
        EXPECT_TRUE(train_no_step(config).interrupted);
        write_text(temp / "outside/notes.txt", "precious\nlast line without an end");
        write_text(temp / "outside/Documents/thesis.tex", "years of work");
        before = outside();
    }
    void link(const std::string& entry, const std::string& target) const {
        fs::remove_all(temp / ("run/" + entry));
        fs::create_symlink(temp / ("outside/" + target), temp / ("run/" + entry));
    }
    std::map<std::string, std::string> outside() const {
        std::map<std::string, std::string> files;
        for (const auto& entry : fs::recursive_directory_iterator(temp / "outside"))
            files[entry.path()] = entry.is_regular_file() ? read_text(entry.path()) : "";
        return files;
    }
    // The message with which the call refuses a link; what is outside stays.
    template <class Call>
    void expect_refused(const std::string& entry, const Call& call) const {
        SCOPED_TRACE(entry);
        const std::string message = message_of<DataError>(call);
        EXPECT_NE(message.find("run/" + entry), std::string::npos) << message;
        EXPECT_NE(message.find("symbolic link"), std::string::npos) << message;
        EXPECT_TRUE(outside() == before);
    }
    void resume() {
        config.resume = true;
        train(quiet().with_stop(stop), config);
    }

    TempFolder temp;
    Config config;
    std::map<std::string, std::string> before;
    const std::atomic<bool> stop{false};
};

TEST_F(LinkedRun, IsNotContinued) {
    for (const auto& [entry, target] :
         std::map<std::string, std::string>{{"best", "Documents"},
                                            {"calibration-best.json", "notes.txt"},
                                            {"last", "Documents"},
                                            {"log.jsonl", "notes.txt"},
                                            {"scores.jsonl", "notes.txt"},
                                            {"tensorboard", "Documents"}}) {
        fs::copy(config.out, temp / "kept", fs::copy_options::recursive);
        link(entry, target);
        expect_refused(entry, [&] { resume(); });
        fs::remove_all(config.out);
        fs::rename(temp / "kept", config.out);
        write_text(temp / "outside/notes.txt", "precious\nlast line without an end");
        write_text(temp / "outside/Documents/thesis.tex", "years of work");
    }
}

// A link where a killed writer's exchange would have left the folder to put back.
TEST_F(LinkedRun, IsNotPutBack) {
    for (const std::string which : {"last", "best"}) {
        fs::remove_all(temp / ("run/" + which));
        fs::create_symlink(temp / "outside/Documents", temp / ("run/." + which + ".old-1-1"));
    }
    expect_refused("last", [&] { resume(); });
    expect_refused("best", [&] { evaluate(quiet(), config.out, config); });
}

TEST_F(LinkedRun, ScoresAndCalibrationStayInside) {
    config.resume = false;
    link("scores.jsonl", "notes.txt");
    std::string said;
    Sinks sinks;
    sinks.message = [&](Severity, std::string_view text) { said += text; };
    evaluate(quiet().with_sinks(sinks), config.out, config);
    EXPECT_NE(said.find("the scores were not kept"), std::string::npos);
    EXPECT_TRUE(outside() == before);
    link("calibration-best.json", "notes.txt");
    expect_refused("calibration-best.json", [&] { calibrate(quiet(), config.out, config); });
    expect_refused("calibration-best.json", [&] { evaluate(quiet(), config.out, config); });
    fs::remove(config.out + "/calibration-best.json");
    // A file that the user names may be a link.
    write_text(temp / "scores", "");
    fs::create_symlink(temp / "scores", temp / "link");
    config.save_scores = temp / "link";
    evaluate(quiet(), config.out, config);
    EXPECT_NE(read_text(temp / "scores"), "");
}

TEST_F(LinkedRun, OverwritingRemovesTheLinksAlone) {
    link("best", "Documents");
    link("log.jsonl", "notes.txt");
    link("tensorboard", "Documents");
    config.overwrite = true;
    train(quiet().with_stop(stop), config);
    EXPECT_TRUE(outside() == before);
    EXPECT_FALSE(fs::is_symlink(temp / "run/best"));
}

// A checkpoint is the files of its manifest: a link beside them is none.
TEST_F(LinkedRun, WhatTheManifestDoesNotListIsNotRead) {
    write_text(temp / "weights.txt", "kind 1\t2\n");
    struct Case {
        const char *key, *value, *precision, *file;
    };
    for (const auto& [key, value, precision, file] :
         {Case{"head_kahan", "20%", "fp8", "head_compensation.safetensors"},
          Case{"precision", "renee", "renee", "momentum.safetensors"},
          Case{"label_weights", "weights.txt", "bf16", "label_weights.safetensors"}}) {
        SCOPED_TRACE(file);
        Config other = config;
        other.out = temp / key;
        other.precision = precision;
        set_option(other, key, std::string(key) == "label_weights" ? temp / value : value);
        EXPECT_TRUE(train_no_step(other).interrupted);
        const fs::path there = fs::path(other.out) / "last" / file,
                       away = temp / ("outside/" + std::string(file));
        fs::rename(there, away);
        write_manifest(there.parent_path());
        fs::create_symlink(away, there);
        other.resume = true;
        const std::string message = message_of<DataError>([&] { train(quiet().with_stop(stop), other); });
        EXPECT_NE(message.find(there.string()), std::string::npos) << message;
    }
}

// A folder that is not a checkpoint is not replaced by one: its files would be lost.
TEST_F(LinkedRun, AFolderOfOtherFilesIsNotReplaced) {
    fs::remove_all(temp / "run/best");
    write_text(temp / "run/best/thesis.tex", "years of work");
    const std::string message = message_of<DataError>([&] { resume(); });
    EXPECT_NE(message.find("expected a checkpoint to replace"), std::string::npos) << message;
    EXPECT_EQ(read_text(temp / "run/best/thesis.tex"), "years of work");
}

}  // namespace
}  // namespace elmo
