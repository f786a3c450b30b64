#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode/unicode.h"

namespace elmo {
namespace {

constexpr double kUnknownPenalty = 10.0;  // an unknown character scores this much below the worst token

ByteTrie all_tokens(const TokenizerSpec& spec) {
    std::vector<std::pair<std::string_view, std::int32_t>> tokens;
    for (const auto& [token, id] : spec.vocab) tokens.emplace_back(token, id);
    return ByteTrie(std::move(tokens));
}

// The best path to a place of the piece ends with the token `id`, which starts at `start`.
struct Step {
    double score = 0;
    std::int64_t start = -1;
    std::int32_t id = 0;
};

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec, std::int32_t unk_id)
    : tokens_(all_tokens(spec)),
      unk_score_(*std::min_element(spec.scores.begin(), spec.scores.end()) - kUnknownPenalty),
      unk_id_(unk_id),
      byte_fallback_(spec.byte_fallback),
      whitespace_split_(spec.whitespace_split),
      add_prefix_space_(spec.add_prefix_space),
      split_pieces_(spec.split_pieces) {
    for (std::size_t i = 0; i < spec.vocab.size(); ++i) {
        const auto id = static_cast<std::size_t>(spec.vocab[i].id);
        scores_.resize(std::max(scores_.size(), id + 1));
        scores_[id] = spec.scores[i];
    }
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
        const std::string name = fmt::format("<0x{:02X}>", byte);
        byte_ids_[byte] = -1;
        std::int32_t id = 0;
        if (tokens_.longest_prefix(name, id) == name.size()) byte_ids_[byte] = id;
    }
}

void Unigram::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
    if (!whitespace_split_) return encode_words(text, ids);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t at = i;
        if (!unicode::is_space(unicode::decode(text, i))) continue;
        encode_words(text.substr(begin, at - begin), ids);
        begin = i;
    }
    encode_words(text.substr(begin), ids);
}

// Spaces become U+2581, with one more before the text, and each begins a piece.
void Unigram::encode_words(std::string_view text, std::vector<std::int32_t>& ids) const {
    thread_local std::string spelt;
    if (text.empty()) return;
    spelt.clear();
    if (add_prefix_space_ && text[0] != ' ' && !text.starts_with(kUnigramSpace)) spelt = kUnigramSpace;
    for (const char c : text)
        if (c == ' ')
            spelt.append(kUnigramSpace);
        else
            spelt.push_back(c);
    std::string_view rest = spelt;
    while (split_pieces_) {
        const std::size_t next = rest.find(kUnigramSpace, 1);
        if (next == rest.npos) break;
        encode_piece(rest.substr(0, next), ids);
        rest.remove_prefix(next);
    }
    encode_piece(rest, ids);
}

void Unigram::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
    thread_local std::vector<Step> best;
    thread_local std::vector<std::size_t> ends;
    best.assign(piece.size() + 1, {});
    for (std::size_t start = 0, next = 0; start < piece.size(); start = next) {
        unicode::decode(piece, next);
        const double before = best[start].score;
        // Of equal scores the first found stays.
        const auto offer = [&](std::size_t end, double score, std::int32_t id) {
            Step& step = best[end];
            if (step.start < 0 || before + score > step.score)
                step = {before + score, static_cast<std::int64_t>(start), id};
        };
        bool known = false;
        tokens_.each_prefix(piece.substr(start), [&](std::size_t length, std::int32_t id) {
            offer(start + length, scores_[static_cast<std::size_t>(id)], id);
            known = known || start + length == next;
        });
        if (!known) offer(next, unk_score_, unk_id_);
    }
    ends.clear();
    for (std::size_t end = piece.size(); end > 0; end = static_cast<std::size_t>(best[end].start))
        ends.push_back(end);
    // Unknown neighbours are one.
    std::size_t unknown_from = 0;
    for (std::size_t i = ends.size(); i-- > 0;) {
        const Step& step = best[ends[i]];
        const bool unknown = step.id == unk_id_;
        if (!unknown) ids.push_back(step.id);
        if (!unknown)
            unknown_from = ends[i];
        else if (i == 0 || best[ends[i - 1]].id != unk_id_)
            append_unknown(piece.substr(unknown_from, ends[i] - unknown_from), ids);
    }
}

void Unigram::append_unknown(std::string_view part, std::vector<std::int32_t>& ids) const {
    std::int32_t id = 0;
    if (tokens_.longest_prefix(part, id) == part.size()) {
        ids.push_back(id);
        return;
    }
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    const bool spelt =
        byte_fallback_ && std::all_of(part.begin(), part.end(), [&](char c) { return byte_id(c) >= 0; });
    if (!spelt) ids.push_back(unk_id_);
    if (spelt)
        for (const char c : part) ids.push_back(byte_id(c));
}

}  // namespace elmo
