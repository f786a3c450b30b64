#include "formats/torch_file.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

fs::path torch_file(const std::string& name) {
    return fs::path(ELMO_SOURCE_DIR) / "tests/formats/torch" / name;
}

SafeTensors open(const std::string& name) {
    return open_torch_file(MappedFile(torch_file(name)));
}

std::vector<float> floats(const SafeTensors& file, const std::string& name) {
    std::vector<float> out(static_cast<std::size_t>(file.at(name).num_elements()));
    read_tensor(file.at(name), std::span(out));
    return out;
}

// Both were written by torch.save of torch 2.15, `old` with _use_new_zipfile_serialization=False.
TEST(TorchFile, ReadsBothFormats) {
    for (const char* name : {"new.bin", "old.bin"}) {
        SCOPED_TRACE(name);
        const SafeTensors file = open(name);
        EXPECT_EQ(file.names(),
                  (std::vector<std::string>{"a.bias", "a.weight", "b", "empty", "ids", "part", "tied"}));
        EXPECT_EQ(file.at("a.weight").shape, (std::vector<std::int64_t>{2, 3}));
        EXPECT_EQ(floats(file, "a.weight"), (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
        EXPECT_EQ(floats(file, "tied"), floats(file, "a.weight"));
        EXPECT_EQ(file.at("a.bias").dtype, "F16");
        EXPECT_EQ(floats(file, "a.bias"), (std::vector<float>{1.5f, -2, 0.25f, 3}));
        EXPECT_EQ(file.at("b").dtype, "BF16");
        EXPECT_EQ(floats(file, "b"), (std::vector<float>{1, 2, 3, -4}));
        EXPECT_EQ(floats(file, "part"), (std::vector<float>{4, 5, 6}));
        EXPECT_EQ(file.at("ids").dtype, "I64");
        EXPECT_EQ(file.at("empty").shape, (std::vector<std::int64_t>{0, 3}));
    }
}

TEST(TorchFile, FindsTheStateDictInATrainingCheckpoint) {
    const SafeTensors file = open("nested.pt");
    EXPECT_EQ(file.names(), (std::vector<std::string>{"bias", "weight"}));
    EXPECT_EQ(floats(file, "weight"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(floats(file, "bias"), (std::vector<float>{7, 8, 9}));
}

// The folder of an encoder whose weights were saved by older versions of transformers.
TEST(TorchFile, IsTakenWhereThereIsNoSafetensorsFile) {
    const fs::path bert = fs::path(ELMO_SOURCE_DIR) / "tests/model/golden/bert";
    const TempFolder folder;
    fs::copy_file(bert / "pytorch_model.bin", folder / "pytorch_model.bin");
    const SafeTensorsFolder torch = open_safetensors_folder(folder.path()),
                            usual = open_safetensors_folder(bert);
    ASSERT_EQ(torch.names(), usual.names());
    for (const std::string& name : usual.names()) {
        EXPECT_EQ(torch.at(name).shape, usual.at(name).shape);
        EXPECT_TRUE(std::ranges::equal(torch.at(name).data, usual.at(name).data)) << name;
    }
}

TEST(TorchFile, ExecutesNothing) {
    EXPECT_CONTAINS(data_error_of([] { open("calls.pt"); }),
                    "a call of 'posix.system', which is not executed");
}

// A file of the old format: the pickle of its dictionary, and the storage '0' without elements.
std::string old_file(const std::string& dict) {
    using namespace std::string_literals;
    const std::string number = "\x80\x02K\x01."s,
                      magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s;
    return magic + number + number + "\x80\x02" + dict + ".\x80\x02](X\x01\0\0\0"s + "0e." +
           std::string(8, '\0');
}

// Instructions that remember as 0 that storage, as 1 the function that makes tensors, as 2 the name 'w'.
std::string parts() {
    using namespace std::string_literals;
    return "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK\0tQq\0"s + "0" +
           "ctorch._utils\n_rebuild_tensor_v2\nq\x01" + "0" + "X\x01\0\0\0wq\x02"s + "0";
}

// Those that leave a tensor of this shape and these strides, a tuple.
std::string tensor_of(const std::string& shape) {
    using namespace std::string_literals;
    return "h\x01(h\0K\0"s + shape + shape + "tR";
}

TEST(TorchFile, MemoryIsInProportionToTheFile) {
    using namespace std::string_literals;
    const TempFolder folder;
    const auto error_of = [&](const std::string& dict) {
        spill(folder / "x.bin", old_file(parts() + dict));
        return data_error_of([&] { open_torch_file(MappedFile(folder / "x.bin")); });
    };
    const std::string empty = "(K\0t"s, number = "(t", huge = "\x8a\x08\0\0\0\0\0\0\0\x40"s;  // 2^62
    spill(folder / "good.bin", old_file(parts() + "}h\x02" + tensor_of(empty) + "s"));
    EXPECT_EQ(open_torch_file(MappedFile(folder / "good.bin")).at("w").shape, (std::vector<std::int64_t>{0}));
    // Every tensor has a shape, which two bytes repeat.
    std::string zeros = "(";
    for (int i = 0; i < 1000; ++i) zeros += "K\0"s;
    EXPECT_CONTAINS(error_of("}h\x02" + tensor_of(zeros + "t") + "s"), "a tensor of 1000 dimensions");
    // They also repeat a name, of any length: it is noticed before the second tensor is made.
    EXPECT_CONTAINS(error_of("}(h\x02" + tensor_of(empty) + "h\x02" + tensor_of(number) + "u"),
                    "tensor 'w' is there twice");
    EXPECT_CONTAINS(error_of("}h\x02" + tensor_of("(K\0"s + huge + huge + "t") + "s"),
                    "tensor 'w': its shape does not fit its storage");
}

TEST(TorchFile, SaysWhatItCannotRead) {
    EXPECT_CONTAINS(data_error_of([] { open("two.pt"); }), "found those of 'a' and 'b'");
    EXPECT_CONTAINS(data_error_of([] { open("transposed.pt"); }), "tensor 'w': it is not stored row by row");
    const TempFolder folder;
    spill(folder / "x.bin", "x");
    EXPECT_CONTAINS(data_error_of([&] { open_torch_file(MappedFile(folder / "x.bin")); }),
                    "expected a checkpoint of torch.save, found a file that starts in another way");
}

// Every file that is cut off or has a changed byte is read or refused, and a tensor lies in the file.
TEST(TorchFile, DamageIsRefusedOrHarmless) {
    const TempFolder folder;
    int refused = 0;
    const auto attempt = [&](const std::string& bytes) {
        spill(folder / "x.bin", bytes);
        try {
            const SafeTensors file = open_torch_file(MappedFile(folder / "x.bin"));
            const auto all = file.mapping().bytes();
            for (const TensorInfo& tensor : file.tensors())
                ASSERT_TRUE(tensor.data.empty() ||
                            (tensor.data.data() >= all.data() &&
                             tensor.data.data() + tensor.data.size() <= all.data() + all.size()));
        } catch (const DataError&) {
            ++refused;
        }
    };
    for (const char* name : {"new.bin", "old.bin", "nested.pt"}) {
        const std::string good = read_file(torch_file(name));
        for (std::size_t i = 0; i < good.size(); i += 3) {
            attempt(good.substr(0, i));
            std::string changed = good;
            changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? 0xff : 0x11));
            attempt(changed);
        }
    }
    EXPECT_GT(refused, 1900);  // every cut, and most changes
}

}  // namespace
}  // namespace elmo
