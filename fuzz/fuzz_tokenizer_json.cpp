// Any bytes as a tokenizer.json: read, use and save, or one elmo::Error.
#include <cstdint>
#include <string_view>
#include <vector>

#include "elmo/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view json(reinterpret_cast<const char*>(data), size);
    try {
        const auto tokenizer = elmo::parse_tokenizer_json(json, "fuzz");
        std::vector<std::int32_t> ids;
        for (const std::string_view text :
             {std::string_view("Ab é 中文 [SEP] <mask>  don't\n\xff\xe2\x82 aaaaaaaa 1!"),
              json.substr(0, 4096)}) {
            tokenizer->encode(text, 16, ids);
            for (const std::int32_t id : ids)
                if (id < 0 || id >= tokenizer->vocab_size()) __builtin_trap();
        }
        const auto saved = elmo::parse_tokenizer_json(tokenizer->to_json(), "saved");
        if (saved->fingerprint() != tokenizer->fingerprint()) __builtin_trap();
    } catch (const elmo::Error&) {
    }
    return 0;
}
