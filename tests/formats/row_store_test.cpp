// Rows that are written in pieces, found again after an interruption, and refused when they are not whole.
#include "formats/row_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "elmo/error.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

class RowStoreTest : public ::testing::Test {
  protected:
    static constexpr std::int64_t kRows = 10, kCols = 3;

    RowStore open(const std::string& identity = "a run") const {
        return RowStore(folder, "vectors", DType::kF32, kRows, kCols, identity);
    }
    // Row i is 3 i, 3 i + 1, 3 i + 2.
    static std::vector<float> values(std::int64_t first, std::int64_t last) {
        std::vector<float> v(static_cast<std::size_t>((last - first) * kCols));
        std::iota(v.begin(), v.end(), static_cast<float>(first * kCols));
        return v;
    }
    static void append(RowStore& store, std::int64_t last) {
        store.append(std::as_bytes(std::span<const float>(values(store.rows_done(), last))));
    }
    static void expect_rows(const RowStore& store) {
        for (std::int64_t i = 0; i < store.rows_done(); ++i) {
            float row[kCols];
            std::memcpy(row, store.rows_from(i).data(), sizeof row);
            for (std::int64_t c = 0; c < kCols; ++c) EXPECT_EQ(row[c], static_cast<float>(i * kCols + c));
        }
    }
    std::string refusal(const std::string& identity = "a run") const {
        try {
            open(identity);
        } catch (const DataError& error) {
            return error.what();
        }
        return "";
    }

    TempFolder temp;
    std::filesystem::path folder = temp.path() / "work";
};

TEST_F(RowStoreTest, PiecesAreFoundAgain) {
    {
        RowStore store = open();
        EXPECT_EQ(store.rows_done(), 0);
        append(store, 4);
        append(store, 5);
        expect_rows(store);
    }
    RowStore store = open();
    EXPECT_EQ(store.rows_done(), 5);
    EXPECT_FALSE(store.complete());
    EXPECT_EQ(store.rows_from(1).size(), 3u * kCols * 4);  // of its piece
    append(store, 10);
    EXPECT_TRUE(store.complete());
    store.release_pages();
    expect_rows(store);
    const RowStore again = open();
    EXPECT_TRUE(again.complete());
    expect_rows(again);
}

TEST_F(RowStoreTest, DamageAndOtherRowsAreRefusedByName) {
    {
        RowStore store = open();
        append(store, 4);
        append(store, 10);
    }
    EXPECT_NE(refusal("another run").find("rows of a run"), std::string::npos);
    const auto piece = folder / "vectors-000000000004.safetensors";
    std::string bytes;
    {
        std::ifstream in(piece, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    const auto write = [&](const std::string& content) { std::ofstream(piece, std::ios::binary) << content; };
    std::string changed = bytes;
    changed[changed.size() - 5] ^= 1;
    write(changed);
    EXPECT_NE(refusal().find("vectors-000000000004.safetensors: expected checksum"), std::string::npos)
        << refusal();
    write(bytes.substr(0, bytes.size() - 1));
    EXPECT_NE(refusal().find("vectors-000000000004"), std::string::npos);
    write("");
    EXPECT_NE(refusal().find("vectors-000000000004"), std::string::npos);
    write(bytes);
    EXPECT_EQ(refusal(), "");
    EXPECT_NE(
        [&] {
            try {
                RowStore(folder, "vectors", DType::kF32, 9, kCols, "a run");
            } catch (const DataError& error) {
                return std::string(error.what());
            }
            return std::string();
        }()
            .find("at most 5 rows"),
        std::string::npos);
}

}  // namespace
}  // namespace elmo
