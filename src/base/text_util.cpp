#include "base/text_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "elmo/error.h"

namespace elmo {

std::string read_file(const std::filesystem::path& path) {
    // A pipe may never answer, and a device may never end.
    std::error_code error;
    if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
        throw DataError(
            fmt::format("{}: expected a file, found {}", path.string(),
                        std::filesystem::is_directory(path, error) ? "a folder" : "a pipe or a device"));
    std::ifstream in(path, std::ios::binary);
    if (!in) throw DataError(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
    std::string content, piece(std::size_t{1} << 16, '\0');
    while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())), in.gcount() > 0)
        content.append(piece, 0, static_cast<std::size_t>(in.gcount()));
    if (in.bad()) throw DataError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno)));
    return content;
}

namespace {

// Letters added, left out, exchanged for another, or with the next one.
std::size_t edits(std::string_view from, std::string_view to) {
    std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= from.size(); ++i) {
        before.swap(last);
        last.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j < row.size(); ++j) {
            const bool same = from[i - 1] == to[j - 1];
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::string best;
    std::size_t least = std::max<std::size_t>(2, word.size() / 2);
    for (const auto& candidate : candidates) {
        // So many letters are added or left out at least: the product of the lengths is not worth its time.
        if (std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size()) >= least)
            continue;
        if (const std::size_t distance = edits(word, candidate); distance < least) {
            least = distance;
            best = candidate;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
    const std::string suggestion = nearest(word, candidates);
    return suggestion.empty() ? "" : fmt::format(" (did you mean '{}'?)", suggestion);
}

std::string human_bytes(std::int64_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (bytes >= (std::int64_t{1} << 30)) return fmt::format("{:.2f} GiB", value / (1 << 30));
    if (bytes >= (1 << 20)) return fmt::format("{:.1f} MiB", value / (1 << 20));
    if (bytes >= (1 << 10)) return fmt::format("{:.1f} KiB", value / (1 << 10));
    return fmt::format("{} B", bytes);
}

std::string counted(std::int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

std::string with_commas(std::int64_t value) {
    std::string digits = std::to_string(value);
    const std::size_t first = value < 0 ? 1 : 0;
    for (std::size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, 1, ',');
    return digits;
}

std::int64_t parse_bytes(std::string_view text) {
    double number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit(rest, text.data() + text.size() - rest);
    std::int64_t factor = 0;
    if (unit.empty() || unit == "B") factor = 1;
    if (unit == "K" || unit == "KiB") factor = std::int64_t{1} << 10;
    if (unit == "M" || unit == "MiB") factor = std::int64_t{1} << 20;
    if (unit == "G" || unit == "GiB") factor = std::int64_t{1} << 30;
    if (unit == "T" || unit == "TiB") factor = std::int64_t{1} << 40;
    if (unit == "KB") factor = 1'000;
    if (unit == "MB") factor = 1'000'000;
    if (unit == "GB") factor = 1'000'000'000;
    if (unit == "TB") factor = 1'000'000'000'000;
    const double bytes = number * static_cast<double>(factor);
    if (status != std::errc() || factor == 0 || !(bytes >= 0) || bytes > 9e18)
        throw ConfigError(fmt::format("expected a size such as 512MiB or 2GiB, found '{}'", quoted(text)));
    return static_cast<std::int64_t>(bytes);
}

double parse_share(std::string_view text) {
    double number = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit(rest, text.data() + text.size() - rest);
    const double share = unit == "%" ? number / 100 : number;
    if (status != std::errc() || !(unit.empty() || unit == "%") || !(share >= 0 && share <= 1))
        throw ConfigError(
            fmt::format("expected a share such as 20% or 0.2, at most 1, found '{}'", quoted(text)));
    return share;
}

std::size_t find_invalid_utf8(std::string_view text) {
    const auto* s = reinterpret_cast<const unsigned char*>(text.data());
    const std::size_t n = text.size();
    std::size_t i = 0;
    while (i < n) {
        const unsigned char c = s[i];
        if (c < 0x80) {
            ++i;
            continue;
        }
        const int length = c >= 0xc2 && c <= 0xdf   ? 2
                           : c >= 0xe0 && c <= 0xef ? 3
                           : c >= 0xf0 && c <= 0xf4 ? 4
                                                    : 0;
        if (length == 0 || i + length > n) return i;
        for (int k = 1; k < length; ++k)
            if ((s[i + k] & 0xc0) != 0x80) return i;
        if ((c == 0xe0 && s[i + 1] < 0xa0) || (c == 0xed && s[i + 1] > 0x9f) ||
            (c == 0xf0 && s[i + 1] < 0x90) || (c == 0xf4 && s[i + 1] > 0x8f))
            return i;
        i += length;
    }
    return std::string_view::npos;
}

std::string shell_word(std::string_view name) {
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c < 0 ||
               std::string_view("./_-+=,:@%").find(c) != std::string_view::npos;
    });
    if (plain) return std::string(name);
    // Messages put commands in single quotes.
    if (name.find_first_of("\"$`\\!\n") == name.npos) return fmt::format("\"{}\"", name);
    std::string word = "'";
    for (const char c : name) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

std::string quoted(std::string_view text, std::size_t limit) {
    std::string out;
    std::size_t i = 0;
    while (i < text.size() && out.size() < limit) {
        const auto c = static_cast<unsigned char>(text[i]);
        std::size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        length = std::min(length, text.size() - i);
        const std::string_view piece = text.substr(i, length);
        if (c < 0x20 || c == 0x7f) {
            out += fmt::format("\\x{:02x}", c);
            ++i;
        } else if (find_invalid_utf8(piece) != std::string_view::npos) {
            out += fmt::format("\\x{:02x}", c);
            ++i;
        } else {
            out += piece;
            i += length;
        }
    }
    if (i < text.size()) out += "...";
    return out;
}

namespace {

// U+202A to U+202E and U+2066 to U+2069, in UTF-8: what follows is shown in another order than it has.
bool turns_text_around(std::string_view character) {
    return (character >= "\xe2\x80\xaa" && character <= "\xe2\x80\xae") ||
           (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");
}

}  // namespace

std::string for_terminal(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        const auto c = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
        const std::size_t length = std::min<std::size_t>(c < 0x80    ? 1
                                                         : c >= 0xf0 ? 4
                                                         : c >= 0xe0 ? 3
                                                                     : 2,
                                                         text.size() - i);
        const std::string_view piece = text.substr(i, length);
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F: control characters too
            out += fmt::format("\\x{:02x}", next);
            i += 2;
        } else if (turns_text_around(piece)) {
            out += fmt::format("\\u20{:02x}", static_cast<unsigned char>(piece[1]) == 0x80
                                                  ? static_cast<unsigned char>(piece[2]) - 0x80
                                                  : static_cast<unsigned char>(piece[2]) - 0x40);
            i += 3;
        } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
                   find_invalid_utf8(piece) != std::string_view::npos) {
            out += fmt::format("\\x{:02x}", c);
            ++i;
        } else {
            out += piece;
            i += length;
        }
    }
    return out;
}

}  // namespace elmo
