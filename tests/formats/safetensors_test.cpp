#include "formats/safetensors.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

std::string with_length(std::string_view header, std::string_view data = {}) {
    const std::uint64_t length = header.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out.append(header).append(data);
}

SafeTensors parse(const std::string& bytes) {
    return SafeTensors::parse(std::as_bytes(std::span(bytes)), "m");
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SafeTensors, ReadsTensorsAndMetadata) {
    const std::string file = with_length(
        R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"__metadata__":{"format":"pt","x":"y"},)"
        R"("a":{"data_offsets":[0,8],"shape":[1,2],"dtype":"F32"},"s":{"dtype":"BOOL","shape":[],"data_offsets":[11,12]},)"
        R"("empty":{"dtype":"I64","shape":[5,0,7],"data_offsets":[8,8]}}   )",
        "12345678abc!");
    const SafeTensors tensors = parse(file);
    EXPECT_EQ(tensors.names(), (std::vector<std::string>{"a", "b", "empty", "s"}));
    EXPECT_EQ(tensors.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"x", "y"}}));
    EXPECT_EQ(text_of(tensors.at("a").data), "12345678");
    EXPECT_EQ(tensors.at("a").shape, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(tensors.at("a").shape_text(), "[1, 2]");
    EXPECT_EQ(text_of(tensors.at("b").data), "abc");
    EXPECT_EQ(tensors.at("s").num_elements(), 1);
    EXPECT_EQ(tensors.at("empty").num_elements(), 0);
    EXPECT_EQ(tensors.find("c"), nullptr);
    EXPECT_CONTAINS(data_error_of([&] { tensors.at("emty"); }),
                    "expected a tensor 'emty', found none of that name (did you mean 'empty'?)");
    EXPECT_TRUE(parse(with_length("{}")).tensors().empty());
}

TEST(SafeTensors, RefusesWhatIsNotOne) {
    const auto tensor = [](const std::string& fields) {
        return with_length("{\"a\":{" + fields + "}}", "1234");
    };
    const std::pair<std::string, std::string> cases[] = {
        {"", "at least 8 bytes, found 0"},
        {"1234567", "at least 8 bytes, found 7"},
        {std::string(8, '\xff') + "{}", "header of at most 100000000 bytes, found 18446744073709551615"},
        {with_length("{}").substr(0, 9), "expected a header of 2 bytes, found 1"},
        {with_length(""), "expected a JSON object"},
        {with_length(" {}"), "expected a JSON object"},
        {with_length("[]"), "expected a JSON object"},
        {with_length(std::string("{}\0{", 4)), "expected a JSON object"},
        {with_length("{"), "expected a JSON header, found an error at line 1, column 2"},
        {with_length("{}x"), "expected a JSON header"},
        {with_length("{\"\xff\":{}}"), "expected a JSON header"},
        {with_length("{\"a\":" + std::string(50'000'000, '[')),
         "tensor 'a': expected an object, found a list"},
        {with_length("{\"a\":1}"), "tensor 'a': expected an object, found 1"},
        {with_length("{\"a\":null}"), "tensor 'a': expected an object, found null"},
        {with_length("{\"__metadata__\":{\"x\":1}}"), "expected strings in __metadata__, found 1"},
        {with_length("{\"__metadata__\":{\"x\":{}}}"), "expected strings in __metadata__, found an object"},
        {with_length("{\"__metadata__\":[]}"), "expected an object of strings as __metadata__"},
        {with_length("{\"__metadata__\":{\"x\":\"\",\"x\":\"\"}}"), "metadata 'x' is there twice"},
        {with_length("{\"__metadata__\":{},\"__metadata__\":{}}"), "__metadata__ is there twice"},
        {tensor(R"("dtype":"F32","shape":[1])"), "found only some of them"},
        {tensor(R"("dtype":"F32","dtype":"F32")"), "dtype is there twice"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1)"), "found 'extra'"},
        {tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), "unknown dtype 'F33'"},
        {tensor(R"("dtype":7,"shape":[1],"data_offsets":[0,4])"), "expected a string as dtype, found 7"},
        {tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"),
         "expected whole numbers from 0 as shape, found 1.0"},
        {tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "found a negative number"},
        {tensor(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])"), "found the text '1'"},
        {tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), "found a list"},
        {tensor(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), "expected a list as shape"},
        {tensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])"), "as shape"},
        {tensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])"), "as shape"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), "expected two data_offsets, found 1"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"),
         "expected two data_offsets, found more"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "run backwards"},
        {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
         "data_offsets end at 8, the file has 4 bytes"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775807])"), "truncated?"},
        {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "does not fill its 4 bytes"},
        {tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"),
         "does not fill its 0 bytes"},
        {tensor(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"),
         "start at 0, found 1: a gap or an overlap"},
        {tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "expected 3 bytes of tensors, found 4"},
        {with_length(
             R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
             "1234"),
         "tensor 'b': expected data_offsets that start at 3, found 2"},
        {with_length(
             R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
             "1234"),
         "tensor 'a' is there twice"},
    };
    for (const auto& [bytes, part] : cases) {
        const std::string message = data_error_of([&, &input = bytes] { parse(input); });
        EXPECT_CONTAINS(message, part);
        EXPECT_TRUE(message.starts_with("m: ")) << message;
        EXPECT_LT(message.size(), 400u);
    }
}

TEST(SafeTensors, EveryTruncationIsAnError) {
    const std::string whole = with_length(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234");
    EXPECT_EQ(parse(whole).tensors().size(), 1u);
    for (std::size_t kept = 0; kept < whole.size(); ++kept)
        EXPECT_THROW(parse(whole.substr(0, kept)), DataError);
}

// Frozen bytes; the public safetensors library loads this file (checked when it was made).
TEST(SafeTensorsWriter, GoldenBytes) {
    TempFolder folder;
    SafeTensorsWriter writer(
        folder / "m.safetensors",
        {{"head.weight", "F8_E4M3", {2, 3}}, {"bias", "F32", {1}}, {"codes", "U8", {2}}, {"w", "BF16", {2}}},
        {{"format", "pt"}, {"elmo", "1"}});
    const std::uint8_t fp8[] = {0x38, 0xb8, 0x00, 0x7e, 0x01, 0x30};
    writer.write("head.weight", std::as_bytes(std::span(fp8).first(2)));
    const float one = 1.0f;
    writer.write("bias", std::span(&one, 1));
    writer.write("codes", std::as_bytes(std::span(std::string_view("\x01\xff"))));
    const Bf16 w[] = {to_bf16(2.0f), to_bf16(-1.0f)};
    writer.write("w", std::span<const Bf16>(w));
    writer.write("head.weight", std::as_bytes(std::span(fp8).subspan(2)));
    writer.commit();
    const std::string header =
        R"({"__metadata__":{"elmo":"1","format":"pt"},"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
        R"("w":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},"head.weight":{"dtype":"F8_E4M3","shape":[2,3],)"
        R"("data_offsets":[8,14]},"codes":{"dtype":"U8","shape":[2],"data_offsets":[14,16]}})";
    std::string expected = with_length(header + std::string(312 - header.size(), ' '));
    expected += std::string("\x00\x00\x80\x3f\x00\x40\x80\xbf\x38\xb8\x00\x7e\x01\x30\x01\xff", 16);
    EXPECT_EQ(slurp(folder / "m.safetensors"), expected);
    EXPECT_EQ((expected.size() - 16) % 64, 0u);

    const SafeTensors read = SafeTensors::open(folder / "m.safetensors");
    EXPECT_EQ(read.metadata().at("elmo"), "1");
    EXPECT_EQ(text_of(read.at("head.weight").data), std::string("\x38\xb8\x00\x7e\x01\x30", 6));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.at("bias").data.data()) % 64, 0u);
}

TEST(SafeTensorsWriter, Refuses) {
    TempFolder folder;
    const auto path = folder / "m";
    using Specs = std::vector<TensorSpec>;
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"a", "U8", {1}}, {"a", "U8", {1}}});
                    }),
                    "'a' is given twice");
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"a", "X8", {1}}});
                    }),
                    "cannot be written: X8 [1]");
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"a", "U8", {-1}}});
                    }),
                    "cannot be written");
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"a", "U8", {1L << 40, 1L << 40}}});
                    }),
                    "cannot be written");
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"\xff", "U8", {1}}});
                    }),
                    "must be UTF-8");
    EXPECT_CONTAINS(data_error_of([&] {
                        SafeTensorsWriter(path, Specs{{"__metadata__", "U8", {1}}});
                    }),
                    "cannot be written");
    {
        SafeTensorsWriter writer(path, Specs{{"a", "U8", {2}}});
        const auto bytes = std::as_bytes(std::span(std::string_view("123")));
        EXPECT_CONTAINS(data_error_of([&] { writer.write("b", bytes); }), "'b' was not announced");
        EXPECT_CONTAINS(data_error_of([&] { writer.write("a", bytes); }),
                        "expected at most 2 more bytes, found 3");
        writer.write("a", bytes.first(1));
        EXPECT_CONTAINS(data_error_of([&] { writer.commit(); }), "tensor 'a' lacks 1 bytes");
    }
    EXPECT_TRUE(folder.entries().empty());
}

TEST(SafeTensors, Conversions) {
    TempFolder folder;
    SafeTensorsWriter writer(folder / "m", {{"f32", "F32", {4}},
                                            {"f16", "F16", {6}},
                                            {"bf16", "BF16", {2}},
                                            {"f64", "F64", {1}},
                                            {"u8", "U8", {1}},
                                            {"odd", "U8", {1}}});
    const float f32[] = {1.0f, -0.0f, 1.00390625f, 3e38f};
    const std::uint16_t f16[] = {0x3c00, 0x0001, 0xfbff, 0x7c00, 0x8000, 0x3555};
    const std::uint16_t bf16[] = {0x3f80, 0xc000};
    const double f64 = 0.1;
    writer.write("f32", std::span<const float>(f32));
    writer.write("f16", std::span<const std::uint16_t>(f16));
    writer.write("bf16", std::span<const std::uint16_t>(bf16));
    writer.write("f64", std::span(&f64, 1));
    writer.write("u8", std::as_bytes(std::span("x", 1)));
    writer.write("odd", std::as_bytes(std::span("x", 1)));
    writer.commit();
    const SafeTensors file = SafeTensors::open(folder / "m");
    const auto floats = [&](const char* name) {
        std::vector<float> out(static_cast<std::size_t>(file.at(name).num_elements()));
        read_tensor(file.at(name), std::span(out));
        return out;
    };
    EXPECT_EQ(floats("f32"), (std::vector<float>{1.0f, -0.0f, 1.00390625f, 3e38f}));
    EXPECT_EQ(floats("f16"),
              (std::vector<float>{1.0f, 0x1p-24f, -65504.0f, INFINITY, -0.0f, 0.333251953125f}));
    EXPECT_EQ(floats("bf16"), (std::vector<float>{1.0f, -2.0f}));
    EXPECT_EQ(floats("f64"), (std::vector<float>{0.1f}));
    std::vector<Bf16> narrow(4);
    read_tensor(file.at("f32"), std::span(narrow));
    EXPECT_EQ(narrow[2].bits, 0x3f80);  // a tie goes to even
    std::vector<Bf16> halves(6);
    read_tensor(file.at("f16"), std::span(halves));
    EXPECT_EQ(halves[5].bits, to_bf16(0.333251953125f).bits);
    EXPECT_CONTAINS(data_error_of([&] { floats("u8"); }),
                    "tensor 'u8': expected F32, F16, BF16 or F64, found U8");
    std::vector<float> wrong(3);
    EXPECT_CONTAINS(data_error_of([&] { read_tensor(file.at("f32"), std::span(wrong)); }),
                    "expected 3 elements, found shape [4]");
}

void write_one(const std::filesystem::path& path, const std::string& tensor) {
    SafeTensorsWriter writer(path, {{tensor, "U8", {1}}});
    writer.write(tensor, std::as_bytes(std::span(tensor).first(1)));
    writer.commit();
}

TEST(SafeTensorsFolder, OneFileOrShards) {
    TempFolder folder;
    EXPECT_CONTAINS(data_error_of([&] { open_safetensors_folder(folder.path()); }), "found none");
    write_one(folder / "model-1.safetensors", "a");
    write_one(folder / "model-2.safetensors", "b");
    const auto index = folder / "model.safetensors.index.json";
    spill(
        index,
        R"({"metadata":{"total_size":2},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
    const SafeTensorsFolder both = open_safetensors_folder(folder.path());
    EXPECT_EQ(both.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(text_of(both.at("b").data), "b");
    EXPECT_EQ(both.find("c"), nullptr);
    EXPECT_THROW(both.at("c"), DataError);

    const std::pair<std::string, std::string> cases[] = {
        {R"({"weight_map":{"a":"model-2.safetensors"}})", "expected the tensor 'a' that the index lists"},
        {R"({"weight_map":{"a":"model-3.safetensors"}})", "cannot open"},
        {R"({"weight_map":{"a":"../model-1.safetensors"}})", "expected the name of a file in the folder"},
        {R"({"weight_map":{"a":"/etc/passwd"}})", "expected the name of a file in the folder"},
        {R"({"weight_map":{"a":7}})", "expected the name of a file in the folder, found 7"},
        {R"({"weight_map":[]})", "expected an object with a weight_map"},
        {R"([])", "expected an object with a weight_map"},
        {R"({"weight_map":)", "expected JSON, found an error at line 1"},
        {std::string(1'000'000, '['), "nested at most"},
    };
    for (const auto& [content, part] : cases) {
        spill(index, content);
        EXPECT_CONTAINS(data_error_of([&] { open_safetensors_folder(folder.path()); }), part);
    }
    write_one(folder / "model.safetensors", "whole");
    EXPECT_EQ(open_safetensors_folder(folder.path()).names(), std::vector<std::string>{"whole"});
}

TEST(SafeTensors, ARealModel) {
    const char* shared = std::getenv("ELMO_SHARED");
    const std::filesystem::path folder =
        std::filesystem::path(shared != nullptr ? shared : ELMO_SOURCE_DIR "/../shared") /
        "models/all-MiniLM-L6-v2";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
    const SafeTensorsFolder model = open_safetensors_folder(folder);
    const TensorInfo& words = model.at("embeddings.word_embeddings.weight");
    EXPECT_EQ(words.shape, (std::vector<std::int64_t>{30522, 384}));
    EXPECT_EQ(words.dtype, "F16");
    std::vector<float> values(static_cast<std::size_t>(words.num_elements()));
    read_tensor(words, std::span(values));
    for (const float value : values) ASSERT_TRUE(std::abs(value) < 10);
}

}  // namespace
}  // namespace elmo
