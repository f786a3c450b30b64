// Where a named encoder is found, and the command that gets it where it is not.
#include "config/encoder_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "elmo/error.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

class EncoderFolder : public testing::Test {
  protected:
    EncoderFolder() {
        std::string name = (fs::temp_directory_path() / "elmo-encoder-XXXXXX").string();
        path_ = mkdtemp(name.data());
        setenv("HF_HUB_CACHE", path_.c_str(), 1);
    }
    ~EncoderFolder() override {
        unsetenv("HF_HUB_CACHE");
        fs::remove_all(path_);
    }
    // A folder with a config.json.
    std::string make(const std::string& name) const {
        fs::create_directories(path_ / name);
        std::ofstream(path_ / name / "config.json") << "{}";
        return (path_ / name).string();
    }
    static std::string refusal(const std::string& encoder) {
        try {
            return encoder_folder(encoder);
        } catch (const ConfigError& error) {
            return error.what();
        }
    }
    fs::path path_;
};

TEST_F(EncoderFolder, KindsAndFoldersStay) {
    for (const char* kind : {"linear", "bag", "auto"}) EXPECT_EQ(encoder_folder(kind), kind);
    const std::string folder = make("folder");
    EXPECT_EQ(encoder_folder(folder), folder);
}

TEST_F(EncoderFolder, ARunIsItsBestCheckpoint) {
    const std::string best = make("run/best");
    make("run/last");
    EXPECT_EQ(encoder_folder((path_ / "run").string()), best);
}

TEST_F(EncoderFolder, NamesAreFoundInTheCache) {
    const std::string snapshot = make("models--sentence-transformers--all-mpnet-base-v2/snapshots/1");
    EXPECT_EQ(encoder_folder("sentence-transformers/all-mpnet-base-v2"), snapshot);
    EXPECT_EQ(encoder_folder("all-mpnet-base-v2"), snapshot);
}

TEST_F(EncoderFolder, AnAbsentNameGivesTheCommand) {
    const std::pair<const char*, const char*> names[] = {
        {"xlm-roberta-base", "run: hf download xlm-roberta-base"},
        {"intfloat/multilingual-e5-base", "run: hf download intfloat/multilingual-e5-base"},
        {"all-mpnet-base-v2", "run: hf download sentence-transformers/all-mpnet-base-v2"},
        {"multi-qa-mpnet-base-dot-v1", "run: hf download sentence-transformers/multi-qa-mpnet-base-dot-v1"}};
    for (const auto& [name, command] : names) EXPECT_TRUE(refusal(name).ends_with(command)) << refusal(name);
    // A download that was broken off has no configuration yet.
    fs::create_directories(path_ / "models--xlm-roberta-base/snapshots/1");
    EXPECT_TRUE(refusal("xlm-roberta-base").ends_with("hf download xlm-roberta-base"));
}

TEST_F(EncoderFolder, APathIsNoName) {
    for (const char* path : {"/no/such/folder", "./model", "~/model", "a/b/c", "model/"}) {
        EXPECT_NE(refusal(path).find("found no folder '" + std::string(path)), std::string::npos)
            << refusal(path);
        EXPECT_EQ(refusal(path).find("hf download"), std::string::npos);
    }
}

}  // namespace
}  // namespace elmo
