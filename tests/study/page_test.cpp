// The page in a real browser: tools/check_pages.py, which says what it checks. With ELMO_SCREENSHOTS set,
// pictures of it are left in that folder.
#include <gtest/gtest.h>

#include "browser.h"
#include "gallery.h"
#include "io/temp_folder.h"
#include "study/study_files.h"

namespace elmo {
namespace {

TEST(Page, ABrowserShowsEveryChartInNarrowAndWideLightAndDark) {
    const TempFolder folder;
    const StudyFiles files = write_study(gallery(), provenance_now("elmo study gallery"), folder.path());
    test::check_in_browser("check_pages.py", files.html);
}

}  // namespace
}  // namespace elmo
