// What elmo export writes, refuses and replaces. tests/export/other_tools_test.py loads the folders in the
// tools that they are for.
#include "elmo/export.h"

#include <gtest/gtest.h>

#include <cstring>

#include "elmo/error.h"
#include "elmo/train.h"
#include "elmo/vector_head.h"
#include "export/onnx_model.h"
#include "formats/safetensors.h"
#include "model/head/head.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::read_text;
using test::TempFolder;
using test::write_text;

class Export : public testing::Test {
  protected:
    // A run of the tiny data, at temp/run.
    Config train_run(const std::string& encoder, const std::string& precision = "bf16",
                     std::int64_t windows = 1) {
        test::write_tiny_data(temp / "data");
        Config config = test::tiny_config(temp);
        config.encoder = encoder;
        if (encoder != "bag") config.width = Config().width;  // it has its own
        config.precision = precision;
        config.windows = windows;
        train(quiet(), config);
        Config exporting;
        exporting.out = temp / "out";
        return exporting;
    }
    Config train_bert(std::int64_t windows = 1) {
        test::write_tiny_bert(temp / "bert", 2);
        return train_run(temp / "bert", "bf16", windows);
    }
    std::string error_of(const std::string& to, const Config& config) {
        return message_of<ConfigError>([&] { export_run(quiet(), temp / "run", to, config); });
    }

    TempFolder temp;
};

TEST_F(Export, NumpyHasEveryWeightAndName) {
    for (const char* precision : {"bf16", "fp8", "e2m5"}) {
        fs::remove_all(temp / "run");
        Config config = train_run("bag", precision);
        config.overwrite = true;
        const ExportResult result = export_run(quiet(), temp / "run", "numpy", config);
        EXPECT_EQ(result.labels, 37);
        EXPECT_EQ(result.width, 16);
        const std::string bytes = read_text(temp / "out/labels.npy");
        const bool half = std::string(precision) == "fp8";
        ASSERT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
        const std::size_t begin =
            10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
        EXPECT_EQ(begin % 64, 0u);
        EXPECT_NE(bytes.find(half ? "'<f2'" : "'<f4'"), std::string::npos);
        EXPECT_NE(bytes.find("'shape': (37, 16)"), std::string::npos);
        std::vector<std::int64_t> rows;
        for (std::int64_t l = 0; l < 37; ++l) rows.push_back(l);
        const std::vector<float> weights = read_head_rows(fs::path(temp / "run/best"), rows);
        const std::size_t each = half ? 2 : 4;
        ASSERT_EQ(bytes.size() - begin, weights.size() * each);
        for (std::size_t i = 0; i < weights.size(); ++i) {
            float value = 0;
            std::uint16_t bits = 0;
            if (half) {
                std::memcpy(&bits, &bytes[begin + i * each], each);
                value = half_to_float(bits);
            } else {
                std::memcpy(&value, &bytes[begin + i * each], each);
            }
            ASSERT_EQ(value, weights[i]) << precision << " " << i;
        }
        EXPECT_EQ(read_text(temp / "out/labels.txt"), read_text(temp / "run/best/labels.txt"));
        EXPECT_EQ(result.notes.empty(), !half);
        for (const std::string& note : result.notes)
            EXPECT_NE(read_text(temp / "out/README.md").find(note), std::string::npos) << note;
    }
}

TEST_F(Export, SentenceTransformersHasTheWeightsInFloat32) {
    const Config config = train_bert();
    export_run(quiet(), temp / "run", "sentence-transformers", config);
    const SafeTensors before = SafeTensors::open(fs::path(temp / "run/best/model.safetensors"));
    const SafeTensors after = SafeTensors::open(fs::path(temp / "out/model.safetensors"));
    ASSERT_EQ(before.names(), after.names());
    for (const TensorInfo& tensor : before.tensors()) {
        std::vector<float> a(static_cast<std::size_t>(tensor.num_elements())), b = a;
        read_tensor(tensor, a);
        EXPECT_EQ(after.at(tensor.name).dtype, "F32");
        read_tensor(after.at(tensor.name), b);
        EXPECT_EQ(a, b) << tensor.name;
    }
    EXPECT_NE(read_text(temp / "out/config.json").find("\"float32\""), std::string::npos);
    for (const char* name :
         {"modules.json", "1_Pooling/config.json", "tokenizer.json", "tokenizer_config.json"})
        EXPECT_TRUE(fs::exists(fs::path(temp / "out") / name)) << name;
}

TEST_F(Export, OnnxIsAModelWithItsWeightsBesideIt) {
    const Config config = train_bert();
    const ExportResult result = export_run(quiet(), temp / "run", "onnx", config);
    const std::string model = read_text(temp / "out/model.onnx");
    for (const char* name : {"input_ids", "attention_mask", "TopK", "label_vectors", "model.onnx.data"})
        EXPECT_NE(model.find(name), std::string::npos) << name;
    EXPECT_GT(fs::file_size(temp / "out/model.onnx.data"), 37u * 16 * 4);
    EXPECT_EQ(result.files.size(), 6u);
}

TEST_F(Export, TheReadmeOfAHeadAsksForItsOwnVectors) {
    Config config;
    config.threads = 1;
    config.precision = "bf16";
    VectorHead(quiet(), config, {37, 16, 2}).save_run(temp / "run", {});
    config.out = temp / "out";
    export_run(quiet(), temp / "run", "numpy", config);
    const std::string readme = read_text(temp / "out/README.md");
    EXPECT_NE(readme.find("np.load(TEXTS)"), std::string::npos) << readme;
    EXPECT_EQ(readme.find("elmo.Run"), std::string::npos) << readme;
}

TEST_F(Export, TheReadmeSaysThatWindowsAreCut) {
    Config config = train_bert(2);
    for (const char* to : {"sentence-transformers", "onnx"}) {
        config.out = temp / to;
        export_run(quiet(), temp / "run", to, config);
        EXPECT_NE(read_text(config.out + "/README.md").find("in windows of"), std::string::npos) << to;
    }
}

TEST_F(Export, ABagHasLabelVectorsOnly) {
    const Config config = train_run("bag");
    for (const char* to : {"sentence-transformers", "onnx"}) {
        const std::string error = error_of(to, config);
        EXPECT_NE(error.find("found encoder bag"), std::string::npos) << error;
        EXPECT_NE(error.find("--to numpy"), std::string::npos) << error;
        EXPECT_FALSE(fs::exists(temp / "out"));
    }
}

TEST_F(Export, ALinearModelIsRefused) {
    const Config config = train_run("linear");
    const std::string error = error_of("numpy", config);
    EXPECT_NE(error.find("found a linear model"), std::string::npos) << error;
}

TEST_F(Export, OtherFilesStay) {
    Config config = train_run("bag");
    EXPECT_NE(error_of("pickle", config).find("found 'pickle'"), std::string::npos);
    export_run(quiet(), temp / "run", "numpy", config);
    EXPECT_NE(error_of("numpy", config).find("--overwrite"), std::string::npos);
    config.overwrite = true;
    export_run(quiet(), temp / "run", "numpy", config);
    write_text(temp / "out/mine.txt", "mine");
    EXPECT_NE(error_of("numpy", config).find("'mine.txt'"), std::string::npos);
    EXPECT_EQ(read_text(temp / "out/mine.txt"), "mine");
    config.out = temp / "run";
    EXPECT_NE(error_of("numpy", config).find("the run that is read"), std::string::npos);
    config.out = temp / "run/best";
    EXPECT_NE(error_of("numpy", config), "");
    EXPECT_TRUE(fs::exists(temp / "run/best/manifest.json"));
}

TEST_F(Export, ADamagedRunLeavesNoFolder) {
    const Config config = train_bert();
    std::string weights = read_text(temp / "run/best/model.safetensors");
    weights[weights.size() - 3] ^= 1;
    write_text(temp / "run/best/model.safetensors", weights);
    EXPECT_NE(message_of<DataError>([&] { export_run(quiet(), temp / "run", "onnx", config); }), "");
    EXPECT_FALSE(fs::exists(temp / "out"));
}

// Bytes that the protobuf documentation gives for its examples.
TEST(ProtoMessage, HasTheBytesOfTheFormat) {
    EXPECT_EQ(ProtoMessage().number(1, 150).bytes(), "\x08\x96\x01");
    EXPECT_EQ(ProtoMessage().text(2, "testing").bytes(), "\x12\x07testing");
    EXPECT_EQ(ProtoMessage().message(3, ProtoMessage().number(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
    EXPECT_EQ(ProtoMessage().number(1, -1).bytes(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    EXPECT_EQ(ProtoMessage().real(2, 1.0f).bytes(), std::string("\x15\x00\x00\x80\x3f", 5));
}

}  // namespace
}  // namespace elmo
