// What `--device auto` stands for, and that nobody asks for a GPU where a device was named.
#include "engine/device.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "config/resolve.h"
#include "elmo/error.h"
#include "elmo/predictor.h"
#include "elmo/resolve.h"
#include "elmo/train.h"
#include "engine/engine.h"
#include "quiet.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

// An environment variable for as long as it lives; null: not set.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        value == nullptr ? unsetenv(name) : setenv(name, value, 1);
    }
    ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

  private:
    const char* name_;
    std::string before_;
};

TEST(Device, AutoIsTheCpuWhereNoLibraryOpens) {
    const Variable named("ELMO_DEVICE", nullptr), library("ELMO_CUDA_LIBRARY", "/no/such/libelmo_cuda.so");
    const ChosenDevice choice = choose_device(quiet());
    EXPECT_EQ(choice.name, "cpu");
    EXPECT_TRUE(choice.why == "no GPU: no NVIDIA driver is installed" ||
                choice.why == "no GPU: ELMO_CUDA_LIBRARY is /no/such/libelmo_cuda.so, which does not exist")
        << choice.why;
    EXPECT_EQ(make_backend(quiet(), Config())->name(), "cpu");
}

TEST(Device, TheEnvironmentNamesIt) {
    const Variable named("ELMO_DEVICE", "reference");
    const Config config = with_device(quiet(), Config());
    EXPECT_EQ(config.device, "reference");
    EXPECT_EQ(reason_of(config, "device"), "auto: ELMO_DEVICE names it");
    Config given;
    given.device = "cpu";
    EXPECT_EQ(with_device(quiet(), given).device, "cpu");
    const Variable other("ELMO_DEVICE", "tpu");
    EXPECT_THROW(choose_device(quiet()), ConfigError);
}

// The run's recipe says where it was trained; another machine need not have that.
TEST(Device, OfARunDoesNotBindWhoUsesIt) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    Config config = tiny_config(temp);
    config.device = "reference";
    config.steps = 2;
    train(quiet(), config);
    EXPECT_EQ(read_run_recipe(temp.path() / "run/best/recipe.toml").device, "reference");
    const Variable named("ELMO_DEVICE", "cuda"), library("ELMO_CUDA_LIBRARY", "/no/such/libelmo_cuda.so");
    EXPECT_THROW(Predictor(quiet(), config.out, Config()), ConfigError);  // asks what this machine has
    Config cpu;
    cpu.device = "cpu";
    EXPECT_NO_THROW(Predictor(quiet(), config.out, cpu));
}

}  // namespace
}  // namespace elmo
