// Text to token ids: BERT's WordPiece, the byte-level BPE of GPT-2 and RoBERTa and the Unigram model of
// XLM-RoBERTa, read from Hugging Face files, with the ids that the Hugging Face `tokenizers` library gives.
// The first two can also be learnt from texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/context.h"

namespace elmo {

struct TokenizerSpec;

// Immutable once made; safe to use from many threads.
class Tokenizer {
  public:
    // Checks the specification; `where` names its source in errors. DataError when it cannot work.
    Tokenizer(TokenizerSpec spec, const std::string& where);
    ~Tokenizer();
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;

    // Ids of one text, special tokens included, truncated to max_length ids, always with the closing special
    // tokens; `ids` is replaced. max_length 0: no limit. Invalid UTF-8 counts as U+FFFD. With more windows, a
    // longer text becomes that many at most, one after another: each has max_length ids, the last perhaps
    // fewer, and all special tokens. Returns the number of ids before cutting, in as many windows as it
    // takes.
    std::int64_t encode(std::string_view text, std::int64_t max_length, std::vector<std::int32_t>& ids,
                        std::int64_t windows = 1) const;

    std::int64_t vocab_size() const;  // 1 + the largest id
    // -1 when absent.
    std::int32_t pad_id() const;
    std::int32_t unk_id() const;
    std::int32_t cls_id() const;
    std::int32_t sep_id() const;

    // A complete tokenizer.json that the Hugging Face library loads and agrees with.
    std::string to_json() const;
    // Of everything that changes the ids: equal for equal behaviour read from different files.
    std::uint64_t fingerprint() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// From a folder (tokenizer.json, else vocab.txt or vocab.json + merges.txt with tokenizer_config.json) or
// from one of these files. DataError names the file and what was expected.
std::unique_ptr<Tokenizer> load_tokenizer(const Context& context,
                                          const std::filesystem::path& folder_or_file);

// From the content of a tokenizer.json; `where` names it in errors. Its truncation and padding are ignored.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& where);

enum class TokenizerKind { kWordPiece, kByteBpe, kUnigram };

struct LearnOptions {
    TokenizerKind kind = TokenizerKind::kWordPiece;  // or kByteBpe
    std::int64_t vocab_size = 30000;                 // at most; fewer if the texts do not yield that many
    bool lowercase = true;                           // WordPiece: strips accents too, as BERT uncased does
    std::int64_t min_count = 2;                      // pairs seen less often are not merged
    std::function<void()> between = {};              // called between merges; learning ends by what it throws
};

// For bag-of-words features: the words are the whole numbers below `count`, and each is its own id; the
// special tokens follow.
std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t count);

// Sets the next text and returns true, or returns false at the end.
using NextText = std::function<bool(std::string_view&)>;

// Learns a vocabulary from texts. Deterministic: ties go to the pair of lower ids, ids to characters in order
// of code points. Keeps word counts in memory, never texts. ConfigError when vocab_size cannot hold the
// alphabet.
std::unique_ptr<Tokenizer> learn_tokenizer(const NextText& next_text, const LearnOptions& options);

}  // namespace elmo
