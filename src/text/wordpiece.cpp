#include "text/wordpiece.h"

#include <algorithm>

#include "text/unicode/words.h"

namespace elmo {
namespace {

// Tokens that start with `prefix`, without it.
ByteTrie tokens_behind(const TokenizerSpec& spec, std::string_view prefix) {
    std::vector<std::pair<std::string_view, std::int32_t>> tokens;
    for (const auto& [token, id] : spec.vocab) {
        const std::string_view view = token;
        if (view.substr(0, prefix.size()) == prefix) tokens.emplace_back(view.substr(prefix.size()), id);
    }
    return ByteTrie(std::move(tokens));
}

bool more_chars_than(std::string_view word, std::size_t limit) {
    if (word.size() <= limit) return false;
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
    return word.size() - static_cast<std::size_t>(std::count_if(word.begin(), word.end(), continues)) > limit;
}

}  // namespace

WordPiece::WordPiece(const TokenizerSpec& spec, std::int32_t unk_id)
    : starts_(tokens_behind(spec, "")),
      continuations_(tokens_behind(spec, spec.continuing_prefix)),
      max_word_chars_(static_cast<std::size_t>(spec.max_word_chars)),
      unk_id_(unk_id) {}

void WordPiece::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
    split_bert_words(text, [&](std::string_view word) { encode_word(word, ids); });
}

void WordPiece::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
    if (more_chars_than(word, max_word_chars_)) {
        ids.push_back(unk_id_);
        return;
    }
    const std::size_t old_size = ids.size();
    const ByteTrie* tokens = &starts_;
    while (!word.empty()) {
        std::int32_t id = 0;
        const std::size_t length = tokens->longest_prefix(word, id);
        if (length == 0) {
            ids.resize(old_size);
            ids.push_back(unk_id_);
            return;
        }
        ids.push_back(id);
        word.remove_prefix(length);
        tokens = &continuations_;
    }
}

}  // namespace elmo
