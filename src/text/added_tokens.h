// Finds added tokens ("[SEP]", "<mask>") in a text, leftmost first and the longest at each place, as the
// Hugging Face library does: one set is matched in the raw text, another in the normalized one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/spec.h"

namespace elmo {

class AddedTokens {
  public:
    // `patterns[i]` is the text to match for `tokens[i]`.
    AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns);
    bool empty() const { return tokens_.empty(); }

    // Calls on_text(part) for the parts between tokens, none of them empty, and on_token(id), in order.
    template <class OnText, class OnToken>
    void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
        std::size_t done = 0;
        Match match;
        for (std::size_t from = 0; find(text, from, match); from = match.end) {
            const AddedToken& token = *match.token;
            if (token.single_word && !stands_alone(text, match)) continue;
            const std::size_t begin =
                token.lstrip ? std::max(done, space_before(text, match.begin)) : match.begin;
            if (done < begin) on_text(text.substr(done, begin - done));
            on_token(token.id);
            done = token.rstrip ? space_after(text, match.end) : match.end;
        }
        if (done < text.size()) on_text(text.substr(done));
    }

  private:
    struct Match {
        std::size_t begin = 0, end = 0;
        const AddedToken* token = nullptr;
    };
    bool find(std::string_view text, std::size_t from, Match& match) const;
    static bool stands_alone(std::string_view text, const Match& match);
    static std::size_t space_before(std::string_view text, std::size_t end);
    static std::size_t space_after(std::string_view text, std::size_t begin);

    std::vector<AddedToken> tokens_;
    ByteTrie patterns_;  // ids are places in tokens_
};

}  // namespace elmo
