// The WordPiece model: a word becomes the longest token it starts with, then the longest continuation, and so
// on; one unknown token when that fails anywhere.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/spec.h"

namespace elmo {

class WordPiece {
  public:
    // Keeps nothing of `spec`. `unk_id` is the id of its unknown token.
    WordPiece(const TokenizerSpec& spec, std::int32_t unk_id);

    // Appends the ids of normalized text.
    void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

  private:
    void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;

    ByteTrie starts_, continuations_;
    std::size_t max_word_chars_;
    std::int32_t unk_id_;
};

}  // namespace elmo
