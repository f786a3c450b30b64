// What travels on the lifeline: one letter; behind "failed" and "end" a status, and a length with that many
// bytes of text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace elmo {

struct LifelineMessage {
    enum class Kind : char { kAlive = 'H', kDone = 'D', kFailed = 'F', kEnd = 'E' };

    Kind kind = Kind::kAlive;
    std::uint8_t status = 0;  // of kFailed and kEnd
    std::string text = {};    // of kFailed: what went wrong
};

inline constexpr std::uint32_t kLongestLifelineText = 1 << 16;

// `text` is cut at the longest that is taken.
std::string bytes_of(const LifelineMessage& message);

// Takes the first message off the front of what was received. Nothing while it is not whole. Error for bytes
// that no rank sends.
std::optional<LifelineMessage> take_message(std::string& received);

}  // namespace elmo
