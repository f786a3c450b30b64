// The page in a real browser: tools/check_pages.py, which says what it checks. With ELMO_SCREENSHOTS set,
// pictures of it are left in that folder.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gallery.h"
#include "io/temp_folder.h"
#include "study/study_files.h"

namespace elmo {
namespace {

TEST(Page, ABrowserShowsEveryChartInNarrowAndWideLightAndDark) {
    const TempFolder folder;
    const StudyFiles files = write_study(gallery(), provenance_now("elmo study gallery"), folder.path());
    std::string command = std::string("python3 ") + ELMO_SOURCE_DIR + "/tools/check_pages.py " + files.html;
    if (const char* pictures = std::getenv("ELMO_SCREENSHOTS"))
        command += std::string(" --screenshots ") + pictures;
    const int status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "chromium is not installed";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace elmo
