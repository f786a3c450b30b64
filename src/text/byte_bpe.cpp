#include "text/byte_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text_util.h"
#include "elmo/error.h"
#include "text/unicode/unicode.h"
#include "text/unicode/words.h"

namespace elmo {
namespace {

bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

std::array<char32_t, 256> byte_chars() {
    std::array<char32_t, 256> chars{};
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) chars[byte] = stands_for_itself(byte) ? byte : next++;
    return chars;
}

const std::array<char32_t, 256> kByteChars = byte_chars();

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
}

std::size_t pair_hash(std::uint64_t key) {
    return static_cast<std::size_t>((key ^ key >> 29) * 0x9e3779b97f4a7c15u >> 32);
}

constexpr std::size_t kShortWord = 48;

struct Symbol {
    std::int32_t id;
    std::int32_t previous, next;  // places in the word; -1 at its ends
    bool alive;
};

struct Candidate {
    std::int32_t rank, place, id;
    bool operator<(const Candidate& other) const {  // a max-heap gives the best merge, then the leftmost
        return rank != other.rank ? rank > other.rank : place > other.place;
    }
};

}  // namespace

char32_t byte_to_char(unsigned char byte) {
    return kByteChars[byte];
}

std::string byte_level_string(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) unicode::append(byte_to_char(static_cast<unsigned char>(byte)), out);
    return out;
}

ByteBpe::ByteBpe(const TokenizerSpec& spec, std::int32_t unk_id, const std::string& where)
    : add_prefix_space_(spec.add_prefix_space),
      ignore_merges_(spec.ignore_merges),
      fuse_unk_(spec.fuse_unk),
      unk_id_(unk_id) {
    std::unordered_map<std::string, std::int32_t> ids;
    for (const auto& [token, id] : spec.vocab) ids.emplace(token, id);
    std::size_t slots = 16;
    while (slots < 2 * spec.merges.size() + 1) slots *= 2;
    merges_.resize(slots);
    for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
        const std::string& left = spec.merges[rank].first;
        const std::string& right = spec.merges[rank].second;
        const auto id_of = [&](const std::string& token) {
            const auto found = ids.find(token);
            if (found == ids.end())
                throw DataError(fmt::format(
                    "{}: merge {} ('{}' '{}') needs the token '{}', which is not in the vocabulary", where,
                    rank + 1, quoted(left), quoted(right), quoted(token)));
            return found->second;
        };
        insert({pair_key(id_of(left), id_of(right)), static_cast<std::int32_t>(rank), id_of(left + right)});
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char raw = static_cast<char>(byte);
        const auto found = ids.find(byte_level_string({&raw, 1}));
        byte_ids_[byte] = found == ids.end() ? -1 : found->second;
    }
    if (ignore_merges_) whole_words_ = std::move(ids);
}

const ByteBpe::Merge* ByteBpe::find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = pair_key(left, right);
    for (std::size_t slot = pair_hash(key);; ++slot) {
        const Merge& merge = merges_[slot & (merges_.size() - 1)];
        if (merge.pair == key) return &merge;
        if (merge.pair == ~std::uint64_t{0}) return nullptr;
    }
}

// A pair listed twice keeps its last rank, as in the Hugging Face library.
void ByteBpe::insert(const Merge& merge) {
    std::size_t slot = pair_hash(merge.pair);
    const auto at = [&]() -> Merge& { return merges_[slot & (merges_.size() - 1)]; };
    while (at().pair != ~std::uint64_t{0} && at().pair != merge.pair) ++slot;
    at() = merge;
}

void ByteBpe::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
    thread_local std::string prefixed;
    if (add_prefix_space_ && !text.empty() && text[0] != ' ') {
        prefixed.assign(1, ' ');
        prefixed.append(text);
        text = prefixed;
    }
    split_byte_level_words(text, [&](std::string_view word) { encode_word(word, ids); });
}

void ByteBpe::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
    if (ignore_merges_) {
        const auto found = whole_words_.find(byte_level_string(word));
        if (found != whole_words_.end()) {
            ids.push_back(found->second);
            return;
        }
    }
    thread_local std::vector<std::int32_t> symbols;
    symbols.clear();
    bool after_unknown = false;
    for (const char raw : word) {
        std::int32_t id = byte_ids_[static_cast<unsigned char>(raw)];
        const bool unknown = id < 0;
        if (unknown) id = unk_id_;
        if (id < 0) continue;
        if (!(unknown && after_unknown && fuse_unk_)) symbols.push_back(id);
        after_unknown = unknown;
    }
    if (symbols.size() <= kShortWord)
        merge_short(symbols);
    else
        merge_long(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// Searches all neighbours for the best merge each time: quadratic, but faster than a heap for few symbols.
void ByteBpe::merge_short(std::vector<std::int32_t>& symbols) const {
    constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
    std::int32_t ranks[kShortWord], results[kShortWord];  // of symbols i and i + 1
    std::size_t pairs = symbols.empty() ? 0 : symbols.size() - 1;
    const auto look_up = [&](std::size_t i) {
        const Merge* merge = find(symbols[i], symbols[i + 1]);
        ranks[i] = merge == nullptr ? kNone : merge->rank;
        if (merge != nullptr) results[i] = merge->id;
    };
    for (std::size_t i = 0; i < pairs; ++i) look_up(i);
    while (pairs > 0) {
        const auto best = static_cast<std::size_t>(std::min_element(ranks, ranks + pairs) - ranks);
        if (ranks[best] == kNone) break;
        symbols[best] = results[best];
        --pairs;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        std::copy(ranks + best + 1, ranks + pairs + 1, ranks + best);
        std::copy(results + best + 1, results + pairs + 1, results + best);
        if (best > 0) look_up(best - 1);
        if (best < pairs) look_up(best);
    }
}

void ByteBpe::merge_long(std::vector<std::int32_t>& ids) const {
    std::vector<Symbol> symbols;
    for (const std::int32_t id : ids) {
        const auto place = static_cast<std::int32_t>(symbols.size());
        symbols.push_back({id, place - 1, place + 1, true});
    }
    symbols.back().next = -1;

    std::vector<Candidate> heap;
    const auto push = [&](std::int32_t place) {
        const Symbol& symbol = symbols[static_cast<std::size_t>(place)];
        if (symbol.next < 0) return;
        const Merge* merge = find(symbol.id, symbols[static_cast<std::size_t>(symbol.next)].id);
        if (merge == nullptr) return;
        heap.push_back({merge->rank, place, merge->id});
        std::push_heap(heap.begin(), heap.end());
    };
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) push(static_cast<std::int32_t>(i));
    while (!heap.empty()) {
        const Candidate best = heap.front();
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
        Symbol& left = symbols[static_cast<std::size_t>(best.place)];
        if (!left.alive || left.next < 0) continue;
        Symbol& right = symbols[static_cast<std::size_t>(left.next)];
        // The neighbours may have changed since this candidate was noted.
        const Merge* merge = find(left.id, right.id);
        if (merge == nullptr || merge->id != best.id) continue;
        left.id = best.id;
        left.next = right.next;
        right.alive = false;
        if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.place;
        if (left.previous >= 0) push(left.previous);
        push(best.place);
    }
    ids.clear();
    for (const Symbol& symbol : symbols)
        if (symbol.alive) ids.push_back(symbol.id);
}

}  // namespace elmo
