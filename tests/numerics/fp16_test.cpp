// IEEE half precision: every code, and every tie between neighbours.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/bf16.h"

namespace elmo {
namespace {

TEST(Fp16, EveryCodeComesBack) {
    for (std::uint32_t code = 0; code < 0x10000; ++code) {
        const Fp16 half{static_cast<std::uint16_t>(code)};
        const float value = to_float(half);
        if (std::isnan(value))
            EXPECT_TRUE(std::isnan(to_float(to_fp16(value))));
        else
            EXPECT_EQ(to_fp16(value), half) << code;
    }
    EXPECT_EQ(to_float(Fp16{0x3c00}), 1.0f);
    EXPECT_EQ(to_float(Fp16{0x0001}), 0x1p-24f);
    EXPECT_EQ(to_float(Fp16{0xfbff}), -65504.0f);
}

TEST(Fp16, RoundsToNearestAndTiesToEven) {
    const float up = std::numeric_limits<float>::infinity();
    for (std::uint16_t code = 0; code < 0x7bff; ++code) {
        const std::uint16_t next = code + 1;
        const float low = to_float(Fp16{code}), high = to_float(Fp16{next});
        const float middle = 0.5f * (low + high);  // exact
        EXPECT_EQ(to_fp16(middle).bits, code % 2 == 0 ? code : next) << code;
        EXPECT_EQ(to_fp16(std::nextafter(middle, 0.0f)).bits, code) << code;
        EXPECT_EQ(to_fp16(std::nextafter(middle, up)).bits, next) << code;
        EXPECT_EQ(to_fp16(-middle).bits, to_fp16(middle).bits | 0x8000) << code;
    }
    EXPECT_EQ(to_float(to_fp16(std::nextafter(65520.0f, 0.0f))), 65504.0f);
    EXPECT_EQ(to_float(to_fp16(65520.0f)), up);
    EXPECT_EQ(to_float(to_fp16(-1e30f)), -up);
}

}  // namespace
}  // namespace elmo
