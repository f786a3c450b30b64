// Packed codes: where each bit lies, that all codes come back, and that neighbours stay.
#include "numerics/packed_codes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace elmo {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes packed(int bits, const Bytes& codes) {
    Bytes row((codes.size() * static_cast<std::size_t>(bits) + 7) / 8);
    for (std::size_t d = 0; d < codes.size(); ++d)
        put_code(row.data(), bits, static_cast<std::int64_t>(d), codes[d]);
    return row;
}

// Worked out by hand: 6 bits, the lowest first, are 100001, 000010, 011111 and 100000.
TEST(PackedCodes, LieWhereTheFormatSays) {
    EXPECT_EQ(packed(6, {0x81, 0x02, 0x1f, 0x80}), (Bytes{0xa1, 0xf0, 0x81}));
    EXPECT_EQ(packed(4, {0x87, 0x01}), (Bytes{0x1f}));
    EXPECT_EQ(packed(8, {0x81, 0x7f}), (Bytes{0x81, 0x7f}));
}

TEST(PackedCodes, AllCodesComeBackAndNeighboursStay) {
    std::mt19937 random(5);
    for (int bits = 2; bits <= 8; ++bits) {
        const std::uint32_t sizes = 1u << (bits - 1);
        const auto any = [&] { return static_cast<std::uint8_t>(random() % sizes | (random() % 2) << 7); };
        Bytes codes(3 * kCodeGroup);
        for (std::uint8_t& code : codes) code = any();
        Bytes row = packed(bits, codes);
        ASSERT_EQ(row.size(), static_cast<std::size_t>(3 * bits));
        for (std::size_t d = 0; d < codes.size(); ++d)
            for (std::uint32_t size = 0; size < sizes; ++size)
                for (const std::uint32_t sign : {0u, 0x80u}) {
                    codes[d] = static_cast<std::uint8_t>(size | sign);
                    put_code(row.data(), bits, static_cast<std::int64_t>(d), codes[d]);
                    for (std::size_t e = 0; e < codes.size(); ++e)
                        ASSERT_EQ(code_at(row.data(), bits, static_cast<std::int64_t>(e)), codes[e])
                            << bits << " bits, code " << e << " after " << d << " was set";
                }
    }
}

// Groups of eight are the same bytes.
TEST(PackedCodes, GroupsAreTheRow) {
    std::mt19937 random(6);
    for (int bits = 2; bits <= 8; ++bits)
        for (int round = 0; round < 1000; ++round) {
            Bytes codes(kCodeGroup);
            std::uint64_t group = 0;
            for (int i = 0; i < kCodeGroup; ++i) {
                codes[static_cast<std::size_t>(i)] =
                    static_cast<std::uint8_t>(random() % (1u << (bits - 1)) | (random() % 2) << 7);
                group |= group_of_code(codes[static_cast<std::size_t>(i)], bits, i);
            }
            Bytes bytes;
            for (int byte = 0; byte < bits; ++byte)
                bytes.push_back(static_cast<std::uint8_t>(group >> (8 * byte)));
            ASSERT_EQ(bytes, packed(bits, codes));
            for (int i = 0; i < kCodeGroup; ++i)
                ASSERT_EQ(code_of_group(group, bits, i), codes[static_cast<std::size_t>(i)]);
        }
}

}  // namespace
}  // namespace elmo
