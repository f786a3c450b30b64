// Learns a vocabulary from texts: counts words, starts from single characters (WordPiece) or bytes (BPE), and
// merges the most frequent neighbours until the vocabulary is full. WordPiece learns the same way, with "##"
// before every piece that continues a word.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "elmo/error.h"
#include "text/byte_bpe.h"
#include "text/spec.h"
#include "text/unicode/normalizer.h"
#include "text/unicode/unicode.h"
#include "text/unicode/words.h"

namespace elmo {
namespace {

constexpr std::size_t kMaxDistinctWords = 4'000'000;  // bounds memory: beyond it the rarest are dropped
constexpr std::size_t kMaxWordBytes = 256;            // longer ones are not words of a language
constexpr std::string_view kPrefix = "##";

class WordCounts {
  public:
    void add(std::string_view word) {
        if (word.size() > kMaxWordBytes) return;
        const auto found = counts_.find(word);
        if (found != counts_.end()) {
            ++found->second;
            return;
        }
        if (counts_.size() >= kMaxDistinctWords) forget_rarest();
        counts_.emplace(word, 1);
    }
    std::map<std::string, std::int64_t> sorted() const { return {counts_.begin(), counts_.end()}; }

  private:
    void forget_rarest() {
        for (std::int64_t limit = 1; counts_.size() > kMaxDistinctWords / 2; limit *= 2)
            std::erase_if(counts_, [&](const auto& entry) { return entry.second <= limit; });
    }

    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
    std::size_t operator()(const Pair& pair) const {
        const auto key =
            static_cast<std::uint64_t>(pair.first) << 32 | static_cast<std::uint32_t>(pair.second);
        return static_cast<std::size_t>((key ^ key >> 32) * 0x9e3779b97f4a7c15u >> 16);
    }
};

// The merging itself, on numbered symbols.
class Merger {
  public:
    void add_word(std::vector<std::int32_t> symbols, std::int64_t count) {
        const auto word = static_cast<std::int32_t>(words_.size());
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
            change({symbols[i], symbols[i + 1]}, count, word);
        words_.push_back({std::move(symbols), count});
    }

    // The most frequent pair, ties to the lowest ids, and its count; 0 when no pair is left.
    std::int64_t best(Pair& pair) {
        queue_new_pairs();
        while (!queue_.empty()) {
            Entry entry = queue_.top();
            queue_.pop();
            const std::int64_t count = pairs_[entry.pair].count;
            if (count == entry.count) {
                pair = entry.pair;
                return count;
            }
            // Counts that grew were queued again then; one that shrank is queued again now.
            if (count > 0 && count < entry.count) queue_.push({count, entry.pair});
        }
        return 0;
    }

    // Replaces every occurrence of the pair by `symbol`.
    void merge(Pair pair, std::int32_t symbol) {
        const std::vector<std::int32_t> where = std::move(pairs_[pair].words);
        pairs_[pair].words.clear();
        for (const std::int32_t index : where) {
            Word& word = words_[static_cast<std::size_t>(index)];
            auto& symbols = word.symbols;
            // symbols[0, to) is rewritten, symbols[from, end) is not yet: counts are those of the two joined.
            std::size_t to = 0;
            for (std::size_t from = 0; from < symbols.size(); ++from) {
                if (from + 1 == symbols.size() || Pair{symbols[from], symbols[from + 1]} != pair) {
                    symbols[to++] = symbols[from];
                    continue;
                }
                change(pair, -word.count, index);
                if (to > 0) {
                    change({symbols[to - 1], pair.first}, -word.count, index);
                    change({symbols[to - 1], symbol}, word.count, index);
                }
                if (from + 2 < symbols.size()) {
                    change({pair.second, symbols[from + 2]}, -word.count, index);
                    change({symbol, symbols[from + 2]}, word.count, index);
                }
                symbols[to++] = symbol;
                ++from;
            }
            symbols.resize(to);
        }
    }

  private:
    struct Word {
        std::vector<std::int32_t> symbols;
        std::int64_t count;
    };
    struct PairState {
        std::int64_t count = 0;
        std::vector<std::int32_t> words;  // where it may occur
        bool grown = false;               // waits in grown_
    };
    struct Entry {
        std::int64_t count;
        Pair pair;
        bool operator<(const Entry& other) const {
            return count != other.count ? count < other.count : pair > other.pair;
        }
    };

    void change(Pair pair, std::int64_t by, std::int32_t word) {
        PairState& state = pairs_[pair];
        state.count += by;
        if (by < 0) return;
        if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
        if (!state.grown) grown_.push_back(pair);
        state.grown = true;
    }
    void queue_new_pairs() {
        for (const Pair& pair : grown_) {
            PairState& state = pairs_[pair];
            state.grown = false;
            if (state.count > 0) queue_.push({state.count, pair});
        }
        grown_.clear();
    }

    std::vector<Word> words_;
    std::unordered_map<Pair, PairState, PairHash> pairs_;
    std::vector<Pair> grown_;
    std::priority_queue<Entry> queue_;
};

// The vocabulary while it grows. Its special tokens mix punctuation and letters, which no word does, so no
// merge can give one.
class Vocabulary {
  public:
    std::int32_t add(const std::string& token) {
        const auto [entry, added] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
        if (added) tokens_.push_back(token);
        return entry->second;
    }
    const std::string& operator[](std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
    std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  private:
    std::vector<std::string> tokens_;
    std::unordered_map<std::string, std::int32_t> ids_;
};

// Specials first, in the customary order; their ids are their places.
TokenizerSpec blank_spec(const LearnOptions& options) {
    TokenizerSpec spec;
    spec.kind = options.kind;
    const bool wordpiece = options.kind == TokenizerKind::kWordPiece;
    std::vector<std::string> names = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    if (wordpiece) names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (const auto& name : names) {
        AddedToken token;
        token.content = name;
        token.id = static_cast<std::int32_t>(spec.added_tokens.size());
        token.lstrip = name == "<mask>";
        spec.added_tokens.push_back(token);
    }
    spec.pad_token = wordpiece ? names[0] : names[1];
    spec.unk_token = wordpiece ? names[1] : names[3];
    spec.opening = {wordpiece ? NamedId{names[2], 2} : NamedId{names[0], 0}};
    spec.closing = {wordpiece ? NamedId{names[3], 3} : NamedId{names[2], 2}};
    spec.roberta_pairs = !wordpiece;
    spec.add_prefix_space = !wordpiece;
    NormalizerStep step;
    step.lowercase = options.lowercase;
    if (!wordpiece) step.kind = NormalizerStep::Kind::kLowercase;
    if (wordpiece || options.lowercase) spec.normalizers = {step};
    return spec;
}

WordCounts count_words(const NextText& next_text, const TokenizerSpec& spec) {
    const Normalizer normalizer(spec.normalizers);
    WordCounts counts;
    std::string_view text;
    std::string replaced, normalized, prefixed;
    const auto add = [&](std::string_view word) { counts.add(word); };
    while (next_text(text)) {
        normalizer.apply(unicode::as_valid_utf8(text, replaced), normalized);
        if (spec.kind == TokenizerKind::kWordPiece) {
            split_bert_words(normalized, add);
        } else if (!normalized.empty()) {
            prefixed.clear();
            if (normalized[0] != ' ') prefixed.push_back(' ');
            prefixed.append(normalized);
            split_byte_level_words(prefixed, add);
        }
    }
    return counts;
}

// The most frequent characters, in order of code points, so many that they and their continuations fill at
// most half of the vocabulary.
std::vector<char32_t> choose_alphabet(const std::map<std::string, std::int64_t>& words, std::size_t limit) {
    std::map<char32_t, std::int64_t> counts;
    for (const auto& [word, count] : words)
        for (std::size_t i = 0; i < word.size();) counts[unicode::decode(word, i)] += count;
    std::vector<std::pair<std::int64_t, char32_t>> ranked;
    for (const auto& [c, count] : counts) ranked.emplace_back(-count, c);
    std::sort(ranked.begin(), ranked.end());
    if (ranked.size() > limit) ranked.resize(limit);
    std::vector<char32_t> alphabet;
    for (const auto& [count, c] : ranked) alphabet.push_back(c);
    std::sort(alphabet.begin(), alphabet.end());
    return alphabet;
}

void start_wordpiece(const std::map<std::string, std::int64_t>& words, const LearnOptions& options,
                     Vocabulary& vocabulary, Merger& merger) {
    const auto limit = static_cast<std::size_t>((options.vocab_size - vocabulary.size()) / 4);
    std::unordered_map<char32_t, Pair> ids;  // as a first and as a later character
    const std::vector<char32_t> alphabet = choose_alphabet(words, limit);
    for (const std::string_view prefix : {std::string_view(), kPrefix}) {
        for (const char32_t c : alphabet) {
            std::string token(prefix);
            unicode::append(c, token);
            (prefix.empty() ? ids[c].first : ids[c].second) = vocabulary.add(token);
        }
    }
    for (const auto& [word, count] : words) {
        std::vector<std::int32_t> symbols;
        bool known = true;
        for (std::size_t i = 0; known && i < word.size();) {
            const auto found = ids.find(unicode::decode(word, i));
            known = found != ids.end();
            if (known) symbols.push_back(symbols.empty() ? found->second.first : found->second.second);
        }
        if (known && symbols.size() <= 100) merger.add_word(std::move(symbols), count);
    }
}

void start_byte_bpe(const std::map<std::string, std::int64_t>& words, Vocabulary& vocabulary,
                    Merger& merger) {
    std::vector<std::pair<char32_t, unsigned char>> alphabet;
    for (unsigned byte = 0; byte < 256; ++byte)
        alphabet.emplace_back(byte_to_char(static_cast<unsigned char>(byte)),
                              static_cast<unsigned char>(byte));
    std::sort(alphabet.begin(), alphabet.end());
    std::int32_t ids[256];
    for (const auto& [c, byte] : alphabet) {
        std::string token;
        unicode::append(c, token);
        ids[byte] = vocabulary.add(token);
    }
    for (const auto& [word, count] : words) {
        std::vector<std::int32_t> symbols;
        for (const char byte : word) symbols.push_back(ids[static_cast<unsigned char>(byte)]);
        merger.add_word(std::move(symbols), count);
    }
}

}  // namespace

std::unique_ptr<Tokenizer> learn_tokenizer(const NextText& next_text, const LearnOptions& options) {
    const bool wordpiece = options.kind == TokenizerKind::kWordPiece;
    const std::int64_t smallest = wordpiece ? 64 : 300;
    if (options.vocab_size < smallest || options.vocab_size > kMaxTokenId)
        throw ConfigError(fmt::format("a learnt {} vocabulary needs {} to {} tokens, found {}",
                                      wordpiece ? "WordPiece" : "byte-level BPE", smallest, kMaxTokenId,
                                      options.vocab_size));
    TokenizerSpec spec = blank_spec(options);
    const std::map<std::string, std::int64_t> words = count_words(next_text, spec).sorted();
    if (words.empty()) throw DataError("cannot learn a vocabulary: the texts contain no words");

    Vocabulary vocabulary;
    for (const auto& token : spec.added_tokens) vocabulary.add(token.content);
    Merger merger;
    if (wordpiece)
        start_wordpiece(words, options, vocabulary, merger);
    else
        start_byte_bpe(words, vocabulary, merger);

    Pair pair;
    while (vocabulary.size() < options.vocab_size) {
        if (options.between) options.between();
        const std::int64_t count = merger.best(pair);
        if (count < std::max<std::int64_t>(1, options.min_count)) break;
        const std::string& left = vocabulary[pair.first];
        const std::string& right = vocabulary[pair.second];
        const std::string token = left + right.substr(wordpiece ? kPrefix.size() : 0);
        if (!wordpiece) spec.merges.emplace_back(left, right);
        merger.merge(pair, vocabulary.add(token));
    }
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) spec.vocab.push_back({vocabulary[id], id});
    return std::make_unique<Tokenizer>(std::move(spec), "learnt vocabulary");
}

}  // namespace elmo
