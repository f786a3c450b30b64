#include "study/exponents.h"

#include <cmath>

namespace elmo {

double FormatRange::smallest() const {
    return std::ldexp(1.0, smallest_exponent());
}

int FormatRange::largest_exponent() const {
    return std::ilogb(largest);
}

Fate fate_in(const FormatRange& format, double value) {
    const double size = std::abs(value);
    if (size == 0) return Fate::kZero;
    if (size <= format.smallest() / 2) return Fate::kFlushed;
    if (size > format.largest) return Fate::kSaturated;
    return std::ilogb(size) < format.min_exponent ? Fate::kSubnormal : Fate::kNormal;
}

void ExponentHistogram::add(double value) {
    if (!std::isfinite(value)) {
        ++non_finite_;
        return;
    }
    ++total_;
    if (value == 0)
        ++zeros_;
    else
        ++bins_[std::ilogb(value)];
    for (std::size_t f = 0; f < kNumFormats; ++f)
        ++fates_[f][static_cast<std::size_t>(fate_in(kStudiedFormats[f], value))];
}

double ExponentHistogram::share(std::int64_t count) const {
    return total_ == 0 ? 0 : static_cast<double>(count) / static_cast<double>(total_);
}

double ExponentHistogram::share(std::size_t format, Fate fate) const {
    return share(fates_.at(format)[static_cast<std::size_t>(fate)]);
}

}  // namespace elmo
