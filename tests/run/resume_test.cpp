// A run that is killed and continued ends with the same bytes as one that was not; and what a run refuses.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/resolve.h"
#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "io/folder_lock.h"
#include "quiet.h"
#include "run/checkpoint.h"
#include "run/manifest.h"
#include "run/resolve.h"
#include "run/run_folder.h"
#include "train/killed_run.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

Config resume_config(const TempFolder& temp, const std::string& out) {
    Config config = tiny_config(temp);
    config.out = temp / out;
    config.precision = "e3m4";
    config.steps = 240;
    config.save_every = 20;
    config.accumulate = 3;  // a checkpoint may fall into the middle of a sum
    config.eval_every = 7;
    return config;
}

// Codes of 8 bits; weights on a grid, whose rows have exponents that move and whose noise runs over the
// steps; such weights, packed.
class Resume : public ::testing::TestWithParam<const char*> {
  protected:
    static Config config_of(const TempFolder& temp, const std::string& out) {
        Config config = resume_config(temp, out);
        config.precision = GetParam();
        if (config.precision != "e3m4") config.head_noise = "steps";
        return config;
    }
};
INSTANTIATE_TEST_SUITE_P(Formats, Resume, ::testing::Values("e3m4", "exmy:0,4,row", "e2m3"),
                         [](const auto& p) { return std::string(p.index == 1 ? "grid" : p.param); });

TEST_P(Resume, KilledRunEndsWithTheSameBytes) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    const std::atomic<bool> stop{false};
    const TrainResult whole = train(quiet().with_stop(stop), config_of(temp, "whole"));
    if (std::string(GetParam()) != "e3m4") {
        EXPECT_GT(whole.saturations, 0) << "no exponent moved";
    }

    Config config = config_of(temp, "killed");
    EXPECT_TRUE(train_and_kill_twice(config, temp / "recipe.toml"));
    const std::int64_t step = Checkpoint(config.out, "last").state().step;
    EXPECT_GT(step, 0);
    EXPECT_LT(step, 240);

    config.resume = true;
    const TrainResult result = train(quiet().with_stop(stop), config);
    EXPECT_EQ(result.steps, 240);
    for (const char* which : {"/last", "/best"})
        expect_same_files((temp / "whole") + which, config.out + which);
}

// The clock only adds saves, at steps that are logged: as many as those when every moment is late.
TEST(Saving, ByTheClockAtLoggedSteps) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    const auto saves = [&](const std::string& out, double minutes) {
        Config config = resume_config(temp, out);
        config.steps = 12;
        config.save_every = 0;
        config.eval_every = 100;
        config.log_every = 4;
        config.save_minutes = minutes;
        train(quiet(), config);
        const std::string log = read_text(config.out + "/log.jsonl");
        std::int64_t found = 0;
        for (std::size_t at = 0; (at = log.find("\"checkpoint\"", at)) != log.npos; ++at) ++found;
        return found;
    };
    const std::int64_t at_the_end = saves("never", 0);
    EXPECT_EQ(saves("always", 1e-12), at_the_end + 2);  // steps 4 and 8
    const auto weights = [](const std::string& folder) {
        auto files = files_of(folder);
        std::erase_if(files, [](const auto& file) { return !file.first.ends_with(".safetensors"); });
        return files;
    };
    EXPECT_FALSE(weights(temp / "never/best").empty());
    EXPECT_TRUE(weights(temp / "never/best") == weights(temp / "always/best"));
}

// A stop while data are read or a run is planned ends there, with nothing written.
TEST(Stopping, BeforeTheDataAreReadLeavesNothing) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    const Config config = tiny_config(temp);
    const std::atomic<bool> stopped{true};
    EXPECT_THROW(train(quiet().with_stop(stopped), config), Interrupted);
    EXPECT_FALSE(std::filesystem::exists(config.out));
    train_no_step(config);
    EXPECT_TRUE(std::filesystem::exists(config.out + "/last"));
}

class RunRules : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        config = tiny_config(temp);
    }
    // A run stopped before its first step: a checkpoint to continue from.
    void start() { EXPECT_TRUE(train_no_step(config).interrupted); }
    template <class E>
    std::string refusal() {
        return message_of<E>([&] { train(quiet().with_stop(stop), config); });
    }

    TempFolder temp;
    Config config;
    const std::atomic<bool> stop{false};
};

TEST_F(RunRules, AFullFolderNeedsResumeOrOverwrite) {
    start();
    EXPECT_NE(refusal<ConfigError>().find("--resume"), std::string::npos);
    config.overwrite = true;
    EXPECT_EQ(refusal<ConfigError>(), "");
    write_text(config.out + "/thesis.tex", "years of work");
    EXPECT_NE(refusal<ConfigError>().find("thesis.tex"), std::string::npos);
    EXPECT_EQ(read_text(config.out + "/thesis.tex"), "years of work");
}

TEST_F(RunRules, AContinuedRunKeepsItsRecipeAndItsData) {
    start();
    config.resume = true;
    config.head_lr = 0.3;
    EXPECT_NE(refusal<ConfigError>().find("head_lr"), std::string::npos);
    // What is not given comes from the run.
    config = Config();
    config.out = temp / "run";
    config.resume = true;
    config.log_every = 2;
    write_text(temp / "data/trn_X.txt", read_text(temp / "data/trn_X.txt").replace(0, 3, "and"));
    EXPECT_NE(refusal<DataError>().find("not the data of the run"), std::string::npos);
    write_tiny_data(temp / "data");
    const TrainResult result = train(quiet().with_stop(stop), config);
    EXPECT_EQ(result.steps, 20);
    EXPECT_FALSE(result.interrupted);
    config.out = temp / "elsewhere";
    EXPECT_NE(refusal<ConfigError>().find("does not exist"), std::string::npos);
}

TEST_F(RunRules, LabelTextsTrainAndAreNotCounted) {
    config.epochs = 1;
    config.steps = 0;
    const TrainResult plain = train(quiet().with_stop(stop), config);
    const auto counts = read_text(config.out + "/last/label_counts.safetensors");
    EXPECT_NE(counts, "");
    const RunState before = Checkpoint(config.out, "last").state();

    config.out = temp / "augmented";
    config.augment = "labels";
    EXPECT_TRUE(train_no_step(config).interrupted);
    config.resume = true;
    write_text(temp / "data/Y.txt", read_text(temp / "data/Y.txt").replace(0, 4, "sort"));
    EXPECT_NE(refusal<DataError>().find("not the data of the run"), std::string::npos);
    write_tiny_data(temp / "data");
    config.augment = "auto";  // as the run has it: what is not given comes from the run
    const TrainResult augmented = train(quiet().with_stop(stop), config);
    const RunState after = Checkpoint(config.out, "last").state();
    EXPECT_EQ(after.train_rows, before.train_rows);
    EXPECT_EQ(read_text(config.out + "/last/label_counts.safetensors"), counts);
    EXPECT_NE(after.data_hash, before.data_hash);
    // 37 label texts more, in batches of 16; the same rows validate.
    const auto rows = [](const RunState& state) { return state.steps_per_epoch * 16; };
    EXPECT_GE(rows(after) - rows(before), 37 - 15);
    EXPECT_LE(rows(after) - rows(before), 37 + 15);
    EXPECT_GT(augmented.steps, plain.steps);
}

TEST_F(RunRules, NothingToTrainOnIsSaidBeforeStarting) {
    write_text(temp / "data/trn_X.txt", "");
    write_text(temp / "data/trn_X_Y.txt", "0 37\n");
    EXPECT_NE(refusal<DataError>(), "");
    write_tiny_data(temp / "data");
    write_text(temp / "data/trn_X_Y.txt", "150 0\n" + std::string(150, '\n'));
    write_text(temp / "data/tst_X_Y.txt", "40 0\n" + std::string(40, '\n'));
    write_text(temp / "data/Y.txt", "");
    EXPECT_NE(refusal<DataError>(), "");
    EXPECT_FALSE(std::filesystem::exists(config.out));
}

TEST_F(RunRules, ANanStopsTheRunAndLeavesTheCheckpoint) {
    config.encoder_lr = 1e6;
    config.encoder_weight_decay = 1e6;
    start();
    const auto before = files_of(config.out + "/last");
    config.resume = true;
    const std::string message = refusal<NumericError>();
    EXPECT_NE(message.find("step "), std::string::npos) << message;
    EXPECT_NE(message.find("NaN or Inf"), std::string::npos) << message;
    EXPECT_TRUE(files_of(config.out + "/last") == before);
}

TEST_F(RunRules, AFullDiskLeavesTheCheckpoint) {
    config.width = 64;  // so that the recipe is not the largest file
    start();
    const auto before = files_of(config.out + "/last");
    config.resume = true;
    signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    getrlimit(RLIMIT_FSIZE, &old);
    // Everything fits but the optimiser's state, which only last/ has.
    const rlimit small{std::filesystem::file_size(config.out + "/last/optimizer.safetensors") - 1,
                       old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = refusal<DataError>();
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_NE(message.find("/last"), std::string::npos) << message;
    EXPECT_TRUE(files_of(config.out + "/last") == before);
    EXPECT_EQ(train(quiet().with_stop(stop), config).steps, 20);
}

TEST_F(RunRules, OneTrainerAFolder) {
    train(quiet().with_stop(stop), config);
    const auto before = files_of(config.out + "/last");
    {
        const FolderLock another(config.out);
        for (const bool resume : {true, false}) {
            config.resume = resume;
            config.overwrite = !resume;
            EXPECT_NE(message_of<ConfigError>([&] {
                          train(quiet().with_stop(stop), config);
                      }).find("another process"),
                      std::string::npos);
        }
    }
    EXPECT_TRUE(files_of(config.out + "/last") == before);
    EXPECT_GT(train(quiet().with_stop(stop), config).steps, 0);
}

// The folder is looked at before the data are imported: a run that ends there meanwhile stays.
TEST_F(RunRules, ARunThatWasWrittenMeanwhileIsNotReplaced) {
    RunFolder early(quiet(), config);
    train(quiet().with_stop(stop), config);
    const auto before = files_of(config.out + "/last");
    EXPECT_NE(message_of<ConfigError>([&] { early.prepare(); }).find("not empty"), std::string::npos);
    EXPECT_TRUE(files_of(config.out + "/last") == before);
}

// 'elmo train --out RUN --resume' and no more.
TEST_F(RunRules, WhatIsNotGivenAgainIsTheRunsOwn) {
    config.save_every = 3;
    config.max_memory = "1GiB";
    config.chunks = 2;
    config.log_every = 4;
    train(quiet().with_stop(stop), config);
    config.out = temp / "stopped";
    start();
    Config again;
    again.out = config.out;
    again.resume = true;
    train(quiet().with_stop(stop), again);
    expect_same_files(temp / "run/last", config.out + "/last");
    const Config stored = Checkpoint(config.out, "last").config();
    EXPECT_EQ(stored.save_every, 3);
    EXPECT_EQ(stored.max_memory, "1GiB");
    EXPECT_EQ(stored.cache, config.cache);
    EXPECT_EQ(stored.threads, 1);
    again.save_every = 5;  // given, it is another
    EXPECT_EQ(with_stored_run(stored, again).save_every, 5);
}

// A recipe of who knows whom may name any folder: no files are put there.
TEST_F(RunRules, ACacheThatIsNoneIsNotTakenFromTheRun) {
    start();
    Config again;
    again.out = config.out;
    again.resume = true;
    const auto cache_of = [&] { return resolve_training(quiet(), again).cache; };
    EXPECT_EQ(cache_of(), config.cache);
    EXPECT_EQ(resolve_for_run(config.out, {}).cache, config.cache);
    again.data = config.data;  // without its cache the run alone names it
    write_text(temp / "Documents/0123456789abcdef.train.labels", "years of work");
    for (const char* name : {"absent", "Documents"}) {
        Config stored = Checkpoint(config.out, "last").config();
        stored.cache = temp / name;
        for (const char* which : {"/last", "/best"}) {
            write_text(config.out + which + "/recipe.toml", stored_recipe(stored));
            write_manifest(config.out + which);
        }
        EXPECT_EQ(cache_of(), "");
        EXPECT_EQ(resolve_for_run(config.out, {}).cache, "");
        again.cache = stored.cache;  // given by the caller
        EXPECT_EQ(cache_of(), stored.cache);
        again.cache.clear();
    }
}

TEST_F(RunRules, AMissingCheckpointIsSaidBesideTheOneThereIs) {
    start();
    for (const char* which : {"best", "last"}) {
        const std::string other = which == std::string("best") ? "last" : "best";
        const std::string folder = config.out + "/" + which, aside = temp / "aside";
        std::filesystem::rename(folder, aside);
        const auto message = [&] { return message_of<DataError>([&] { Checkpoint(config.out, which); }); };
        EXPECT_NE(message().find(fmt::format("'{}', found none; this run has {}: give --checkpoint {}", which,
                                             other, other)),
                  std::string::npos)
            << message();
        std::filesystem::rename(config.out + "/" + other, temp / "other");
        EXPECT_NE(message().find("has this run saved one yet?"), std::string::npos) << message();
        std::filesystem::rename(temp / "other", config.out + "/" + other);
        std::filesystem::rename(aside, folder);
    }
}

// Its checksum right, its numbers not: what was edited by hand, or made to harm.
TEST_F(RunRules, AStateThatCannotBeIsRefused) {
    start();
    const std::string file = config.out + "/last/state.json", good = read_text(file);
    config.resume = true;
    for (const char* change :
         {"step -1", "step 21", "step 1e308", "step 0.5", "step 18446744073709551615", "step \"0\"",
          "updates -1", "updates 9223372036854775807", "saturations 9223372036854775807", "labels 0",
          "train_rows -5", "total_steps 1e300", "best_score []", "data_hash 7"}) {
        SCOPED_TRACE(change);
        const std::string key = std::string(change).substr(0, std::string(change).find(' '));
        const std::size_t at = good.find("\"" + key + "\": ");
        ASSERT_NE(at, std::string::npos);
        const std::size_t value = at + key.size() + 4;
        write_text(file, good.substr(0, value) + (change + key.size() + 1) +
                             good.substr(good.find_first_of(",\n", value)));
        write_manifest(config.out + "/last");
        const std::string message = refusal<DataError>();
        EXPECT_NE(message.find("state.json"), std::string::npos) << message;
        EXPECT_NE(message.find(key), std::string::npos) << message;
    }
    write_text(file, good);
    write_manifest(config.out + "/last");
    EXPECT_EQ(refusal<Error>(), "");
}

TEST_F(RunRules, DamageIsFoundAndNamed) {
    train(quiet().with_stop(stop), config);
    const auto files = files_of(config.out + "/best");
    EXPECT_GE(files.size(), 9u);
    for (const auto& [name, content] : files) {
        const std::string path = config.out + "/best/" + name;
        std::string changed = content;
        changed[changed.size() / 2] ^= 1;
        for (const std::string& damaged : {changed, content.substr(0, content.size() / 2), std::string()}) {
            write_text(path, damaged);
            const std::string message =
                message_of<DataError>([&] { Predictor(quiet(), config.out, config); });
            // One bit of the manifest may be the first digit of a checksum: then the file it belongs to is
            // named.
            if (name != "manifest.json") {
                EXPECT_NE(message.find(name), std::string::npos) << name << ": " << message;
            }
            EXPECT_NE(message, "") << name;
            EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        }
        std::filesystem::remove(path);
        EXPECT_NE(message_of<DataError>([&] { Predictor(quiet(), config.out, config); }), "") << name;
        write_text(path, content);
    }
    Predictor(quiet(), config.out, config);  // all is well again
    EXPECT_NE(message_of<DataError>([&] { Predictor(quiet(), temp / "nowhere", config); }), "");
    write_tiny_data(temp / "other", {.labels = 38, .with_names = false});
    Config other = config;
    other.data = temp / "other";
    EXPECT_NE(message_of<DataError>([&] { evaluate(quiet(), config.out, other); }).find("not the labels"),
              std::string::npos);
}

// A checkpoint may come from anywhere, with a manifest that fits it.
class ForgedState : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp_ / "data");
        config_ = tiny_config(temp_);
        config_.out = temp_ / "run";
        config_.steps = 4;
        train(quiet(), config_);
        last_ = std::filesystem::path(config_.out) / "last";
    }
    void forge(const char* file, const std::string& content) {
        write_text((last_ / file).string(), content);
        write_manifest(last_);
    }
    std::string read(const char* file) { return read_text((last_ / file).string()); }

    TempFolder temp_;
    Config config_;
    std::filesystem::path last_;
};

TEST_F(ForgedState, StepsThatCannotBeAreRefused) {
    config_.resume = true;
    const nlohmann::json good = nlohmann::json::parse(read("state.json"));
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, nlohmann::json>>{
             {"step", -5}, {"step", 5}, {"step", 1.5}, {"step", std::uint64_t{1} << 63}, {"updates", -1}}) {
        nlohmann::json bad = good;
        bad[key] = value;
        forge("state.json", bad.dump());
        const std::string message = message_of<DataError>([&] { train(quiet(), config_); });
        EXPECT_NE(message.find("state.json: expected"), std::string::npos) << key << " " << value << message;
    }
}

// Their sum is computed in several places.
TEST_F(ForgedState, CountsOfLabelsThatCannotBeAreRefused) {
    const std::string good = read("label_counts.safetensors");
    for (const std::int64_t count : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
        std::string bad = good;
        std::memcpy(bad.data() + bad.size() - sizeof count, &count, sizeof count);
        forge("label_counts.safetensors", bad);
        const std::string message =
            message_of<DataError>([&] { Checkpoint(config_.out, "last").read_label_counts(); });
        EXPECT_NE(message.find("label_counts.safetensors: expected counts of texts"), std::string::npos)
            << message;
    }
}

}  // namespace
}  // namespace elmo
