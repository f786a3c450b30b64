#include "text/unicode/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "elmo/error.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace {

constexpr char kDropped = '\xff';

// BERT's rules as one byte to byte table for ASCII.
std::array<char, 128> ascii_table(const NormalizerStep& step) {
    std::array<char, 128> table{};
    for (int c = 0; c < 128; ++c) {
        char mapped = static_cast<char>(c);
        if (step.clean_text) {
            if (unicode::is_control(static_cast<char32_t>(c))) mapped = kDropped;
            if (c == '\t' || c == '\n' || c == '\r') mapped = ' ';
        }
        if (step.lowercase && c >= 'A' && c <= 'Z') mapped = static_cast<char>(c + 32);
        table[static_cast<std::size_t>(c)] = mapped;
    }
    return table;
}

// Decomposition and stripping do not change ASCII, so ASCII goes through the table and only runs of other
// characters (with the control characters among them, which vanish first) through the slow rules.
void bert_run(std::string_view run, const NormalizerStep& step, bool strip, std::string& out) {
    thread_local std::u32string buffer, decomposed, result;
    buffer.clear();
    for (std::size_t i = 0; i < run.size();) {
        char32_t c = unicode::decode(run, i);
        if (step.clean_text) {
            if (c == 0xfffd || unicode::is_control(c)) continue;
            if (unicode::is_space(c)) c = ' ';
        }
        if (step.handle_chinese_chars && unicode::is_cjk(c))
            buffer.append({U' ', c, U' '});
        else
            buffer.push_back(c);
    }
    if (strip) {
        decomposed.clear();
        unicode::append_decomposed(buffer, false, decomposed);
        decomposed.erase(std::remove_if(decomposed.begin(), decomposed.end(), unicode::is_nonspacing_mark),
                         decomposed.end());
        buffer.swap(decomposed);
    }
    if (step.lowercase) {
        result.clear();
        for (const char32_t c : buffer) unicode::append_lower(c, result);
        buffer.swap(result);
    }
    unicode::append(buffer, out);
}

void bert(std::string_view text, const NormalizerStep& step, std::string& out) {
    const std::array<char, 128> table = ascii_table(step);
    const bool strip = step.strip_accents.value_or(step.lowercase);
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    std::size_t i = 0;
    while (i < text.size()) {
        // Only as far as the run goes: all the rest, for each of many short runs, would take hours.
        std::size_t ascii_end = i;
        while (ascii_end < text.size() && byte(ascii_end) < 0x80) ++ascii_end;
        const std::size_t old_size = out.size();
        out.resize(old_size + ascii_end - i);
        char* to = out.data() + old_size;
        while (i < ascii_end) {
            const char mapped = table[byte(i++)];
            *to = mapped;
            to += mapped != kDropped;
        }
        out.resize(static_cast<std::size_t>(to - out.data()));
        const std::size_t begin = i;
        while (i < text.size() && (byte(i) >= 0x80 || table[byte(i)] == kDropped)) ++i;
        if (begin < i) bert_run(text.substr(begin, i - begin), step, strip, out);
    }
}

void lowercase_ascii(std::string_view text, std::string& out) {
    out.assign(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
}

void require_within(const std::string& out, std::size_t most) {
    if (out.size() > most)
        throw DataError(
            fmt::format("tokenizer: expected a normalizer that makes at most {} bytes of one, found more; "
                        "use another tokenizer",
                        Normalizer::kMostGrowth));
}

void strip(std::string_view text, const NormalizerStep& step, std::string& out) {
    // Ends of the first and last characters that are not white space.
    std::size_t begin = text.size(), end = 0;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t at = i;
        if (unicode::is_space(unicode::decode(text, i))) continue;
        begin = std::min(begin, at);
        end = i;
    }
    if (!step.strip_left) begin = 0;
    if (!step.strip_right) end = text.size();
    if (begin < end) out.append(text.substr(begin, end - begin));
}

void replace(std::string_view text, const NormalizerStep& step, std::size_t most, std::string& out) {
    while (!text.empty()) {
        require_within(out, most);
        const std::string_view pattern = step.pattern.empty() ? "  " : std::string_view(step.pattern);
        const std::size_t at = std::min(text.find(pattern), text.size());
        out.append(text.substr(0, at));
        if (at == text.size()) return;
        out.append(step.content);
        text.remove_prefix(at + pattern.size());
        if (step.pattern.empty()) text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    }
}

void general(std::string_view text, NormalizerStep::Kind kind, std::string& out) {
    using Kind = NormalizerStep::Kind;
    std::u32string characters, result;
    for (std::size_t i = 0; i < text.size();) characters.push_back(unicode::decode(text, i));
    switch (kind) {
        case Kind::kLowercase:
            for (const char32_t c : characters) unicode::append_lower(c, result);
            break;
        case Kind::kStripAccents:
            std::copy_if(characters.begin(), characters.end(), std::back_inserter(result),
                         [](char32_t c) { return !unicode::is_mark(c); });
            break;
        default:
            unicode::append_decomposed(characters, kind == Kind::kNfkc || kind == Kind::kNfkd, result);
            if (kind == Kind::kNfc || kind == Kind::kNfkc) unicode::compose(result);
    }
    unicode::append(result, out);
}

}  // namespace

void Normalizer::apply(std::string_view text, std::string& out) const {
    thread_local std::string previous;
    // Replacements of replacements could make anything of one letter.
    const std::size_t most = kMostGrowth * text.size();
    out.clear();
    if (steps_.empty()) out.assign(text);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        if (i > 0) {
            previous.swap(out);
            text = previous;
            out.clear();
        }
        if (steps_[i].kind == NormalizerStep::Kind::kBert)
            bert(text, steps_[i], out);
        else if (steps_[i].kind == NormalizerStep::Kind::kCharsmap)
            steps_[i].charsmap->apply(text, most, out);  // what is too long is refused below
        else if (steps_[i].kind == NormalizerStep::Kind::kStrip)
            strip(text, steps_[i], out);
        else if (steps_[i].kind == NormalizerStep::Kind::kReplace)
            replace(text, steps_[i], most, out);
        else if (!unicode::is_ascii(text))
            general(text, steps_[i].kind, out);
        else if (steps_[i].kind == NormalizerStep::Kind::kLowercase)
            lowercase_ascii(text, out);
        else
            out.assign(text);
        require_within(out, most);
    }
}

}  // namespace elmo
