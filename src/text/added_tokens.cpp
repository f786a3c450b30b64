#include "text/added_tokens.h"

#include "text/unicode/unicode.h"

namespace elmo {
namespace {

// Start of the character that ends before `end`.
std::size_t previous(std::string_view text, std::size_t end) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
    return end;
}

std::vector<std::pair<std::string_view, std::int32_t>> numbered(const std::vector<std::string>& patterns) {
    std::vector<std::pair<std::string_view, std::int32_t>> strings;
    for (const auto& pattern : patterns)
        strings.emplace_back(pattern, static_cast<std::int32_t>(strings.size()));
    return strings;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns)
    : tokens_(std::move(tokens)), patterns_(numbered(patterns)) {}

bool AddedTokens::find(std::string_view text, std::size_t from, Match& match) const {
    if (tokens_.empty()) return false;
    for (std::size_t i = from; i < text.size(); ++i) {
        std::int32_t index = 0;
        const std::size_t length = patterns_.longest_prefix(text.substr(i), index);
        if (length == 0) continue;
        match = {i, i + length, &tokens_[static_cast<std::size_t>(index)]};
        return true;
    }
    return false;
}

bool AddedTokens::stands_alone(std::string_view text, const Match& match) {
    if (match.begin > 0) {
        std::size_t before = previous(text, match.begin);
        if (unicode::is_word(unicode::decode(text, before))) return false;
    }
    std::size_t after = match.end;
    return after == text.size() || !unicode::is_word(unicode::decode(text, after));
}

std::size_t AddedTokens::space_before(std::string_view text, std::size_t end) {
    while (end > 0) {
        const std::size_t begin = previous(text, end);
        std::size_t position = begin;
        if (!unicode::is_space(unicode::decode(text, position))) break;
        end = begin;
    }
    return end;
}

std::size_t AddedTokens::space_after(std::string_view text, std::size_t begin) {
    while (begin < text.size()) {
        std::size_t position = begin;
        if (!unicode::is_space(unicode::decode(text, position))) break;
        begin = position;
    }
    return begin;
}

}  // namespace elmo
