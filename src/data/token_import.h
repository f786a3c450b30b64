// Texts into the binary cache: token ids without padding; and a stream of texts for learning a
// vocabulary.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/cache_file.h"
#include "cache/token_parts.h"
#include "config/views.h"
#include "elmo/context.h"
#include "sources/layout.h"
#include "text/tokenizer.h"

namespace elmo {

struct TokenCache {
    std::optional<CacheFile> train, test, validation;  // ragged "tokens" of int32, "stats"
    bool reused = true;

    std::optional<CacheFile>& of(SplitName split);
};

// Maps the token cache of the wanted splits, importing what is missing or out of date.
TokenCache open_token_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const std::filesystem::path& folder, const Tokenizer& tokenizer,
                            const std::vector<SplitName>& splits);

// The texts of a split in order, to learn from (learn_tokenizer takes `next` as it is).
class SplitTexts {
  public:
    SplitTexts(const Context& context, const ReadOptions& reading, SplitName split = SplitName::kTrain);
    ~SplitTexts();

    // Sets the next text, valid until the next call; false at the end.
    bool next(std::string_view& text);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
