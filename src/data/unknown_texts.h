// Texts of which a tokenizer knows little, as those in another script than its own: different ones have the
// same tokens, so neither their answers nor their being equal means anything.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sources/rows.h"
#include "text/tokenizer.h"

namespace elmo {

// At least half of the tokens of a text are unknown; special ones do not count.
bool is_mostly_unknown(std::span<const std::int32_t> ids, const Tokenizer& tokenizer);

// Those of the rows that are not.
std::vector<std::int64_t> known_rows(const TokenRows& texts, std::span<const std::int64_t> rows,
                                     const Tokenizer& tokenizer);

// So many unknown ones are more than a tenth of all.
bool are_many_unknown(std::int64_t unknown, std::int64_t texts);
// The line about them; "" where they are not.
std::string unknown_line(std::int64_t unknown, std::int64_t texts);
// The same where the number of all texts is not known yet.
std::string unknown_line();

}  // namespace elmo
