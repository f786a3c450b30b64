#include "linear/features/analyser.h"

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

}  // namespace

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

void Analyser::add_word(const std::string& word, std::vector<std::uint64_t>& features,
                        std::uint64_t& previous) const {
    const std::uint64_t hash = even(hash_of(word));
    features.push_back(hash);
    if (!is_one_char(word)) {
        if (previous != 0) features.push_back(even(mixed(previous * 3 + hash * 0x9e3779b97f4a7c15u)));
        previous = hash;
    }
    if (options_.letters == 0) return;
    const std::string bordered = " " + word + " ";
    const auto longest = static_cast<std::size_t>(options_.letters);
    for (std::size_t letters = options_.shorter_letters ? 1 : longest; letters <= longest; ++letters)
        for (std::size_t i = 0; i + letters <= bordered.size(); ++i)
            features.push_back(hash_of(std::string_view(bordered).substr(i, letters)) | 1);
}

void Analyser::analyse(std::span<const std::int32_t> tokens, std::vector<std::uint64_t>& features) const {
    features.clear();
    std::string word;
    std::uint64_t previous = 0;  // the word before
    const auto end_word = [&] {
        if (!word.empty()) add_word(word, features, previous);
        word.clear();
    };
    for (const std::int32_t id : tokens) {
        if (id < 0 || static_cast<std::size_t>(id) >= pieces_.size()) continue;
        if (options_.tokens_only) {
            features.push_back(even(mixed(static_cast<std::uint64_t>(id) + 1)));
            continue;
        }
        const Piece& piece = pieces_[static_cast<std::size_t>(id)];
        if (piece.kind != Kind::kContinues) end_word();
        if (piece.kind == Kind::kMark)
            features.push_back(even(hash_of(piece.text)));
        else if (piece.kind != Kind::kNone)
            word += piece.text;
    }
    end_word();
}

std::int64_t Analyser::count_words(std::span<const std::int32_t> tokens) const {
    std::int64_t words = 0;
    bool inside = false;
    for (const std::int32_t id : tokens) {
        if (id < 0 || static_cast<std::size_t>(id) >= pieces_.size()) continue;
        const Kind kind = pieces_[static_cast<std::size_t>(id)].kind;
        if (kind == Kind::kWord || (kind == Kind::kContinues && !inside)) ++words;
        inside = kind == Kind::kWord || kind == Kind::kContinues;
    }
    return words;
}

}  // namespace elmo
