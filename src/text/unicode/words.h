// Splits normalized text into the words that a model turns into tokens: at white space and punctuation for
// BERT, and by the GPT-2 pattern for byte-level BPE.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/unicode/unicode.h"

namespace elmo {

enum class CharClass : std::uint8_t { kLetter, kNumber, kSpace, kOther };
CharClass byte_level_class(char32_t c);

enum class BertClass : std::uint8_t { kWord, kSpace, kPunctuation, kNotAscii };
extern const std::array<BertClass, 256> kBertClass;  // by byte
BertClass bert_class(char32_t c);                    // never kNotAscii

// Calls word(part) for every word; a punctuation mark is a separate word, white space is none.
template <class OnWord>
void split_bert_words(std::string_view text, OnWord&& word) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t at = i;
        BertClass kind = kBertClass[static_cast<unsigned char>(text[i])];
        if (kind == BertClass::kWord) {
            ++i;
            continue;
        }
        if (kind == BertClass::kNotAscii)
            kind = bert_class(unicode::decode(text, i));
        else
            ++i;
        if (kind == BertClass::kWord) continue;
        if (begin < at) word(text.substr(begin, at - begin));
        if (kind == BertClass::kPunctuation) word(text.substr(at, i - at));
        begin = i;
    }
    if (begin < text.size()) word(text.substr(begin));
}

// Length of the first match of 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// in a text that is not empty. Every text is a sequence of matches.
std::size_t byte_level_word(std::string_view text);

template <class OnWord>
void split_byte_level_words(std::string_view text, OnWord&& word) {
    while (!text.empty()) {
        const std::size_t length = byte_level_word(text);
        word(text.substr(0, length));
        text.remove_prefix(length);
    }
}

}  // namespace elmo
