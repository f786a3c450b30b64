// What a tokenizer is, apart from any file format: every field changes the ids or the names of special
// tokens. Files and the learner make one, Tokenizer runs it, write_tokenizer_json saves it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode/charsmap.h"

namespace elmo {

// Ids above this are refused: no vocabulary is nearly that large, and its embedding table would not fit.
constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 24) - 1;

struct NormalizerStep {
    enum class Kind {
        kBert,
        kNfc,
        kNfd,
        kNfkc,
        kNfkd,
        kLowercase,
        kStripAccents,
        kStrip,
        kReplace,
        kCharsmap
    };
    Kind kind = Kind::kBert;
    // only kBert:
    bool clean_text = true;
    bool handle_chinese_chars = true;
    std::optional<bool> strip_accents;  // unset: as lowercase
    bool lowercase = true;
    // only kStrip: white space at the ends of the text
    bool strip_left = true, strip_right = true;
    // only kReplace: every `pattern` becomes `content`; without a pattern, every run of two or more spaces
    std::string pattern, content;
    std::shared_ptr<const Charsmap> charsmap;  // only kCharsmap
};

// A token matched in the text as it stands, before the model sees it.
struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    bool single_word = false;  // only between characters that are not of a word
    bool lstrip = false;       // swallows the white space before it
    bool rstrip = false;
    bool normalized = false;  // matched in the normalized text
    bool special = true;
};

struct NamedId {
    std::string token;
    std::int32_t id = 0;
};

struct TokenizerSpec {
    TokenizerKind kind = TokenizerKind::kWordPiece;
    std::vector<NamedId> vocab;  // ascending ids
    std::optional<std::string> unk_token;
    std::vector<NormalizerStep> normalizers;
    std::vector<AddedToken> added_tokens;
    std::vector<NamedId> opening, closing;  // special tokens around every text
    bool roberta_pairs = false;             // how a pair of texts is joined; kept for those who load our file
    std::string pad_token;                  // "" when there is none

    // WordPiece
    std::string continuing_prefix = "##";
    std::int64_t max_word_chars = 100;

    // Byte-level BPE
    std::vector<std::pair<std::string, std::string>> merges;  // best first
    bool add_prefix_space = false;
    bool ignore_merges = false;  // a word that is a token stays whole
    bool fuse_unk = false;

    // Unigram; add_prefix_space (of every piece) is from above
    std::vector<double> scores;     // of the tokens of vocab
    bool byte_fallback = false;     // what no token spells becomes its bytes, where they are tokens
    bool whitespace_split = false;  // at every white space, before spaces are replaced
    bool split_pieces = true;       // before every space
};

// The content of a tokenizer.json, and back. Parsing throws DataError for what it does not know.
TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& where);
std::string write_tokenizer_json(const TokenizerSpec& spec);

}  // namespace elmo
