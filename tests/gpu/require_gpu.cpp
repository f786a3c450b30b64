// Where there is no GPU, the programs test_gpu_* skip all their tests and say why. With ELMO_REQUIRE_GPU set,
// as tools/gpu_test.sh does, that is a failure.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/backend.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

class RequireGpu : public ::testing::Environment {
    void SetUp() override {
        try {
            make_cuda_backend(quiet())->allocate(1);
        } catch (const Error& error) {
            if (std::getenv("ELMO_REQUIRE_GPU") != nullptr) FAIL() << error.what();
            // The words in brackets are what ctest knows a skipped test by.
            GTEST_SKIP() << "[  SKIPPED ] " << error.what();
        }
    }
};
const auto* const kRequireGpu = ::testing::AddGlobalTestEnvironment(new RequireGpu);

}  // namespace
}  // namespace elmo
