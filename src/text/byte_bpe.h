// The byte-level BPE model of GPT-2 and RoBERTa: a word starts as its bytes, and the best pair of neighbours
// is merged until no merge is left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/spec.h"

namespace elmo {

// The printable character that stands for a byte in byte-level vocabularies: itself where printable, else one
// from U+0100 on.
char32_t byte_to_char(unsigned char byte);
// The bytes of a text, each as its character, in UTF-8.
std::string byte_level_string(std::string_view bytes);

class ByteBpe {
  public:
    // DataError, naming `where`, if a part or the result of a merge is not a token. `unk_id` -1: bytes
    // without a token are dropped.
    ByteBpe(const TokenizerSpec& spec, std::int32_t unk_id, const std::string& where);

    // Appends the ids of a piece of text.
    void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

  private:
    struct Merge {
        std::uint64_t pair = ~std::uint64_t{0};  // left id, right id
        std::int32_t rank = 0;
        std::int32_t id = 0;
    };
    const Merge* find(std::int32_t left, std::int32_t right) const;
    void insert(const Merge& merge);
    void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;
    void merge_short(std::vector<std::int32_t>& symbols) const;
    void merge_long(std::vector<std::int32_t>& ids) const;

    std::vector<Merge> merges_;  // open addressing, a power of two and at most half full
    std::array<std::int32_t, 256> byte_ids_{};
    std::unordered_map<std::string, std::int32_t>
        whole_words_;  // byte-level strings; only with ignore_merges
    bool add_prefix_space_, ignore_merges_, fuse_unk_;
    std::int32_t unk_id_;
};

}  // namespace elmo
