#include "ranks/lifeline_messages.h"

#include <algorithm>
#include <cstring>

#include "elmo/error.h"

namespace elmo {
namespace {

using Kind = LifelineMessage::Kind;
constexpr std::size_t kHead = 1 + 1 + sizeof(std::uint32_t);  // letter, status, length

}  // namespace

std::string bytes_of(const LifelineMessage& message) {
    std::string bytes(1, static_cast<char>(message.kind));
    if (message.kind == Kind::kAlive || message.kind == Kind::kDone) return bytes;
    const auto length =
        static_cast<std::uint32_t>(std::min<std::size_t>(message.text.size(), kLongestLifelineText));
    bytes.resize(kHead);
    bytes[1] = static_cast<char>(message.status);
    std::memcpy(bytes.data() + 2, &length, sizeof length);
    return bytes.append(message.text, 0, length);
}

std::optional<LifelineMessage> take_message(std::string& received) {
    if (received.empty()) return std::nullopt;
    LifelineMessage message;
    message.kind = static_cast<Kind>(received.front());
    if (message.kind == Kind::kAlive || message.kind == Kind::kDone) {
        received.erase(0, 1);
        return message;
    }
    if (message.kind != Kind::kFailed && message.kind != Kind::kEnd) throw Error("sent what no rank sends");
    if (received.size() < kHead) return std::nullopt;
    std::uint32_t length = 0;
    message.status = static_cast<std::uint8_t>(received[1]);
    std::memcpy(&length, received.data() + 2, sizeof length);
    if (length > kLongestLifelineText) throw Error("sent what no rank sends");
    if (received.size() < kHead + length) return std::nullopt;
    message.text = received.substr(kHead, length);
    received.erase(0, kHead + length);
    return message;
}

}  // namespace elmo
