// One look at every text of a split: encoding trouble, empty and repeated texts, lengths in tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/context.h"
#include "sources/layout.h"
#include "text/tokenizer.h"

namespace elmo {

struct TextScan {
    std::vector<std::uint64_t> hashes;  // of each text, in order; eight bytes per row
    std::vector<std::int32_t> tokens;   // of each text, uncut
    std::int64_t empty = 0;
    std::int64_t not_utf8 = 0, like_latin1 = 0;
    std::string first_not_utf8;  // "file:line"
};

// Invalid UTF-8 is counted, never an error.
TextScan scan_texts(const Context& context, const ReadOptions& reading, const Layout& layout, SplitName split,
                    const Tokenizer& tokenizer);

}  // namespace elmo
