// From token ids to features. The tokens of a text are put together to words again, so features do not depend
// on how a vocabulary cuts words. A feature is a 64-bit hash: of a word or punctuation mark, of two words in
// a row (what stands between does not count), of a few letters in a row within a word. Bag-of-words data has
// its own features: each token is one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace elmo {

struct FeatureOptions {
    bool tokens_only = false;      // bag-of-words data: a token is a feature, its count the value
    std::int64_t letters = 0;      // letters of a character n-gram; 0: none
    bool shorter_letters = false;  // all shorter n-grams too, down to single letters
    // Words end at blanks and punctuation marks of the text, wherever the vocabulary cuts it: the tokens of
    // WordPiece end there anyway. Runs of earlier versions go by the blanks that byte-level BPE and Unigram
    // mark.
    bool splits_text = false;
};

// Whether `splits_text` is for its vocabulary.
bool cuts_words_otherwise(const Tokenizer& tokenizer);

// Hashes of letters are odd, all others even: letters weigh less (vocabulary.cpp).
inline bool is_letters(std::uint64_t feature) {
    return (feature & 1) != 0;
}

class Analyser {
  public:
    Analyser(const Tokenizer& tokenizer, FeatureOptions options);

    const FeatureOptions& options() const { return options_; }
    // The features of a text, each as often as it occurs; `features` is replaced. Ids outside of the
    // vocabulary are left out.
    void analyse(std::span<const std::int32_t> tokens, std::vector<std::uint64_t>& features) const;
    // Words of a text, without marks.
    std::int64_t count_words(std::span<const std::int32_t> tokens) const;

  private:
    enum class Kind : std::uint8_t { kNone, kWord, kContinues, kMark };
    struct Piece {
        std::string text;
        Kind kind = Kind::kNone;
    };
    template <class OnWord, class OnMark>
    void for_each_word(std::span<const std::int32_t> tokens, const OnWord& on_word,
                       const OnMark& on_mark) const;
    void add_word(std::string_view word, std::vector<std::uint64_t>& features, std::uint64_t& previous) const;

    FeatureOptions options_;
    std::vector<Piece> pieces_;  // by token id
};

}  // namespace elmo
