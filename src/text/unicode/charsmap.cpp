#include "text/unicode/charsmap.h"

#include <fmt/format.h>

#include "elmo/error.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace {

constexpr std::size_t kLongestCluster = 5;  // in bytes, of those that are looked up whole

int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string decode_base64(std::string_view text, const std::string& where) {
    std::string bytes;
    std::size_t end = text.size();
    while (end > 0 && text.size() - end < 2 && text[end - 1] == '=') --end;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < end; ++i) {
        const int digit = base64_digit(text[i]);
        if (digit < 0 || text.size() % 4 != 0)
            throw DataError(fmt::format("{}: expected base64, found {}", where,
                                        digit < 0 ? "another character" : "an incomplete end"));
        bits = bits << 6 | static_cast<std::uint32_t>(digit);
        if (i % 4 > 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xff));
    }
    return bytes;
}

std::uint32_t little_endian(std::string_view bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
}

// Fields of a unit of the trie.
bool has_leaf(std::uint32_t unit) {
    return (unit >> 8 & 1) != 0;
}
std::uint32_t label(std::uint32_t unit) {
    return unit & (1u << 31 | 0xff);
}
std::uint32_t offset(std::uint32_t unit) {
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}
std::uint32_t value(std::uint32_t unit) {
    return unit & ~(1u << 31);
}

}  // namespace

Charsmap::Charsmap(std::string base64, const std::string& where) : base64_(std::move(base64)) {
    const std::string bytes = decode_base64(base64_, where);
    const std::string_view view = bytes;
    const std::size_t trie_bytes = view.size() < 4 ? 0 : little_endian(view);
    if (view.size() < 4 || trie_bytes > view.size() - 4 || trie_bytes % 4 != 0)
        throw DataError(fmt::format(
            "{}: expected the length of a trie, the trie and replacements, found {} bytes and a length of {}",
            where, view.size(), trie_bytes));
    for (std::size_t i = 0; i < trie_bytes; i += 4) units_.push_back(little_endian(view.substr(4 + i)));
    replacements_ = view.substr(4 + trie_bytes);
    std::string buffer;
    if (unicode::as_valid_utf8(replacements_, buffer).data() != replacements_.data())
        throw DataError(fmt::format("{}: expected replacements in UTF-8, found invalid bytes", where));
    for (std::size_t c = 0; c < unchanged_.size(); ++c) {
        const char one = static_cast<char>(c);
        unchanged_[c] = !rule({&one, 1});
    }
}

std::optional<std::string_view> Charsmap::rule(std::string_view chunk) const {
    if (units_.empty()) return {};
    std::size_t at = offset(units_[0]);
    for (const char c : chunk) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte == 0) return {};
        at ^= byte;
        if (at >= units_.size() || label(units_[at]) != byte) return {};
        const std::uint32_t unit = units_[at];
        at ^= offset(unit);
        if (!has_leaf(unit)) continue;
        const std::size_t begin = at < units_.size() ? value(units_[at]) : replacements_.size();
        if (begin >= replacements_.size()) return {};
        const std::size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
        return std::string_view(replacements_).substr(begin, end - begin);
    }
    return {};
}

void Charsmap::append_char(std::string_view character, std::string& out) const {
    out.append(rule(character).value_or(character));
}

void Charsmap::apply(std::string_view text, std::size_t most, std::string& out) const {
    const auto ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
    for (std::size_t i = 0; i < text.size() && out.size() <= most;) {
        // Two ASCII characters are two clusters, except for a line's end.
        if (ascii(i) && (i + 1 == text.size() || (ascii(i + 1) && text[i] != '\r'))) {
            if (unchanged_[static_cast<unsigned char>(text[i])])
                out.push_back(text[i]);
            else
                append_char(text.substr(i, 1), out);
            ++i;
            continue;
        }
        const std::size_t end = unicode::grapheme_end(text, i);
        const std::string_view cluster = text.substr(i, end - i);
        if (const auto whole = cluster.size() <= kLongestCluster ? rule(cluster) : std::nullopt) {
            out.append(*whole);
            i = end;
            continue;
        }
        while (i < end && out.size() <= most) {
            const std::size_t begin = i;
            unicode::decode(text, i);
            append_char(text.substr(begin, i - begin), out);
        }
    }
}

}  // namespace elmo
