#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "base/text_util.h"
#include "elmo/error.h"
#include "text/added_tokens.h"
#include "text/byte_bpe.h"
#include "text/spec.h"
#include "text/unicode/normalizer.h"
#include "text/unicode/unicode.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace elmo {
namespace {

// At every place of a text the tokens are looked through that may begin there. Those of the usual encoders
// have at most some hundred bytes.
constexpr std::size_t kMostTokenBytes = 4096;

// Ids by token, of the vocabulary and of the added tokens; DataError when they contradict each other.
class TokenIds {
  public:
    TokenIds(const TokenizerSpec& spec, const std::string& where) {
        for (const auto& [token, id] : spec.vocab) add(token, id, where);
        for (const auto& token : spec.added_tokens) {
            const std::int32_t known = find(token.content);
            if (known < 0)
                add(token.content, token.id, where);
            else if (known != token.id)
                throw DataError(
                    fmt::format("{}: the added token '{}' has id {}, but the vocabulary gives it {}", where,
                                quoted(token.content), token.id, known));
        }
    }

    std::int32_t find(const std::string& token) const {
        const auto found = ids_.find(token);
        return found == ids_.end() ? -1 : found->second;
    }
    std::int64_t largest() const { return largest_; }

  private:
    void add(const std::string& token, std::int32_t id, const std::string& where) {
        if (token.size() > kMostTokenBytes)
            throw DataError(fmt::format("{}: the token '{}': expected tokens of at most {} bytes, found {}",
                                        where, quoted(token), kMostTokenBytes, token.size()));
        if (id < 0 || id > kMaxTokenId)
            throw DataError(fmt::format("{}: the token '{}' has id {}; expected 0 to {}", where,
                                        quoted(token), id, kMaxTokenId));
        if (!ids_.emplace(token, id).second)
            throw DataError(fmt::format("{}: the token '{}' is listed twice", where, quoted(token)));
        if (!used_.insert(id).second)
            throw DataError(
                fmt::format("{}: the id {} of '{}' belongs to another token too", where, id, quoted(token)));
        largest_ = std::max<std::int64_t>(largest_, id);
    }

    std::unordered_map<std::string, std::int32_t> ids_;
    std::unordered_set<std::int32_t> used_;
    std::int64_t largest_ = -1;
};

std::int32_t model_unk_id(const TokenizerSpec& spec, const TokenIds& ids, const std::string& where) {
    if (!spec.unk_token) return -1;
    const std::int32_t id = ids.find(*spec.unk_token);
    if (id < 0)
        throw DataError(fmt::format("{}: the unknown token '{}' is not in the vocabulary", where,
                                    quoted(*spec.unk_token)));
    return id;
}

void check_frame(const TokenizerSpec& spec, const TokenIds& ids, const std::string& where) {
    if (spec.opening.empty() || spec.closing.empty())
        throw DataError(fmt::format(
            "{}: expected a tokenizer that puts special tokens around a text ([CLS] and [SEP], or <s> "
            "and </s>), found none {} it; use the tokenizer of an encoder such as BERT or RoBERTa",
            where, spec.opening.empty() ? "before" : "after"));
    for (const auto* side : {&spec.opening, &spec.closing}) {
        for (const auto& [token, id] : *side) {
            const std::int32_t known = ids.find(token);
            if (known < 0)
                throw DataError(
                    fmt::format("{}: the special token '{}' is not in the vocabulary", where, quoted(token)));
            if (known != id)
                throw DataError(fmt::format("{}: the post-processor gives '{}' the id {}, the vocabulary {}",
                                            where, quoted(token), id, known));
        }
    }
}

using Model = std::variant<WordPiece, ByteBpe, Unigram>;

Model make_model(const TokenizerSpec& spec, std::int32_t unk_id, const std::string& where) {
    if (spec.vocab.empty()) throw DataError(fmt::format("{}: the vocabulary is empty", where));
    if (spec.kind == TokenizerKind::kByteBpe) return ByteBpe(spec, unk_id, where);
    const bool unigram = spec.kind == TokenizerKind::kUnigram;
    if (unk_id < 0)
        throw DataError(fmt::format("{}: a {} tokenizer needs an unknown token", where,
                                    unigram ? "Unigram" : "WordPiece"));
    if (unigram) return Unigram(spec, unk_id);
    return WordPiece(spec, unk_id);
}

AddedTokens select_added(const TokenizerSpec& spec, const Normalizer& normalizer, bool normalized) {
    std::vector<AddedToken> tokens;
    std::vector<std::string> patterns;
    for (const auto& token : spec.added_tokens) {
        if (token.normalized != normalized) continue;
        std::string pattern = token.content;
        if (normalized) normalizer.apply(token.content, pattern);
        tokens.push_back(token);
        patterns.push_back(std::move(pattern));
    }
    return AddedTokens(std::move(tokens), patterns);
}

// ids of a text with its special tokens become windows of at most `room` others; returns how many ids they
// would be without a limit of windows.
std::int64_t cut_windows(const TokenizerSpec& spec, std::int64_t room, std::int64_t windows,
                         std::vector<std::int32_t>& ids) {
    thread_local std::vector<std::int32_t> inner;
    const auto closing = static_cast<std::ptrdiff_t>(spec.closing.size());
    inner.assign(ids.begin() + static_cast<std::ptrdiff_t>(spec.opening.size()), ids.end() - closing);
    const auto count = static_cast<std::int64_t>(inner.size()), needed = (count + room - 1) / room;
    ids.clear();
    for (std::int64_t w = 0; w < std::min(needed, windows); ++w) {
        for (const auto& special : spec.opening) ids.push_back(special.id);
        ids.insert(ids.end(), inner.begin() + w * room, inner.begin() + std::min(count, (w + 1) * room));
        for (const auto& special : spec.closing) ids.push_back(special.id);
    }
    return count + needed * static_cast<std::int64_t>(spec.opening.size() + spec.closing.size());
}

}  // namespace

struct Tokenizer::Impl {
    Impl(TokenizerSpec given, const std::string& where)
        : spec(std::move(given)),
          ids(spec, where),
          unk(model_unk_id(spec, ids, where)),
          normalizer(spec.normalizers),
          raw_added(select_added(spec, normalizer, false)),
          normalized_added(select_added(spec, normalizer, true)),
          model(make_model(spec, unk, where)) {
        check_frame(spec, ids, where);
        pad = ids.find(spec.pad_token);
        if (unk < 0) unk = ids.find("<unk>");
    }

    void encode_part(std::string_view part, std::vector<std::int32_t>& out) const {
        thread_local std::string normalized;
        if (!normalizer.empty()) {
            normalizer.apply(part, normalized);
            part = normalized;
        }
        normalized_added.split(
            part,
            [&](std::string_view text) {
                std::visit([&](const auto& one) { one.encode(text, out); }, model);
            },
            [&](std::int32_t id) { out.push_back(id); });
    }

    TokenizerSpec spec;
    TokenIds ids;
    std::int32_t unk, pad = -1;
    Normalizer normalizer;
    AddedTokens raw_added, normalized_added;
    Model model;
};

Tokenizer::Tokenizer(TokenizerSpec spec, const std::string& where)
    : impl_(std::make_unique<Impl>(std::move(spec), where)) {}
Tokenizer::~Tokenizer() = default;

std::int64_t Tokenizer::encode(std::string_view text, std::int64_t max_length, std::vector<std::int32_t>& ids,
                               std::int64_t windows) const {
    thread_local std::string replaced;
    const auto& spec = impl_->spec;
    ids.clear();
    for (const auto& special : spec.opening) ids.push_back(special.id);
    impl_->raw_added.split(
        unicode::as_valid_utf8(text, replaced), [&](std::string_view part) { impl_->encode_part(part, ids); },
        [&](std::int32_t id) { ids.push_back(id); });
    for (const auto& special : spec.closing) ids.push_back(special.id);

    const auto length = static_cast<std::int64_t>(ids.size());
    const auto frame = static_cast<std::int64_t>(spec.opening.size() + spec.closing.size());
    if (windows > 1 && max_length > frame && length > max_length)
        return cut_windows(spec, max_length - frame, windows, ids);
    if (max_length > 0 && length > max_length) {
        const auto kept = static_cast<std::size_t>(max_length);
        const std::size_t closing = std::min(kept, spec.closing.size());
        std::copy(ids.end() - static_cast<std::ptrdiff_t>(closing), ids.end(),
                  ids.begin() + static_cast<std::ptrdiff_t>(kept - closing));
        ids.resize(kept);
    }
    return length;
}

std::int64_t Tokenizer::vocab_size() const {
    return impl_->ids.largest() + 1;
}
std::int32_t Tokenizer::pad_id() const {
    return impl_->pad;
}
std::int32_t Tokenizer::unk_id() const {
    return impl_->unk;
}
std::int32_t Tokenizer::cls_id() const {
    return impl_->spec.opening.front().id;
}
std::int32_t Tokenizer::sep_id() const {
    return impl_->spec.closing.back().id;
}

std::string Tokenizer::to_json() const {
    return write_tokenizer_json(impl_->spec);
}

std::uint64_t Tokenizer::fingerprint() const {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a of the canonical form
    for (const char c : to_json()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view json, const std::string& where) {
    return std::make_unique<Tokenizer>(read_tokenizer_json(json, where), where);
}

}  // namespace elmo
