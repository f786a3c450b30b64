// Grids of any format against their numbers listed one by one, and against the 8-bit formats and BF16.
#include "numerics/row_exponents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "elmo/error.h"
#include "numerics/bf16.h"
#include "numerics/minifloat.h"

namespace elmo {
namespace {

struct Case {
    WeightGrid grid;
    int row_exponent = 0;
};

// The numbers from zero up: k * 2^(1 - bias - M) for the subnormals, then 2^M numbers a binade.
std::vector<double> numbers(const Case& c) {
    const WeightGrid& f = c.grid;
    std::vector<double> values;
    const int steps = 1 << f.mantissa_bits, bias = f.bias - c.row_exponent;
    for (int k = 0; k < steps; ++k) values.push_back(k * std::exp2(1 - bias) / steps);
    for (int e = 1; e < 1 << f.exponent_bits && e - bias <= 127; ++e)
        for (int k = 0; k < steps; ++k) values.push_back((1.0 + double(k) / steps) * std::exp2(e - bias));
    if (f.is_e4m3()) values.pop_back();  // 480, whose code is NaN
    return values;
}

float rounded(const Case& c, float x, bool nearest, std::uint32_t noise, std::uint32_t* saturated = nullptr) {
    std::uint32_t count = 0;
    const float y = round_to_grid(grid_row(c.grid, c.row_exponent), x, nearest, noise, count);
    if (saturated != nullptr) *saturated += count;
    return y;
}

class Grids : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Formats, Grids,
                         testing::Values(Case{{4, 3, 7}}, Case{{3, 4, 7}}, Case{{3, 4, 9}}, Case{{5, 2, 15}},
                                         Case{{2, 5, 1}}, Case{{2, 1, 1}}, Case{{2, 0, 1}}, Case{{1, 6, 0}},
                                         Case{{0, 7, 0}}, Case{{0, 1, 3}}, Case{{3, 10, 4}},
                                         Case{{8, 2, 127}}, Case{{2, 3, 126}}, Case{{0, 7, 0, true}, -4},
                                         Case{{2, 5, 1, true}, 5}, Case{{4, 3, 7, true}, 60}),
                         [](const auto& p) {
                             const WeightGrid& g = p.param.grid;
                             return "e" + std::to_string(g.exponent_bits) + "m" +
                                    std::to_string(g.mantissa_bits) + "b" + std::to_string(g.bias) + "r" +
                                    std::to_string(p.param.row_exponent + 100);
                         });

TEST_P(Grids, NumbersOfTheGridStay) {
    std::uint32_t saturated = 0;
    for (const double v : numbers(GetParam()))
        for (const float x : {static_cast<float>(v), -static_cast<float>(v)}) {
            ASSERT_EQ(static_cast<double>(std::abs(x)), v);
            EXPECT_EQ(rounded(GetParam(), x, true, 0, &saturated), x);
            for (const std::uint32_t noise : {0u, 1u, 32768u, 65535u})
                EXPECT_EQ(rounded(GetParam(), x, false, noise, &saturated), x);
            EXPECT_EQ(std::signbit(rounded(GetParam(), x, false, 7)), std::signbit(x));
        }
    EXPECT_EQ(saturated, 0u);
    EXPECT_EQ(grid_row(GetParam().grid, GetParam().row_exponent).max, numbers(GetParam()).back());
}

TEST_P(Grids, SaturatesAndCounts) {
    const auto top = static_cast<float>(numbers(GetParam()).back());
    const float inf = std::numeric_limits<float>::infinity();
    for (const float x : {std::nextafter(top, inf), top * 1.5f, inf, std::numeric_limits<float>::quiet_NaN()})
        for (const bool nearest : {false, true}) {
            std::uint32_t saturated = 0;
            EXPECT_EQ(rounded(GetParam(), std::copysign(x, 1.0f), nearest, 0, &saturated), top) << x;
            EXPECT_EQ(rounded(GetParam(), std::copysign(x, -1.0f), nearest, 65535, &saturated), -top) << x;
            EXPECT_EQ(saturated, 2u);
        }
    EXPECT_LE(rounded(GetParam(), std::nextafter(top, 0.0f), false, 65535), top);
}

// Where x lies between two neighbours: nearest by distance, ties to the even one of them; stochastically up
// as often as the fraction says, over all noises.
TEST_P(Grids, RoundsBetweenNeighbours) {
    const std::vector<double> values = numbers(GetParam());
    std::mt19937 random(3);
    std::uniform_real_distribution<double> place(0, 1);
    const std::size_t stride = std::max<std::size_t>(values.size() / 60, 1);
    for (std::size_t i = 0; i + 1 < values.size(); i += stride) {
        const double down = values[i], up = values[i + 1], middle = (down + up) / 2;
        // Without a mantissa every normal number is one unit, an odd number of them.
        const bool even = GetParam().grid.mantissa_bits > 0 ? i % 2 == 0 : i == 0;
        std::vector<float> inputs = {
            static_cast<float>(middle), std::nextafter(static_cast<float>(middle), 0.0f),
            std::nextafter(static_cast<float>(middle), std::numeric_limits<float>::infinity())};
        for (int j = 0; j < 3; ++j) inputs.push_back(static_cast<float>(down + (up - down) * place(random)));
        for (const float x : inputs) {
            if (x <= down || x >= up) continue;
            const double nearest = x - down < up - x || (x - down == up - x && even) ? down : up;
            EXPECT_EQ(rounded(GetParam(), x, true, 0), nearest) << x;
            EXPECT_EQ(rounded(GetParam(), -x, true, 0), -nearest) << x;
        }
        if (i % (4 * stride) != 0) continue;
        for (const float x : inputs) {
            if (x <= down || x >= up) continue;
            int ups = 0;
            for (std::uint32_t noise = 0; noise < 65536; ++noise) {
                const double y = rounded(GetParam(), x, false, noise);
                ASSERT_TRUE(y == up || y == down) << x << " to " << y;
                ups += y == up;
            }
            EXPECT_NEAR(ups, 65536 * (static_cast<double>(x) - down) / (up - down), 1.0) << x;
        }
    }
}

TEST(Grid, AgreesWithTheFormatsOfTheirOwn) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> exponent(-20, 12);
    std::uniform_int_distribution<std::uint32_t> any(0, 65535);
    const GridRow e3m4 = grid_row({3, 4, 7}), e4m3 = grid_row({4, 3, 7}), bf16 = grid_row(kBf16Grid);
    EXPECT_EQ(e3m4.max, kE3M4.max_value());
    for (int i = 0; i < 200000; ++i) {
        const float x = std::exp2(exponent(random)) * (i % 2 == 0 ? 1 : -1);
        const auto noise = static_cast<std::uint16_t>(any(random));
        std::uint32_t saturated = 0, ignored = 0;
        std::int64_t expected_saturated = 0;
        ASSERT_EQ(round_to_grid(e3m4, x, false, noise, saturated),
                  kE3M4.decode(round_stochastic(kE3M4, x, noise, &expected_saturated)))
            << x;
        ASSERT_EQ(saturated, expected_saturated);
        ASSERT_EQ(round_to_grid(e3m4, x, true, 0, ignored), kE3M4.decode(round_nearest(kE3M4, x))) << x;
        ASSERT_EQ(round_to_grid(e4m3, x, false, noise, ignored),
                  kE4M3.decode(round_stochastic(kE4M3, x, noise)))
            << x;
        ASSERT_EQ(round_to_grid(bf16, x, false, noise, ignored), to_float(round_stochastic_bf16(x, noise)));
        ASSERT_EQ(round_to_grid(bf16, x, true, 0, ignored), to_float(to_bf16(x)));
    }
    for (const float x : {1e-39f, 3e-41f, 1e-45f, -2e-40f}) {
        std::uint32_t ignored = 0;
        EXPECT_EQ(round_to_grid(bf16, x, false, 40000, ignored), to_float(round_stochastic_bf16(x, 40000)));
        EXPECT_EQ(round_to_grid(bf16, x, true, 0, ignored), to_float(to_bf16(x)));
    }
}

TEST(Grid, RowExponentsMoveWhereTheyMust) {
    for (const WeightGrid& grid :
         {WeightGrid{0, 7, 0, true}, WeightGrid{2, 5, 1, true}, WeightGrid{3, 2, 3, true}})
        for (const int e : {-20, 0, 7}) {
            const float top = grid_row(grid, e).max;
            EXPECT_EQ(row_exponent_for(grid, top), e);
            EXPECT_EQ(row_exponent_for(grid, std::nextafter(top, 1e30f)), e + 1);
            EXPECT_EQ(moved_row_exponent(grid, e, true, top, 1), e + 1);
            EXPECT_EQ(moved_row_exponent(grid, e, false, top, kLoweringSteps), e);
            EXPECT_EQ(moved_row_exponent(grid, e, false, top * 0.43f, kLoweringSteps), e - 1);
            EXPECT_EQ(moved_row_exponent(grid, e, false, top * 0.43f, kLoweringSteps + 1), e);
            EXPECT_EQ(moved_row_exponent(grid, e, false, top * 0.1f, kLoweringSteps), e - 3);
            for (const std::uint64_t step : {1, 2, 64}) {  // rows settle early
                EXPECT_EQ(moved_row_exponent(grid, e, false, top * 0.1f, step), e - 3);
                EXPECT_EQ(moved_row_exponent(grid, e, false, top * 0.1f, step + 2), step == 2 ? e - 3 : e);
            }
            EXPECT_EQ(first_row_exponent(grid, top), std::max(e, row_exponent_for(grid, kFirstReach)));
            // The finer grid has what keeps below half of the coarser one.
            for (const double v : numbers({grid, e}))
                if (v <= 0.4375 * double{top}) {
                    std::uint32_t saturated = 0;
                    EXPECT_EQ(
                        round_to_grid(grid_row(grid, e - 1), static_cast<float>(v), false, 65535, saturated),
                        v);
                    EXPECT_EQ(saturated, 0u);
                }
        }
    const WeightGrid grid{0, 7, 0, true};
    EXPECT_EQ(moved_row_exponent(grid, kRowExponentLimit, true, 1, 1), kRowExponentLimit);
    EXPECT_EQ(moved_row_exponent(grid, -kRowExponentLimit, false, 0, kLoweringSteps), -kRowExponentLimit);
    EXPECT_EQ(decode_row_exponent(encode_row_exponent(-60)), -60);
}

TEST(Grid, CodesOfAtMostEightBits) {
    for (const Case& c : {Case{kE2M5Grid, 0}, Case{kE2M5Grid, -9}, Case{{3, 4, 7}}, Case{{0, 7, 0, true}, 3},
                          Case{kE2M3Grid, -4}, Case{kE2M1Grid, 2}, Case{{0, 3, 0, true}, -1}}) {
        const std::vector<double> values = numbers(c);
        const GridRow row = grid_row(c.grid, c.row_exponent);
        ASSERT_EQ(values.size(), 1u << (c.grid.bits() - 1));
        for (std::uint32_t size = 0; size < values.size(); ++size)
            for (const std::uint32_t code : {size, size | 128u}) {
                const float x = decode_grid_code(row, code);
                EXPECT_EQ(std::abs(x), values[size]) << code;
                EXPECT_EQ(std::signbit(x), code > 127) << code;
                EXPECT_EQ(encode_grid_code(row, x), code);
            }
    }
}

TEST(Grid, Names) {
    EXPECT_EQ(parse_grid("exmy:4,3"), (WeightGrid{4, 3, 7}));
    EXPECT_EQ(parse_grid("exmy:0,7"), (WeightGrid{0, 7, 0}));
    EXPECT_EQ(parse_grid("exmy:3,4,-9"), (WeightGrid{3, 4, -9}));
    EXPECT_EQ(parse_grid("exmy:2,5,row"), (WeightGrid{2, 5, 1, true}));
    for (const char* name : {"exmy:8,22,127", "exmy:0,7,row", "exmy:3,4,7"})
        EXPECT_EQ(grid_name(parse_grid(name)), name);
    for (const char* name :
         {"exmy:", "exmy:3", "exmy:3,4,7,1", "exmy:9,3", "exmy:3,23", "exmy:0,0", "exmy:3,4,", "exmy:3,4,x",
          "exmy:3,4,128", "exmy:-1,4", "exmy:3 ,4", "exmy:6,3,row", "e3m4"})
        EXPECT_THROW(parse_grid(name), ConfigError) << name;
    EXPECT_TRUE(parse_grid("exmy:5,7").fits_bf16());
    EXPECT_TRUE(kBf16Grid.fits_bf16());
    EXPECT_FALSE(parse_grid("exmy:5,8").fits_bf16());
}

}  // namespace
}  // namespace elmo
