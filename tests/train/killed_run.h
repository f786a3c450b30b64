// A run that is killed: the test program starts itself as a worker that trains and that dies, by SIGKILL, at
// a moment that the test names: the same moment on every machine, and no race.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

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

// In a worker with ELMO_TEST_KILL_AT="N PATH": dies when a file or folder whose path begins with PATH is
// about to be put in its place for the Nth time.
inline void die_at(const std::string& path) {
    static const char* const moment = std::getenv("ELMO_TEST_KILL_AT");
    if (moment == nullptr) return;
    static int left = std::atoi(moment);
    if (path.starts_with(std::strchr(moment, ' ') + 1) && --left == 0) kill(getpid(), SIGKILL);
}

// Runs the program as a worker with these variables, "NAME=value". True when it was killed.
inline bool worker_is_killed(std::vector<std::string> settings) {
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string filter = "--gtest_filter=*KilledRun*",
                brief = "--gtest_brief=1";  // no more than there must be
    char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
    std::vector<char*> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
    for (std::string& setting : settings) variables.push_back(setting.data());
    variables.push_back(nullptr);
    pid_t worker = 0;
    if (posix_spawn(&worker, program.c_str(), nullptr, nullptr, arguments, variables.data()) != 0)
        return false;
    int status = 0;
    return waitpid(worker, &status, 0) == worker && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// Kills a new run, then a continued one, each in the middle of a save, with steps done since the save before.
// False when one of them was not killed.
inline bool train_and_kill_twice(Config config, const std::string& recipe) {
    for (const bool resume : {false, true}) {
        config.resume = resume;
        write_text(recipe, to_recipe(config));
        const std::string moment = (resume ? "5 " : "2 ") + config.out + "/last";
        if (!worker_is_killed({"ELMO_TEST_RECIPE=" + recipe, "ELMO_TEST_KILL_AT=" + moment})) return false;
    }
    return true;
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

// In place of those of the C library: a save ends with one of them.
extern "C" {
[[gnu::used]] inline int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                                   unsigned flags) noexcept {
    elmo::test::die_at(to);
    return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
[[gnu::used]] inline int rename(const char* from, const char* to) noexcept {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
}
