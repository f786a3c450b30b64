// Checks of pages in a real browser, by the scripts in tools/. ELMO_SCREENSHOTS names a folder for pictures.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

namespace elmo::test {

// Runs tools/SCRIPT with arguments. The test is skipped where there is no chromium, and fails where the page
// has problems.
inline void check_in_browser(const std::string& script, const std::string& arguments) {
    std::string command = std::string("python3 ") + ELMO_SOURCE_DIR + "/tools/" + script + " " + arguments;
    if (const char* pictures = std::getenv("ELMO_SCREENSHOTS"))
        command += std::string(" --screenshots ") + pictures;
    const int status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "chromium is not installed";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace elmo::test
