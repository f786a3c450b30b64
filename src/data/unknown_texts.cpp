#include "data/unknown_texts.h"

#include <fmt/format.h>

#include "elmo/messages.h"

namespace elmo {
namespace {

constexpr const char* kOfUnknownTokens =
    "mostly of tokens that the tokenizer does not know: different ones look alike";

}  // namespace

bool is_mostly_unknown(std::span<const std::int32_t> ids, const Tokenizer& tokenizer) {
    const std::int32_t unk = tokenizer.unk_id(), cls = tokenizer.cls_id(), sep = tokenizer.sep_id();
    std::int64_t unknown = 0, words = 0;
    for (const std::int32_t id : ids) {
        unknown += id == unk;
        words += id != cls && id != sep;
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

bool are_many_unknown(std::int64_t unknown, std::int64_t texts) {
    return 10 * unknown > texts;
}

std::string unknown_line(std::int64_t unknown, std::int64_t texts) {
    if (!are_many_unknown(unknown, texts)) return {};
    return fmt::format("{} of {} {} {}", with_commas(unknown), counted(texts, "text"),
                       unknown == 1 ? "consists" : "consist", kOfUnknownTokens);
}

std::string unknown_line() {
    return fmt::format("some texts consist {}", kOfUnknownTokens);
}

}  // namespace elmo
