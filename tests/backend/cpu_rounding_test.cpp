// The vectorised noise, roundings and conversions of the CPU backend: bit for bit the scalar definitions.
#include "backend/cpu/loops/rounding.h"

#include <bit>
#include <limits>

#include "backend/cpu/loops/convert.h"
#include "backend/cpu/loops/noise.h"
#include "op_harness.h"

namespace elmo::testing_ops::cpu_rounding_test {
namespace {

TEST(CpuNoise, RowsEqualTheScalarDefinition) {
    const NoiseKey keys[] = {{0, 0, 0}, {0x123456789abcdef0ull, (1ull << 40) - 1, 0xffff}, {7, 3, 1}};
    for (const NoiseKey& key : keys)
        for (const std::int64_t row : {std::int64_t{0}, std::int64_t{8'600'000}, (std::int64_t{1} << 40) - 1})
            for (const std::int64_t count : {0, 1, 7, 8, 9, 127, 128, 129, 768, 1000}) {
                const auto capacity = static_cast<std::size_t>(cpu::noise_row_capacity(count));
                std::vector<std::uint16_t> out(capacity + 64, 0xabcd);
                cpu::noise_row(key, row, count, out.data());
                for (std::int64_t c = 0; c < count; ++c)
                    ASSERT_EQ(out[c], noise16(key, row, c)) << count << ", " << c;
                for (std::size_t i = capacity; i < out.size(); ++i) ASSERT_EQ(out[i], 0xabcd);
            }
}

// Values that lie where roundings go wrong: every representable number and its neighbours, ties, the limits,
// subnormals of FP32, and many random bit patterns.
std::vector<float> awkward_values(const MiniFloat& f) {
    std::vector<float> values = {0.0f,
                                 -0.0f,
                                 std::numeric_limits<float>::denorm_min(),
                                 std::numeric_limits<float>::min(),
                                 std::numeric_limits<float>::max(),
                                 std::numeric_limits<float>::infinity(),
                                 1e-4f,
                                 5e-4f};
    const float inf = std::numeric_limits<float>::infinity();
    for (std::uint32_t code = 0; code <= static_cast<std::uint32_t>(f.top_code); ++code) {
        const float x = f.decode(code);
        const float next = code < static_cast<std::uint32_t>(f.top_code) ? f.decode(code + 1) : x;
        const float middle = (x + next) / 2;
        for (const float y : {x, middle}) {
            values.push_back(y);
            values.push_back(std::nextafter(y, inf));
            values.push_back(std::nextafter(y, -inf));
        }
    }
    Rng rng(17);
    for (int i = 0; i < 200000; ++i) {
        const auto bits = static_cast<std::uint32_t>(rng());
        if ((bits & 0x7f800000u) == 0x7f800000u) continue;
        values.push_back(std::bit_cast<float>(bits));
        // Most bit patterns are far outside: the same mantissa within the format's range as well.
        values.push_back(std::bit_cast<float>((bits & 0x807fffffu) | ((110 + (bits >> 23) % 24) << 23)));
    }
    const std::size_t positives = values.size();
    for (std::size_t i = 0; i < positives; ++i) values.push_back(-values[i]);
    return values;
}

std::vector<std::uint16_t> noises_for(std::size_t count) {
    std::vector<std::uint16_t> noise(count);
    Rng rng(19);
    for (std::size_t i = 0; i < count; ++i)
        noise[i] = i % 5 == 0 ? 0 : i % 5 == 1 ? 65535 : static_cast<std::uint16_t>(rng());
    return noise;
}

TEST(CpuRounding, MiniFloatsEqualTheScalarDefinition) {
    for (const MiniFloat& f : {kE4M3, kE3M4}) {
        const std::vector<float> x = awkward_values(f);
        for (const int shift : {0, 1, 2, 3, 4}) {
            std::vector<std::uint16_t> noise = noises_for(x.size() + 5);
            noise.erase(noise.begin(), noise.begin() + shift);
            std::vector<std::uint8_t> codes(x.size());
            const auto n = static_cast<std::int64_t>(x.size());
            const std::int64_t saturated = cpu::round_row(f, x.data(), noise.data(), codes.data(), n);
            std::int64_t expected_saturated = 0;
            for (std::size_t i = 0; i < x.size(); ++i)
                ASSERT_EQ(codes[i], round_stochastic(f, x[i], noise[i], &expected_saturated))
                    << x[i] << " with noise " << noise[i];
            EXPECT_EQ(saturated, expected_saturated);
        }
    }
}

TEST(CpuRounding, Bf16EqualsTheScalarDefinition) {
    std::vector<float> x = awkward_values(kE4M3);
    x.push_back(std::bit_cast<float>(0x7f800001u));
    x.push_back(std::bit_cast<float>(0xffffffffu));
    for (std::uint32_t bits = 0x7f7e0000u; bits < 0x7f800000u; bits += 997)
        x.push_back(std::bit_cast<float>(bits));
    const std::vector<std::uint16_t> noise = noises_for(x.size());
    std::vector<Bf16> out(x.size()), nearest(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    cpu::round_row(x.data(), noise.data(), out.data(), n);
    cpu::float_to_bf16(x.data(), nearest.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(out[i], round_stochastic_bf16(x[i], noise[i])) << x[i] << " with noise " << noise[i];
        ASSERT_EQ(nearest[i], to_bf16(x[i])) << x[i];
    }
}

TEST(CpuRounding, RowsEndWhereTheyEnd) {
    for (const std::int64_t count : {0, 1, 15, 16, 17, 31, 63, 65}) {
        std::vector<float> x(static_cast<std::size_t>(count), 0.3f);
        std::vector<std::uint16_t> noise(static_cast<std::size_t>(count), 12345);
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(count) + 64, 0xa5);
        std::vector<Bf16> halves(static_cast<std::size_t>(count) + 64, Bf16{0xa5a5});
        cpu::round_row(kE3M4, x.data(), noise.data(), codes.data(), count);
        cpu::round_row(x.data(), noise.data(), halves.data(), count);
        for (std::size_t i = static_cast<std::size_t>(count); i < codes.size(); ++i) {
            ASSERT_EQ(codes[i], 0xa5);
            ASSERT_EQ(halves[i].bits, 0xa5a5);
        }
    }
}

TEST(CpuConvert, DecodesEveryCode) {
    std::vector<std::uint8_t> codes(256);
    for (int i = 0; i < 256; ++i) codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
    for (const MiniFloat& f : {kE4M3, kE3M4}) {
        std::vector<float> floats(256);
        std::vector<Bf16> halves(256);
        cpu::decode(f, codes.data(), floats.data(), 256);
        cpu::decode_bf16(f, codes.data(), halves.data(), 256);
        for (std::size_t i = 0; i < 256; ++i) {
            if ((i & 0x7f) > static_cast<std::size_t>(f.top_code)) continue;  // never stored
            const float expected = f.decode(static_cast<std::uint32_t>(i));
            EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[i]), std::bit_cast<std::uint32_t>(expected)) << i;
            EXPECT_EQ(to_float(halves[i]), expected) << i;
        }
    }
}

TEST(CpuConvert, ThroughE4M3IsNearestEven) {
    const std::vector<float> x = awkward_values(kE4M3);
    std::vector<float> out(x.size());
    cpu::through_e4m3(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(out[i], kE4M3.decode(round_nearest(kE4M3, x[i]))) << x[i];
}

}  // namespace
}  // namespace elmo::testing_ops::cpu_rounding_test
