// Any bytes as JSON lines: each line is repaired to UTF-8 and read as text, numbered labels and named labels.
// Reading ends in values that keep their promise or in an elmo::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_util.h"
#include "elmo/error.h"
#include "sources/tables/json_rows.h"

namespace {

template <class Body>
void attempt(const Body& body) {
    try {
        body();
    } catch (const elmo::Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::int64_t kLabels = 50;
    static const std::vector<std::string> kKeys = {"title", "content"};
    elmo::JsonRows rows;
    elmo::ImportCounts counts;
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    std::int64_t line = 0;
    std::string storage;
    while (!rest.empty()) {
        elmo::Record record{rest.substr(0, rest.find('\n')), ++line, "fuzz"};
        rest.remove_prefix(std::min(rest.size(), record.bytes.size() + 1));
        attempt([&] { valid_utf8(record, {}, storage, counts); });
        valid_utf8(record, {.latin1 = true}, storage, counts);
        if (elmo::find_invalid_utf8(storage) != std::string_view::npos) std::abort();
        record.bytes = valid_utf8(record, {.allow_invalid = true}, storage, counts);
        if (elmo::find_invalid_utf8(record.bytes) != std::string_view::npos) std::abort();
        attempt([&] {
            std::string text;
            rows.text(record, kKeys, text);
            if (elmo::find_invalid_utf8(text) != std::string_view::npos) std::abort();
        });
        for (const bool merge : {false, true})
            attempt([&] {
                std::vector<std::uint32_t> ids;
                rows.label_ids(record, "target_ind", kLabels, merge, ids, counts);
                for (std::size_t i = 0; i < ids.size(); ++i)
                    if (ids[i] >= kLabels || (i > 0 && ids[i] <= ids[i - 1])) std::abort();
            });
        attempt([&] {
            std::vector<std::string> names;
            rows.label_names(record, "target_ind", {}, names, counts);
        });
    }
    return 0;
}
