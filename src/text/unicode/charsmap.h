// The character map of SentencePiece models ("Precompiled" in a tokenizer.json): rules that replace short
// strings, such as NFKC with the white space of machine translation. Applied as the Hugging Face library
// does: a grapheme cluster below six bytes is looked up whole, else each of its characters, and the shortest
// rule at its start replaces all of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace elmo {

class Charsmap {
  public:
    // DataError, naming `where`, if the base64 text is no such map.
    Charsmap(std::string base64, const std::string& where);
    const std::string& base64() const { return base64_; }

    // Appends the mapped text, and stops where `out` has more than `most` bytes; `text` is valid UTF-8.
    void apply(std::string_view text, std::size_t most, std::string& out) const;

  private:
    std::optional<std::string_view> rule(std::string_view chunk) const;
    void append_char(std::string_view character, std::string& out) const;

    std::string base64_;
    std::vector<std::uint32_t> units_;  // a double-array trie
    std::string replacements_;          // each ends with a zero byte
    std::array<bool, 128>
        unchanged_{};  // ASCII characters that no rule changes when they stand by themselves
};

}  // namespace elmo
