// The server's page in a real browser: tools/check_server_page.py, which says what it checks. With
// ELMO_SCREENSHOTS set, pictures of it are left in that folder.
#include "browser.h"
#include "serve/served.h"

namespace elmo {
namespace {

using namespace test;

class ServerPage : public Serve {};

TEST_F(ServerPage, ABrowserUsesItNarrowAndWideLightAndDark) {
    start();
    test::check_in_browser("check_server_page.py",
                           fmt::format("http://127.0.0.1:{}/ '{}'", server->port(), text));
}

}  // namespace
}  // namespace elmo
