// The Unigram model of SentencePiece, which XLM-RoBERTa uses: every token has a score (a log probability),
// and a piece of text becomes the tokens with the largest sum of scores.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/spec.h"

namespace elmo {

inline constexpr std::string_view kUnigramSpace = "\xe2\x96\x81";  // U+2581 stands for a space

class Unigram {
  public:
    // Keeps nothing of `spec`. `unk_id` is the id of its unknown token.
    Unigram(const TokenizerSpec& spec, std::int32_t unk_id);

    // Appends the ids of normalized text.
    void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

  private:
    void encode_words(std::string_view text, std::vector<std::int32_t>& ids) const;
    void encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;
    // Appends the ids of a part that the best path could only call unknown.
    void append_unknown(std::string_view part, std::vector<std::int32_t>& ids) const;

    ByteTrie tokens_;
    std::vector<double> scores_;              // by id
    std::array<std::int32_t, 256> byte_ids_;  // of the tokens <0x00> to <0xFF>; -1 where there is none
    double unk_score_;
    std::int32_t unk_id_;
    bool byte_fallback_, whitespace_split_, add_prefix_space_, split_pieces_;
};

}  // namespace elmo
