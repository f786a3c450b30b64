// The server's page in a real browser: tools/check_server_page.py, which says what it checks. With
// ELMO_SCREENSHOTS set, pictures of it are left in that folder.
#include <cstdlib>

#include "serve/served.h"

namespace elmo {
namespace {

using namespace test;

class ServerPage : public Serve {};

TEST_F(ServerPage, ABrowserUsesItNarrowAndWideLightAndDark) {
    start();
    std::string command = fmt::format("python3 {}/tools/check_server_page.py http://127.0.0.1:{}/ '{}'",
                                      ELMO_SOURCE_DIR, server->port(), text);
    if (const char* pictures = std::getenv("ELMO_SCREENSHOTS"))
        command += std::string(" --screenshots ") + pictures;
    const int status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "chromium is not installed";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace elmo
