// The head: start, files in shards, mapping, top-k over pieces, refusal of damaged files.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text_util.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "formats/safetensors_writer.h"
#include "harness.h"

namespace elmo::head_test {
namespace {

using namespace test;

constexpr std::int64_t kLabels = 37, kWidth = 12;

// Weights that share bytes come in groups of eight.
std::int64_t width_of(const HeadFormat& format) {
    return format.is_packed() ? 24 : kWidth;
}

struct HeadModel {
    std::unique_ptr<Backend> backend;
    Head head;
    std::unique_ptr<Arena> arena;
    View x_BD, dx_BD;
    explicit HeadModel(const HeadFormat& format,
                       const std::string& device = kTestsGpu ? kTestedDevice : "reference",
                       std::int64_t labels = kLabels)
        : backend(make_backend(device)),
          head({LabelLayout::range(0, labels), width_of(format), format}, *backend) {
        Workload workload;
        workload.batch = 3;
        workload.width = width_of(format);
        workload.labels = labels;
        workload.positives = 3 * labels;
        workload.head_dtype = format.dtype;
        workload.head_row_exponents = format.grid.row_scaled;
        workload.head_packed = format.is_packed();
        workload.top_k = 50;
        const auto allocate = [&](Arena& in) {
            head.allocate(in, workload);
            x_BD = in.allocate("x", DType::kBf16, 3, workload.width);
            dx_BD = in.allocate("dx", DType::kF32, 3, workload.width);
            backend->reserve(in, workload);
            backend->reserve_head(in, workload);
        };
        arena = taken_arena(*backend, allocate);
        head.initialise(11);
        backend->fill_normal({x_BD, 1.0f, {3, 0, 100}, {3, 0, 101}, 0});
    }
    std::string weights() { return bytes_of(*backend, head.weights()); }
    std::string exponents() {
        return head.format().grid.row_scaled ? bytes_of(*backend, head.row_exponents()) : std::string();
    }
};

std::vector<std::vector<ScoredLabel>> ranking(const std::vector<TopK>& best) {
    std::vector<std::vector<ScoredLabel>> rows;
    for (const TopK& top : best) rows.push_back(top.sorted());
    return rows;
}

class HeadFormats : public testing::TestWithParam<HeadFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, HeadFormats,
                         testing::Values(DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4,
                                         head_format("exmy:2,5,3"), head_format("exmy:0,7,row"),
                                         head_format("exmy:3,12"), head_format("e2m5"), head_format("e2m3"),
                                         head_format("e2m1")),
                         [](const auto& p) {
                             std::string name = precision_of(p.param);
                             std::ranges::replace_if(
                                 name, [](char c) { return !std::isalnum(c); }, '_');
                             return name;
                         });

TEST_P(HeadFormats, RoundTripInAnyNumberOfShards) {
    HeadModel model(GetParam());
    model.head.step({model.x_BD, {}, 0.1f, 0, 1, 1, false, model.dx_BD});
    const std::int64_t row_bytes = GetParam().row_bytes(width_of(GetParam()));
    for (const std::int64_t shard_rows : {1, 10, 36, 37, 1000}) {
        const TemporaryFolder folder;
        model.head.save(folder.path, shard_rows * row_bytes);
        const std::int64_t files =
            std::distance(fs::directory_iterator(folder.path), fs::directory_iterator());
        EXPECT_EQ(files, (kLabels + shard_rows - 1) / shard_rows);

        HeadModel other(GetParam());
        other.head.initialise(99);
        EXPECT_NE(other.weights(), model.weights());
        other.head.load(folder.path);
        EXPECT_EQ(other.weights(), model.weights());
        EXPECT_EQ(other.exponents(), model.exponents());

        const Head mapped = Head::map(folder.path, *model.backend);
        EXPECT_EQ(mapped.labels(), kLabels);
        EXPECT_EQ(mapped.width(), width_of(GetParam()));
        EXPECT_TRUE(mapped.format().same_numbers(GetParam()));
        const HeadSpec stored = stored_head(folder.path);
        EXPECT_EQ(stored.layout.rows(), kLabels);
        EXPECT_EQ(stored.bytes(), model.head.weights().bytes());
        EXPECT_TRUE(stored.in_files);
        for (const std::int64_t k : {1, 5, 50})
            if (model.backend->host_memory()) {
                EXPECT_EQ(ranking(mapped.topk(model.x_BD, k)), ranking(model.head.topk(model.x_BD, k)));
            }
        EXPECT_EQ(model.head.topk(model.x_BD, 50)[0].size(), kLabels);
    }
}

TEST_P(HeadFormats, RowsAreTakenAndRewrittenByTheirBits) {
    HeadModel model(GetParam()), other(GetParam());
    other.head.initialise(99);
    const std::int64_t row_bytes = GetParam().row_bytes(width_of(GetParam()));
    const TemporaryFolder folder;
    model.head.save(folder.path, 10 * row_bytes);
    const std::vector<std::int64_t> rows = {0, 1, 2, 9, 10, 11, 25, 36};
    const auto row_of = [&](const std::string& bytes, std::int64_t row) {
        return bytes.substr(static_cast<std::size_t>(row * row_bytes), static_cast<std::size_t>(row_bytes));
    };

    HeadModel taken(GetParam(), "reference", 8), assigned(GetParam(), "reference", 8);
    taken.head.set_layout(LabelLayout::gathered(rows));
    taken.head.load(folder.path);
    const std::vector<float> values = read_head_rows(folder.path, rows);
    assigned.head.assign(values);
    for (std::int64_t i = 0; i < 8; ++i)
        EXPECT_EQ(row_of(taken.weights(), i), row_of(model.weights(), rows[static_cast<std::size_t>(i)]));
    // The same numbers; a row with an exponent of its own may have found a smaller one.
    const TemporaryFolder again;
    assigned.head.save(again.path);
    const std::vector<std::int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(read_head_rows(again.path, all), values);
    if (!GetParam().grid.row_scaled) {
        EXPECT_EQ(assigned.weights(), taken.weights());
    }

    for (const std::int64_t shard_rows : {1, 4, 100}) {
        const TemporaryFolder changed;
        const View exponents = other.head.row_exponents();
        rewrite_head(folder.path, rows, *other.backend, other.head.weights().slice(3, 8),
                     exponents.empty() ? View{} : exponents.slice(3, 8), changed.path,
                     shard_rows * row_bytes);
        HeadModel loaded(GetParam(), "reference", 13);
        loaded.head.load(changed.path);
        for (std::int64_t i = 0; i < 13; ++i)
            EXPECT_EQ(row_of(loaded.weights(), i),
                      i < 8 ? row_of(model.weights(), rows[static_cast<std::size_t>(i)])
                            : row_of(other.weights(), 3 + i - 8));
        for (std::size_t i = 0; i < loaded.exponents().size(); ++i)
            EXPECT_EQ(loaded.exponents()[i], i < 8 ? model.exponents()[static_cast<std::size_t>(rows[i])]
                                                   : other.exponents()[i - 5]);
    }
    const std::vector<std::int64_t> beyond = {36, 37};
    EXPECT_THROW(read_head_rows(folder.path, beyond), DataError);
    HeadModel wide(GetParam().dtype == DType::kF32 ? DType::kBf16 : DType::kF32, "reference", 8);
    wide.head.set_layout(LabelLayout::gathered(rows));
    EXPECT_THROW(wide.head.load(folder.path), DataError);
}

// A part of the labels has the start and the ranking of the whole head: both go by label, not by row.
TEST_P(HeadFormats, APartOfTheLabelsStartsAndRanksByLabel) {
    HeadModel whole(GetParam()), range(GetParam(), kTestedDevice, 9);
    const std::int64_t row_bytes = GetParam().row_bytes(width_of(GetParam()));
    const auto rows = [&](const std::string& bytes, std::int64_t first, std::int64_t count) {
        return bytes.substr(static_cast<std::size_t>(first * row_bytes),
                            static_cast<std::size_t>(count * row_bytes));
    };
    range.head.set_layout(LabelLayout::range(20, 27));  // fewer than there is memory for
    range.head.initialise(11);
    EXPECT_EQ(range.weights(), rows(whole.weights(), 20, 7));
    for (const TopK& top : range.head.topk(range.x_BD, 50)) {
        EXPECT_EQ(top.size(), 7);
        for (const ScoredLabel& found : top.sorted()) {
            EXPECT_GE(found.label, 20);
            EXPECT_LT(found.label, 27);
        }
    }

    // On the reference a label's score does not depend on the labels beside it by a bit.
    HeadModel exact(GetParam(), "reference"), list(GetParam(), "reference", 4);
    const TemporaryFolder folder;
    exact.head.save(folder.path, 10 * row_bytes);
    const std::vector<std::int64_t> labels = {3, 9, 10, 36};
    list.head.set_layout(LabelLayout::gathered(labels));
    list.head.load(folder.path);
    const auto all = ranking(exact.head.topk(exact.x_BD, kLabels)),
               some = ranking(list.head.topk(list.x_BD, 4));
    ASSERT_EQ(all.size(), some.size());
    for (std::size_t b = 0; b < all.size(); ++b) {
        std::vector<ScoredLabel> expected;
        for (const ScoredLabel& found : all[b])
            if (std::ranges::count(labels, found.label) > 0) expected.push_back(found);
        EXPECT_EQ(some[b], expected);
    }
}

TEST_P(HeadFormats, StartsTheSameOnEveryBackend) {
    HeadModel a(GetParam(), "reference"), b(GetParam(), kTestedDevice);
    EXPECT_EQ(a.weights(), b.weights());
    EXPECT_EQ(a.exponents(), b.exponents());
}

TEST_P(HeadFormats, NewRowsHaveRoomForTheirFirstUpdate) {
    const bool has_exponents = GetParam().grid.row_scaled;
    HeadModel model(GetParam(), kTestedDevice), reference(GetParam(), "reference"), small(GetParam()),
        clipped(GetParam());
    const auto first_step = [](HeadModel& of, float lr) {
        return HeadInput{of.x_BD, {}, lr, 0, 11, 1, true, of.dx_BD};
    };
    small.head.make_room(first_step(small, 0.01f));
    EXPECT_EQ(small.weights(), clipped.weights());
    EXPECT_EQ(small.exponents(), clipped.exponents());
    model.head.make_room(first_step(model, 40));
    reference.head.make_room(first_step(reference, 40));
    EXPECT_EQ(model.weights(), reference.weights());
    EXPECT_EQ(model.exponents(), reference.exponents());
    EXPECT_EQ(model.exponents() != clipped.exponents(), has_exponents);
    if (!has_exponents) {
        EXPECT_EQ(model.weights(), clipped.weights());
        return;
    }
    EXPECT_EQ(model.head.step(first_step(model, 40)).saturations, 0);
    EXPECT_GT(clipped.head.step(first_step(clipped, 40)).saturations, 0);
}

TEST_P(HeadFormats, MappedPiecesRankAsOne) {
    HeadModel model(GetParam(), kTestedDevice, 1000);
    if (!model.backend->host_memory()) GTEST_SKIP() << "files are not mapped into the memory of a GPU";
    const TemporaryFolder folder;
    model.head.save(folder.path, 300 * GetParam().row_bytes(width_of(GetParam())));
    const Head mapped = Head::map(folder.path, *model.backend);
    EXPECT_EQ(ranking(mapped.topk(model.x_BD, 7)), ranking(model.head.topk(model.x_BD, 7)));
}

TEST(Head, E3m4SaysItsFormatInTheMetadata) {
    HeadModel model(DType::kE3M4);
    const TemporaryFolder folder;
    model.head.save(folder.path);
    const SafeTensors file = SafeTensors::open(folder.path / "head-00001-of-00001.safetensors");
    EXPECT_EQ(file.at("weight").dtype, "U8");
    EXPECT_EQ(file.metadata().at("format"), "e3m4");
    EXPECT_EQ(file.metadata().at("bias"), "7");
}

// A grid is part of the file: what is on another one, or has no exponents, is not taken for it.
TEST(Head, GridsAreSaidInTheFileAndChecked) {
    HeadModel model(head_format("exmy:0,7,row")), other(head_format("exmy:2,5,row"));
    HeadModel plain(DType::kBf16);
    const TemporaryFolder folder;
    model.head.save(folder.path);
    const fs::path path = folder.path / "head-00001-of-00001.safetensors";
    EXPECT_EQ(SafeTensors::open(path).metadata().at("format"), "exmy:0,7,row");
    expect_mentions(message_of([&] { other.head.load(folder.path); }), {"exmy:2,5,row", "exmy:0,7,row"});
    expect_mentions(message_of([&] { plain.head.load(folder.path); }), {"bf16", "exmy:0,7,row"});
    const auto rewrite = [&](const std::string& format, const std::string& dtype, std::int64_t exponents,
                             std::byte exponent) {
        std::vector<TensorSpec> tensors = {{"weight", dtype, {kLabels, kWidth}}};
        if (exponents > 0) tensors.push_back({"row_exponents", "U8", {exponents}});
        SafeTensorsWriter writer(path, tensors, {{"first_row", "0"}, {"labels", "37"}, {"format", format}});
        const std::int64_t bytes = kLabels * kWidth * safetensors_element_bytes(dtype);
        writer.write("weight",
                     std::span<const std::byte>(std::vector<std::byte>(static_cast<std::size_t>(bytes))));
        if (exponents > 0)
            writer.write("row_exponents", std::span<const std::byte>(std::vector<std::byte>(
                                              static_cast<std::size_t>(exponents), exponent)));
        writer.commit();
        return message_of([&] { Head::map(folder.path, *model.backend); });
    };
    EXPECT_EQ(rewrite("exmy:0,7,row", "BF16", kLabels, std::byte{128}), "nothing was thrown");
    expect_mentions(rewrite("exmy:0,7,row", "BF16", 0, std::byte{}), {"row_exponents"});
    expect_mentions(rewrite("exmy:0,7,row", "BF16", kLabels - 1, std::byte{128}), {"row_exponents", "36"});
    expect_mentions(rewrite("exmy:0,7,row", "BF16", kLabels, std::byte{0}), {"row_exponents", "-128"});
    expect_mentions(rewrite("exmy:0,7,row", "F32", kLabels, std::byte{128}), {"bf16", "f32"});
    expect_mentions(rewrite("exmy:9,7", "BF16", 0, std::byte{}), {"exponent bits", "9"});
}

// Six and four bits per weight and a byte per row, in memory and in files; what cannot be so is refused.
TEST(Head, PackedWeightsTakeTheirBits) {
    for (const auto& [name, bytes] : {std::pair("e2m3", 18), std::pair("e2m1", 12)}) {
        SCOPED_TRACE(name);
        const HeadFormat format = head_format(name);
        HeadModel model(format);
        EXPECT_EQ(model.head.width(), 24);
        EXPECT_EQ(model.head.weights().bytes(), kLabels * bytes);
        EXPECT_EQ(model.head.row_exponents().bytes(), kLabels);
        for (const std::int64_t width : {1, 12, 23})
            expect_mentions(message_of([&] {
                                Head({LabelLayout::range(0, 3), width, format}, *model.backend);
                            }),
                            {"multiple of 8", name, std::to_string(width), grid_name(format.grid)});

        const TemporaryFolder folder;
        model.head.save(folder.path);
        const fs::path path = folder.path / "head-00001-of-00001.safetensors";
        const auto metadata = SafeTensors::open(path).metadata();
        EXPECT_EQ(SafeTensors::open(path).at("weight").dtype, "U8");
        EXPECT_EQ(SafeTensors::open(path).at("weight").shape, (std::vector<std::int64_t>{kLabels, bytes}));
        EXPECT_EQ(metadata.at("format"), name);
        const auto rewrite = [&](std::int64_t row_bytes, std::map<std::string, std::string> said) {
            SafeTensorsWriter writer(
                path, {{"weight", "U8", {kLabels, row_bytes}}, {"row_exponents", "U8", {kLabels}}}, said);
            const std::vector<std::byte> weights(static_cast<std::size_t>(kLabels * row_bytes)),
                exponents(kLabels, std::byte{128});
            writer.write("weight", std::span<const std::byte>(weights));
            writer.write("row_exponents", std::span<const std::byte>(exponents));
            writer.commit();
            return message_of([&] { model.head.load(folder.path); });
        };
        EXPECT_EQ(rewrite(bytes, metadata), "nothing was thrown");
        expect_mentions(rewrite(bytes + 1, metadata), {"weight", "multiple of", name});
        expect_mentions(rewrite(2 * bytes, metadata), {"width 24", "width 48"});
        auto other = metadata;
        other["mantissa_bits"] = "5";
        expect_mentions(rewrite(bytes, other), {"mantissa_bits", "found 5"});
        other["format"] = "e2m5";
        expect_mentions(rewrite(24, other), {name, "e2m5"});
    }
}

// Rounding to nearest does not change the format: BF16's own numbers.
TEST(Head, NearestBf16IsStoredAsBf16) {
    Config config;
    config.head_rounding = "nearest";
    const HeadFormat format = head_format(config);
    EXPECT_TRUE(format.grid.nearest);
    EXPECT_EQ(precision_of(format), "bf16");
    HeadModel model(format), plain(DType::kBf16);
    const TemporaryFolder folder;
    model.head.save(folder.path);
    plain.head.load(folder.path);
    EXPECT_EQ(plain.weights(), model.weights());
    config.precision = "e3m4";
    EXPECT_THROW(head_format(config), ConfigError);
}

TEST(Head, DamagedAndForeignShardsAreRefused) {
    const TemporaryFolder folder;
    HeadModel model(DType::kBf16);
    const auto shard = [&](int i) { return folder.path / fmt::format("head-{:05}-of-00003.safetensors", i); };
    const auto save = [&] { model.head.save(folder.path, 13 * kWidth * 2); };
    const auto map = [&] { return message_of([&] { Head::map(folder.path, *model.backend); }); };
    expect_mentions(map(), {folder.path.string(), "no head"});
    save();
    EXPECT_EQ(map(), "nothing was thrown");

    fs::remove(shard(2));
    expect_mentions(map(), {"head-00002-of-00003"});
    save();
    fs::remove(shard(3));
    expect_mentions(map(), {"head-00003-of-00003"});
    save();
    fs::rename(shard(1), folder.path / "x");
    fs::rename(shard(2), shard(1));
    fs::rename(folder.path / "x", shard(2));
    expect_mentions(map(), {"head-00001-of-00003", "first_row", "expected 0"});
    save();
    fs::resize_file(shard(3), fs::file_size(shard(3)) - 1);
    expect_mentions(map(), {"head-00003-of-00003"});
    save();
    fs::copy_file(shard(1), folder.path / "head-00001-of-00002.safetensors");
    expect_mentions(map(), {"two sets"});
    fs::remove(folder.path / "head-00001-of-00002.safetensors");

    const auto rewrite = [&](const std::string& name, const std::string& dtype,
                             std::vector<std::int64_t> shape,
                             const std::map<std::string, std::string>& metadata) {
        std::int64_t bytes = safetensors_element_bytes(dtype);
        for (const std::int64_t n : shape) bytes *= n;
        SafeTensorsWriter writer(shard(3), {{name, dtype, std::move(shape)}}, metadata);
        writer.write(name,
                     std::span<const std::byte>(std::vector<std::byte>(static_cast<std::size_t>(bytes))));
        writer.commit();
    };
    const std::int64_t rows = kLabels - 24;
    rewrite("weight", "BF16", {rows, kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    EXPECT_EQ(map(), "nothing was thrown");
    rewrite("weight", "F32", {rows, kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"head-00003", "expected bf16", "found fp32"});
    rewrite("weight", "BF16", {rows, kWidth + 1}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"head-00003", "width 12", "width 13"});
    rewrite("weight", "BF16", {rows, kWidth}, {{"first_row", "24"}, {"labels", "38"}});
    expect_mentions(map(), {"37 labels", "38"});
    rewrite("weight", "BF16", {rows * kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"[labels, width]"});
    rewrite("weight", "U8", {rows, kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"bias", "nothing"});
    rewrite("weight", "I32", {rows, kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"I32", "F8_E4M3"});
    rewrite("other", "BF16", {rows, kWidth}, {{"first_row", "24"}, {"labels", "37"}});
    expect_mentions(map(), {"head-00003", "weight"});
}

TEST(Head, LoadingAHeadOfAnotherShapeIsRefused) {
    const TemporaryFolder folder;
    HeadModel model(DType::kBf16), wide(DType::kF32), more(DType::kBf16, kTestedDevice, kLabels + 1);
    model.head.save(folder.path);
    expect_mentions(message_of([&] { wide.head.load(folder.path); }), {"fp32", "bf16"});
    expect_mentions(message_of([&] { more.head.load(folder.path); }), {"38 labels", "37 labels"});
    EXPECT_THROW(Head({LabelLayout::range(0, 0), 1, DType::kBf16}, *model.backend), ConfigError);
    EXPECT_THROW(head_format("fp4"), ConfigError);
    for (const char* name :
         {"fp32", "bf16", "fp8", "e3m4", "e2m5", "e2m3", "e2m1", "exmy:3,4,8", "exmy:0,7,row", "exmy:2,12,1"})
        EXPECT_EQ(precision_of(head_format(name)), name);
}

}  // namespace
}  // namespace elmo::head_test
