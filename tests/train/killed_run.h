// A run that is killed: the test program starts itself as a worker that trains, and kills it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "quiet.h"
#include "train/tiny_data.h"

extern char** environ;

namespace elmo::test {

// With ELMO_TEST_RECIPE set the program trains that recipe and runs no test.
class Worker : public ::testing::Environment {
    void SetUp() override {
        const char* recipe = std::getenv("ELMO_TEST_RECIPE");
        if (recipe == nullptr) return;
        Config config;
        load_recipe(config, recipe);
        const std::atomic<bool> stop{false};
        train(quiet().with_stop(stop), config);
        std::_Exit(0);
    }
};
inline const auto* const kWorker = ::testing::AddGlobalTestEnvironment(new Worker);

inline pid_t start_worker(const std::string& recipe, const std::string& key = "ELMO_TEST_RECIPE") {
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string filter = "--gtest_filter=*KilledRun*",
                brief = "--gtest_brief=1";  // no more than there must be
    char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
    std::string setting = key + "=" + recipe;
    std::vector<char*> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
    variables.push_back(setting.data());
    variables.push_back(nullptr);
    pid_t pid = 0;
    if (posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, variables.data()) != 0) return -1;
    return pid;
}

// Kills a new run, then a continued one, each when it has saved. Returns how often that came in time.
inline int train_and_kill_twice(Config config, const std::string& recipe) {
    int kills = 0;
    for (const bool resume : {false, true}) {
        config.resume = resume;
        write_text(recipe, to_recipe(config));
        const auto before = read_text(config.out + "/last/state.json");
        const pid_t worker = start_worker(recipe);
        if (worker <= 0) return -1;
        int status = 0;
        while (waitpid(worker, &status, WNOHANG) == 0) {
            const auto now = read_text(config.out + "/last/state.json");
            if (!now.empty() && now != before) kill(worker, SIGKILL);
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    return kills;
}

inline void expect_same_files(const std::string& expected_folder, const std::string& folder) {
    const auto expected = files_of(expected_folder), found = files_of(folder);
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(expected[i].first, found[i].first);
        EXPECT_TRUE(expected[i].second == found[i].second) << folder << "/" << found[i].first << " differs";
    }
}

}  // namespace elmo::test
