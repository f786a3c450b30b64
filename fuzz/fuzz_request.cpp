// Any bytes as the body of a request, of each kind, and as the query of an address: a request within its
// limits, whose texts are UTF-8, or an elmo::Error.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "elmo/messages.h"
#include "serve/requests.h"

namespace {

constexpr std::int64_t kTexts = 7;

void check(const elmo::TextsRequest& request) {
    if (request.texts.size() > static_cast<std::size_t>(kTexts)) std::abort();
    if (request.top && (*request.top < 1 || *request.top > elmo::kMostTop)) std::abort();
    if (request.threshold && *request.threshold != -1 &&
        !(*request.threshold >= 0 && *request.threshold <= 1))
        std::abort();
    for (const std::string& text : request.texts)
        if (elmo::find_invalid_utf8(text) != std::string::npos) std::abort();
}

template <typename Work>
void attempt(Work&& work) {
    try {
        work();
    } catch (const elmo::Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    for (const auto endpoint : {elmo::Endpoint::kPredict, elmo::Endpoint::kEmbed, elmo::Endpoint::kExplain})
        attempt([&] { check(elmo::read_request(bytes, endpoint, kTexts)); });
    attempt([&] { check(elmo::read_infer_request(bytes, "", kTexts)); });
    if (size > 0)
        attempt([&] { check(elmo::read_infer_request(bytes.substr(1), std::to_string(data[0]), kTexts)); });
    attempt([&] {
        const auto value = elmo::query_value(bytes, "query");
        if (value && elmo::find_invalid_utf8(*value) != std::string::npos) std::abort();
        elmo::query_number(bytes, "limit", 0, 10);
    });
    return 0;
}
