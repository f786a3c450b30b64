// The elementary functions of the CPU backend.
#include "backend/cpu/loops/math.h"

#include "op_harness.h"

namespace elmo::testing_ops::cpu_math_test {
namespace {

// The bounds that math.h states, which tolerances here are made of.
TEST(CpuMath, StatedBoundsHold) {
    double worst_exp = 0, worst_erf = 0, worst_log = 0;
    for (double x = -87; x < 88; x += 0.00137) {
        const auto f = static_cast<float>(x);
        const double exact = std::exp(static_cast<double>(f));
        worst_exp = std::max(worst_exp, std::abs(cpu::exp_fast(f) - exact) / exact);
    }
    for (double x = -6; x < 6; x += 0.00017) {
        const auto f = static_cast<float>(x);
        worst_erf = std::max(worst_erf, std::abs(cpu::erf_fast(f) - std::erf(static_cast<double>(f))));
    }
    for (double e = 1e-30; e <= 1; e *= 1.01) {
        const auto f = static_cast<float>(e);
        const double exact = std::log1p(static_cast<double>(f));
        worst_log = std::max(worst_log, std::abs(cpu::log1p_unit(f) - exact) / exact);
    }
    EXPECT_LE(worst_exp, kExpError);
    EXPECT_LE(worst_erf, kErfError);
    EXPECT_LE(worst_log, kLog1pError);
    EXPECT_EQ(cpu::exp_fast(-1000.0f), 0.0f);
    EXPECT_EQ(cpu::exp_fast(0.0f), 1.0f);
    EXPECT_EQ(cpu::sigmoid(1000.0f), 1.0f);
    EXPECT_NEAR(cpu::sigmoid(-1000.0f), 0.0f, 1e-38);
    EXPECT_TRUE(std::isnan(cpu::sigmoid(std::nanf("")))) << "a NaN must not be hidden";
    EXPECT_TRUE(std::isnan(cpu::exp_fast(std::nanf("")))) << "a NaN must not be hidden";
    EXPECT_TRUE(std::isnan(cpu::gelu(std::nanf("")))) << "a NaN must not be hidden";
}

}  // namespace
}  // namespace elmo::testing_ops::cpu_math_test
