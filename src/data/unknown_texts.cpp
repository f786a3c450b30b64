#include "data/unknown_texts.h"

#include <fmt/format.h>

#include "elmo/messages.h"

namespace elmo {

bool is_mostly_unknown(std::span<const std::int32_t> ids, const Tokenizer& tokenizer) {
    std::int64_t unknown = 0, words = 0;
    for (const std::int32_t id : ids) {
        unknown += id == tokenizer.unk_id();
        words += id != tokenizer.cls_id() && id != tokenizer.sep_id();
    }
    return unknown > 0 && 2 * unknown >= words;
}

std::vector<std::int64_t> known_rows(const TokenRows& texts, std::span<const std::int64_t> rows,
                                     const Tokenizer& tokenizer) {
    std::vector<std::int64_t> known;
    for (const std::int64_t row : rows)
        if (!is_mostly_unknown(texts.row(row), tokenizer)) known.push_back(row);
    return known;
}

std::string unknown_line(std::int64_t unknown, std::int64_t texts) {
    if (10 * unknown <= texts) return {};
    return fmt::format("{} of {} {} tokens that the tokenizer does not know: different ones look alike",
                       with_commas(unknown), counted(texts, "text"),
                       unknown == 1 ? "consists mostly of" : "consist mostly of");
}

}  // namespace elmo
