// What tests of tokenizers share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace elmo {

using Ids = std::vector<std::int32_t>;

inline const std::string kGolden = std::string(ELMO_SOURCE_DIR) + "/tests/text/golden/";

inline std::unique_ptr<Tokenizer> learn(const std::vector<std::string>& texts, const LearnOptions& options) {
    std::size_t next = 0;
    return learn_tokenizer(
        [&](std::string_view& text) {
            if (next == texts.size()) return false;
            text = texts[next++];
            return true;
        },
        options);
}

inline Ids encode(const Tokenizer& tokenizer, std::string_view text, std::int64_t max_length = 0) {
    Ids ids;
    tokenizer.encode(text, max_length, ids);
    return ids;
}

inline std::unique_ptr<Tokenizer> parse(const nlohmann::json& json) {
    return parse_tokenizer_json(json.dump(), "t.json");
}

}  // namespace elmo
