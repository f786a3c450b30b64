#include "text/unicode/words.h"

namespace elmo {
namespace {

std::array<BertClass, 256> bert_classes() {
    std::array<BertClass, 256> table{};
    for (std::size_t c = 0; c < 256; ++c)
        table[c] = c < 128 ? bert_class(static_cast<char32_t>(c)) : BertClass::kNotAscii;
    return table;
}

std::array<CharClass, 128> byte_level_classes() {
    std::array<CharClass, 128> table{};
    for (std::size_t i = 0; i < 128; ++i) {
        const auto c = static_cast<char32_t>(i);
        table[i] = unicode::is_letter(c)   ? CharClass::kLetter
                   : unicode::is_number(c) ? CharClass::kNumber
                   : unicode::is_space(c)  ? CharClass::kSpace
                                           : CharClass::kOther;
    }
    return table;
}

const std::array<CharClass, 128> kByteLevelClass = byte_level_classes();

std::size_t contraction(std::string_view text) {
    if (text.size() < 2 || text[0] != '\'') return 0;
    const char c = text[1];
    if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
    const std::string_view two = text.substr(1, 2);
    return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

}  // namespace

const std::array<BertClass, 256> kBertClass = bert_classes();

BertClass bert_class(char32_t c) {
    if (unicode::is_space(c)) return BertClass::kSpace;
    return unicode::is_punctuation(c) ? BertClass::kPunctuation : BertClass::kWord;
}

CharClass byte_level_class(char32_t c) {
    if (c < 128) return kByteLevelClass[c];
    if (unicode::is_space(c)) return CharClass::kSpace;
    if (unicode::is_letter(c)) return CharClass::kLetter;
    return unicode::is_number(c) ? CharClass::kNumber : CharClass::kOther;
}

std::size_t byte_level_word(std::string_view text) {
    if (const std::size_t length = contraction(text)) return length;
    std::size_t i = text[0] == ' ' && text.size() > 1 ? 1 : 0;
    CharClass kind = byte_level_class(unicode::decode(text, i));
    if (kind != CharClass::kSpace) {
        for (std::size_t next = i; i < text.size(); i = next)
            if (byte_level_class(unicode::decode(text, next)) != kind) break;
        return i;
    }
    // White space: all of it at the end of the text, else all but the last character, which may open a word.
    std::size_t last = 0, end = 0;
    while (end < text.size()) {
        std::size_t next = end;
        if (byte_level_class(unicode::decode(text, next)) != CharClass::kSpace) break;
        last = end;
        end = next;
    }
    return end == text.size() || last == 0 ? end : last;
}

}  // namespace elmo
