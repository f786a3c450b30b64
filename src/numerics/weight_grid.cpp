#include "numerics/weight_grid.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::string_view kPrefix = "exmy:";

[[noreturn]] void refuse(std::string_view precision, std::string_view why) {
    throw ConfigError(fmt::format(
        "precision '{}': {}; expected exmy:E,M, exmy:E,M,BIAS or exmy:E,M,row, for example exmy:3,4,7",
        quoted(precision), why));
}

}  // namespace

bool is_grid_name(std::string_view precision) {
    return precision.substr(0, kPrefix.size()) == kPrefix;
}

WeightGrid parse_grid(std::string_view precision) {
    if (!is_grid_name(precision)) refuse(precision, "not such a format");
    std::vector<std::string_view> parts;
    for (std::string_view rest = precision.substr(kPrefix.size());;) {
        const std::size_t comma = rest.find(',');
        parts.push_back(rest.substr(0, comma));
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
    }
    if (parts.size() < 2 || parts.size() > 3) refuse(precision, fmt::format("{} numbers", parts.size()));
    const auto number = [&](std::string_view part, int low, int high, std::string_view what) {
        int value = 0;
        const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
        if (status != std::errc() || end != part.data() + part.size() || value < low || value > high)
            refuse(precision, fmt::format("{}: expected an integer from {} to {}, found '{}'", what, low,
                                          high, quoted(part)));
        return value;
    };
    WeightGrid grid;
    grid.row_scaled = parts.size() == 3 && parts[2] == "row";
    grid.exponent_bits = number(parts[0], 0, grid.row_scaled ? 5 : 8, "exponent bits");
    grid.mantissa_bits =
        number(parts[1], grid.exponent_bits == 0 ? 1 : 0, grid.row_scaled ? 7 : 22, "mantissa bits");
    grid.bias = grid.exponent_bits == 0 ? 0 : (1 << (grid.exponent_bits - 1)) - 1;
    // From the first normal number to the last, what FP32 has.
    if (parts.size() == 3 && !grid.row_scaled) grid.bias = number(parts[2], -100, 127, "bias");
    return grid;
}

std::string grid_name(const WeightGrid& grid) {
    if (grid.row_scaled) return fmt::format("exmy:{},{},row", grid.exponent_bits, grid.mantissa_bits);
    return fmt::format("exmy:{},{},{}", grid.exponent_bits, grid.mantissa_bits, grid.bias);
}

}  // namespace elmo
