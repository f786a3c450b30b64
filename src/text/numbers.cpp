// The tokenizer of bag-of-words features: a word is a feature's number, and its id is that number.
#include "text/numbers.h"

#include <fmt/format.h>

#include "elmo/error.h"
#include "text/spec.h"

namespace elmo {

std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t count) {
    if (count < 1 || count > kMaxTokenId - 4)
        throw DataError(fmt::format("expected from 1 to {} features, found {}", kMaxTokenId - 4, count));
    TokenizerSpec spec;
    spec.vocab.reserve(static_cast<std::size_t>(count) + 4);
    for (std::int64_t i = 0; i < count; ++i)
        spec.vocab.push_back({fmt::format("{}", i), static_cast<std::int32_t>(i)});
    for (const char* name : {"[UNK]", "[CLS]", "[SEP]", "[PAD]"}) {
        const auto id = static_cast<std::int32_t>(spec.vocab.size());
        spec.vocab.push_back({name, id});
        AddedToken special;
        special.content = name;
        special.id = id;
        spec.added_tokens.push_back(special);
    }
    spec.unk_token = "[UNK]";
    spec.pad_token = "[PAD]";
    spec.opening = {{"[CLS]", static_cast<std::int32_t>(count + 1)}};
    spec.closing = {{"[SEP]", static_cast<std::int32_t>(count + 2)}};
    spec.normalizers.push_back({});
    return std::make_unique<Tokenizer>(std::move(spec), "features");
}

bool is_number_tokenizer(const Tokenizer& tokenizer) {
    const std::int64_t count = tokenizer.vocab_size() - 4;
    if (count < 1 || tokenizer.unk_id() != count || tokenizer.cls_id() != count + 1 ||
        tokenizer.sep_id() != count + 2 || tokenizer.pad_id() != count + 3)
        return false;
    std::vector<std::int32_t> ids;
    for (const std::int64_t number : {std::int64_t{0}, count - 1}) {
        tokenizer.encode(fmt::format("{}", number), 0, ids);
        if (ids.size() != 3 || ids[1] != number) return false;
    }
    return true;
}

}  // namespace elmo
