#include "linear/features/analyser.h"

#include <fmt/format.h>

#include <unordered_map>

#include "text/byte_bpe.h"
#include "text/spec.h"
#include "text/unicode/words.h"
#include "text/unigram.h"

namespace elmo {
namespace {

constexpr std::uint64_t kPrime = 1099511628211u;          // of FNV-1a
constexpr std::string_view kByteLevelSpace = "\xc4\xa0";  // how byte-level BPE writes the space before a word

std::uint64_t mixed(std::uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

std::uint64_t even(std::uint64_t h) {
    return h & ~std::uint64_t{1};
}

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t h = 14695981039346656037u;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * kPrime;
    return mixed(h);
}

bool is_mark(std::string_view token) {
    std::size_t i = 0;
    const char32_t c = unicode::decode(token, i);
    return i == token.size() && bert_class(c) == BertClass::kPunctuation;
}

bool is_one_char(std::string_view word) {
    std::size_t i = 0;
    unicode::decode(word, i);
    return i == word.size();
}

// What a token stands for, in byte-level BPE and in Unigram, with its blanks.
std::string text_of(std::string_view token, TokenizerKind kind) {
    static const std::unordered_map<char32_t, char> kBytes = [] {
        std::unordered_map<char32_t, char> bytes;
        for (int byte = 0; byte < 256; ++byte)
            bytes.emplace(byte_to_char(static_cast<unsigned char>(byte)), static_cast<char>(byte));
        return bytes;
    }();
    std::string text;
    for (std::size_t i = 0; i < token.size();) {
        const std::size_t at = i;
        const char32_t c = unicode::decode(token, i);
        const auto byte = kBytes.find(c);
        if (kind == TokenizerKind::kUnigram && token.substr(at, i - at) == kUnigramSpace)
            text += ' ';
        else if (kind != TokenizerKind::kUnigram && byte != kBytes.end())
            text += byte->second;
        else
            text += token.substr(at, i - at);
    }
    return text;
}

}  // namespace

bool cuts_words_otherwise(const Tokenizer& tokenizer) {
    return read_tokenizer_json(tokenizer.to_json(), "tokenizer").kind != TokenizerKind::kWordPiece;
}

Analyser::Analyser(const Tokenizer& tokenizer, FeatureOptions options) : options_(options) {
    if (options_.tokens_only) {
        pieces_.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
        return;
    }
    const TokenizerSpec spec = read_tokenizer_json(tokenizer.to_json(), "tokenizer");
    pieces_.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
    const bool wordpiece = spec.kind == TokenizerKind::kWordPiece;
    for (const auto& [token, id] : spec.vocab) {
        Piece& piece = pieces_[static_cast<std::size_t>(id)];
        if (options_.splits_text) {
            piece = {text_of(token, spec.kind), Kind::kContinues};
            continue;
        }
        std::string_view text = token;
        const std::string_view prefix = wordpiece ? std::string_view(spec.continuing_prefix)
                                        : spec.kind == TokenizerKind::kUnigram ? kUnigramSpace
                                                                               : kByteLevelSpace;
        const bool prefixed = text.starts_with(prefix) && text.size() > prefix.size();
        if (prefixed) text.remove_prefix(prefix.size());
        piece.text = text;
        piece.kind = prefixed == wordpiece ? Kind::kContinues : is_mark(text) ? Kind::kMark : Kind::kWord;
    }
    for (const AddedToken& token : spec.added_tokens)
        if (token.special) pieces_[static_cast<std::size_t>(token.id)] = {};
    if (const std::int32_t unknown = tokenizer.unk_id(); unknown >= 0)
        pieces_[static_cast<std::size_t>(unknown)] = {};
}

void Analyser::add_word(std::string_view word, std::vector<std::uint64_t>& features,
                        std::uint64_t& previous) const {
    const std::uint64_t hash = even(hash_of(word));
    features.push_back(hash);
    if (!is_one_char(word)) {
        if (previous != 0) features.push_back(even(mixed(previous * 3 + hash * 0x9e3779b97f4a7c15u)));
        previous = hash;
    }
    if (options_.letters == 0) return;
    const std::string bordered = fmt::format(" {} ", word);
    const auto longest = static_cast<std::size_t>(options_.letters);
    for (std::size_t letters = options_.shorter_letters ? 1 : longest; letters <= longest; ++letters)
        for (std::size_t i = 0; i + letters <= bordered.size(); ++i)
            features.push_back(hash_of(std::string_view(bordered).substr(i, letters)) | 1);
}

template <class OnWord, class OnMark>
void Analyser::for_each_word(std::span<const std::int32_t> tokens, const OnWord& on_word,
                             const OnMark& on_mark) const {
    std::string word, valid;  // or, where the text is split, all of it
    const auto end_word = [&] {
        if (options_.splits_text)  // tokens of bytes may end within a character, where the text is cut
            split_bert_words(unicode::as_valid_utf8(word, valid),
                             [&](std::string_view part) { is_mark(part) ? on_mark(part) : on_word(part); });
        else if (!word.empty())
            on_word(word);
        word.clear();
    };
    for (const std::int32_t id : tokens) {
        if (id < 0 || static_cast<std::size_t>(id) >= pieces_.size()) continue;
        const Piece& piece = pieces_[static_cast<std::size_t>(id)];
        if (piece.kind != Kind::kContinues) end_word();
        if (piece.kind == Kind::kMark)
            on_mark(piece.text);
        else if (piece.kind != Kind::kNone)
            word += piece.text;
    }
    end_word();
}

void Analyser::analyse(std::span<const std::int32_t> tokens, std::vector<std::uint64_t>& features) const {
    features.clear();
    if (options_.tokens_only) {
        for (const std::int32_t id : tokens)
            if (id >= 0 && static_cast<std::size_t>(id) < pieces_.size())
                features.push_back(even(mixed(static_cast<std::uint64_t>(id) + 1)));
        return;
    }
    std::uint64_t previous = 0;  // the word before
    for_each_word(
        tokens, [&](std::string_view word) { add_word(word, features, previous); },
        [&](std::string_view mark) { features.push_back(even(hash_of(mark))); });
}

std::int64_t Analyser::count_words(std::span<const std::int32_t> tokens) const {
    std::int64_t words = 0;
    for_each_word(
        tokens, [&](std::string_view) { ++words; }, [](std::string_view) {});
    return words;
}

}  // namespace elmo
