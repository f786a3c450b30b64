// Any bytes as what another rank sends: messages within their limits, the same in whatever pieces the bytes
// come, or an elmo::Error.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "elmo/error.h"
#include "ranks/lifeline_messages.h"

namespace {

// The messages again as bytes, then what was left, or "error".
std::vector<std::string> read_in_pieces(std::string_view bytes, std::size_t piece) {
    std::vector<std::string> messages;
    std::string received;
    try {
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            received += bytes.substr(at, piece);
            while (const auto message = elmo::take_message(received)) {
                if (message->text.size() > elmo::kLongestLifelineText) std::abort();
                messages.push_back(elmo::bytes_of(*message));
            }
        }
        messages.push_back(received);
    } catch (const elmo::Error&) {
        messages.push_back("error");
    }
    return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto whole = read_in_pieces(bytes, std::max<std::size_t>(size, 1));
    if (read_in_pieces(bytes, 7) != whole) std::abort();
    std::string joined;
    for (const std::string& message : whole) joined += message;
    if (!whole.empty() && whole.back() != "error" && joined != bytes) std::abort();
    return 0;
}
