// Opening libelmo_cuda.so: the error if it is missing or from another version, and that lines and errors of a
// library reach the program. Stubs stand in for the library (plugin_stub/).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "backend/backend.h"
#include "elmo/context.h"
#include "elmo/error.h"

namespace elmo {
namespace {

const std::filesystem::path kStubs = ELMO_PLUGIN_STUBS;

// ELMO_CUDA_LIBRARY for as long as it lives.
class Library {
  public:
    explicit Library(const std::filesystem::path& path) {
        if (const char* before = std::getenv(kName)) before_ = before;
        setenv(kName, path.c_str(), 1);
    }
    ~Library() { before_.empty() ? unsetenv(kName) : setenv(kName, before_.c_str(), 1); }

  private:
    static constexpr const char* kName = "ELMO_CUDA_LIBRARY";
    std::string before_;
};

std::string refusal() {
    try {
        make_cuda_backend(Context());
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no ConfigError";
}

TEST(CudaPlugin, MissingLibraryIsNamed) {
    const Library library("/no/such/libelmo_cuda.so");
    EXPECT_EQ(refusal(),
              "device: expected cpu or reference, found 'cuda': ELMO_CUDA_LIBRARY is "
              "/no/such/libelmo_cuda.so, which does not exist; set it to libelmo_cuda.so");
}

TEST(CudaPlugin, WhatIsNoLibraryIsNamed) {
    const Library library(ELMO_SOURCE_DIR "/README.md");
    const std::string message = refusal();
    EXPECT_NE(message.find("README.md does not load ("), std::string::npos) << message;
    EXPECT_NE(message.find("needs the libraries of CUDA 13"), std::string::npos) << message;
}

TEST(CudaPlugin, LibraryWithoutTheDoorIsNamed) {
    const Library library(kStubs / "libno_plugin_stub.so");
    EXPECT_EQ(refusal(), "device: expected cpu or reference, found 'cuda': " +
                             (kStubs / "libno_plugin_stub.so").string() +
                             " is not libelmo_cuda.so; use that");
}

TEST(CudaPlugin, LibraryOfAnotherElmoIsRefused) {
    const Library library(kStubs / "libother_plugin_stub.so");
    const std::string message = refusal();
    EXPECT_NE(message.find("belongs to another elmo (expected "), std::string::npos) << message;
    EXPECT_NE(message.find(", found another interface); build both"), std::string::npos) << message;
}

TEST(CudaPlugin, LinesAndErrorsOfTheLibraryReachTheProgram) {
    const Library library(kStubs / "libplugin_stub.so");
    std::string said, caught;
    Sinks sinks;
    sinks.message = [&](Severity, std::string_view line) { said = line; };
    try {
        make_cuda_backend(Context().with_sinks(sinks));
    } catch (const DeviceError& error) {  // a base of what is thrown
        caught = error.what();
    } catch (...) {
        caught = "something else";
    }
    EXPECT_EQ(said, "a line from the library");
    EXPECT_EQ(caught, "thrown in the library");
}

}  // namespace
}  // namespace elmo
