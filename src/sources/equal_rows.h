// Rows whose texts are equal: they train together or are held out together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace elmo {

// For each row the first one with the same tokens. A text without a token has no equal.
std::vector<std::int64_t> first_of_equal(
    std::int64_t rows, const std::function<std::span<const std::int32_t>(std::int64_t)>& tokens);

}  // namespace elmo
