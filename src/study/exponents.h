// The distribution of the exponents of many numbers, and what a small float format would do to them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace elmo {

// A format as far as its range goes: the smallest normal number is 2^min_exponent, subnormals step by
// 2^(min_exponent - mantissa_bits).
struct FormatRange {
    const char* name;
    int min_exponent;
    int mantissa_bits;
    double largest;

    double smallest() const;  // positive number
    int smallest_exponent() const { return min_exponent - mantissa_bits; }
    int largest_exponent() const;
};
inline constexpr FormatRange kStudiedFormats[] = {
    {"E4M3", -6, 3, 448},
    {"E5M2", -14, 2, 57344},
    {"E3M4", -6, 4, 1.9375},
    {"BF16", -126, 7, 0x1.fep127},
};
inline constexpr std::size_t kNumFormats = std::size(kStudiedFormats);

// What rounding to nearest does to a number.
enum class Fate { kZero, kFlushed, kSubnormal, kNormal, kSaturated };
inline constexpr std::size_t kNumFates = 5;
// kZero: it is 0. kFlushed: it becomes 0 (at most half the smallest number: the tie goes to the even code).
// kSaturated: beyond the largest finite number.
Fate fate_in(const FormatRange& format, double value);

// Counts numbers by floor(log2 |v|), which is exact, and by their fate in each format. Zeros and non-finite
// numbers are counted separately.
class ExponentHistogram {
  public:
    void add(double value);

    std::int64_t total() const { return total_; }  // zeros included, NaN and Inf not
    std::int64_t zeros() const { return zeros_; }
    std::int64_t non_finite() const { return non_finite_; }
    const std::map<int, std::int64_t>& bins() const { return bins_; }
    // Shares of total; 0 if nothing was counted.
    double share(std::int64_t count) const;
    double share(std::size_t format, Fate fate) const;

  private:
    std::int64_t total_ = 0, zeros_ = 0, non_finite_ = 0;
    std::map<int, std::int64_t> bins_;
    std::array<std::array<std::int64_t, kNumFates>, kNumFormats> fates_{};
};

}  // namespace elmo
