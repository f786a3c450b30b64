#include "data/tokenizer_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/text_util.h"
#include "batches/share.h"
#include "cache/cache_file.h"
#include "config/encoder_folder.h"
#include "data/named_labels.h"
#include "data/token_import.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "sources/layout.h"
#include "sources/matrices/sparse_source.h"
#include "sources/row_source.h"
#include "text/numbers.h"
#include "text/spec.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr double kLearnBytes = 0x1p30;  // of texts to learn a vocabulary from, about

std::unique_ptr<Tokenizer> learn(const Context& context, const ReadOptions& reading, const Layout& layout) {
    const auto start = std::chrono::steady_clock::now();
    LearnOptions options;
    options.kind = reading.tokenizer_kind == LearntTokenizer::kByteBpe ? TokenizerKind::kByteBpe
                                                                       : TokenizerKind::kWordPiece;
    options.vocab_size = reading.vocab_size;
    options.between = [&] { context.leave_if_stopped(); };
    std::int64_t texts = 0;
    Progress progress(context, "learning a vocabulary", 0, "texts");
    SplitTexts stream(context, reading);
    // A share of a huge file, chosen by a hash (not the one that chooses test rows), is as good and takes a
    // fraction of the time.
    std::error_code ignored;
    const auto bytes = static_cast<double>(fs::file_size(layout.train.text, ignored));
    const double share = bytes > kLearnBytes ? kLearnBytes / bytes : 1;
    bool ended = false;
    std::unique_ptr<Tokenizer> tokenizer;
    try {
        tokenizer = learn_tokenizer(
            [&](std::string_view& text) {
                do {
                    if (!stream.next(text)) {
                        ended = true;
                        return false;
                    }
                } while (share < 1 && !falls_in_share(hash64(text, 1), share));
                context.leave_if_stopped();
                progress.update(++texts);
                return true;
            },
            options);
    } catch (const DataError& error) {
        if (!ended) throw;  // the texts themselves: that message names file and line
        if (texts == 0 && layout.splits_by_hash() && open_texts(layout, SplitName::kTrain)->open()->next())
            throw DataError(all_rows_are_test(layout));
        if (texts == 0)
            throw DataError(fmt::format("{}: expected rows{}, found none", layout.train.text.string(),
                                        layout.format == DataFormat::kCsv ? " after the header" : ""));
        throw DataError(fmt::format("{}: {}", layout.train.text.string(), error.what()));
    }
    progress.finish();
    context.info(
        fmt::format("learnt a vocabulary of {} from {} in {:.1f} s",
                    counted(tokenizer->vocab_size(), "token"), counted(texts, "text"),
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    return tokenizer;
}

// What decides which vocabulary is learnt.
CacheKey vocabulary_key(const ReadOptions& reading, const Layout& layout) {
    CacheKey key(layout.data, "tokenizer");
    key.add("tokenizer_kind", reading.tokenizer_kind == LearntTokenizer::kByteBpe ? "bpe" : "wordpiece");
    key.add("vocab_size", fmt::format("{}", reading.vocab_size));
    // The columns that are read: a format may have names of its own for those that are not given.
    key.add("text_column", fmt::format("{}", fmt::join(layout.text_columns, "+")));
    key.add("test_share", describe({reading.test_share, reading.equal_texts_together}));
    key.add("allow_invalid_utf8", reading.allow_invalid_utf8 ? "true" : "false");
    key.add("encoding", reading.encoding == TextEncoding::kLatin1 ? "latin-1" : "utf-8");
    key.add("format", reading.format);
    add_table_options(reading, layout, key);
    return key;
}

std::unique_ptr<Tokenizer> learn_or_reuse(const Context& context, const ReadOptions& reading) {
    const Layout layout = find_layout(reading);
    const fs::path folder = cache_folder(reading.cache, layout.data);
    CacheKey key = vocabulary_key(reading, layout);
    if (layout.train.text.empty())
        throw DataError(fmt::format(
            "{}: expected training texts to learn a vocabulary from, found no trn_X.txt", reading.data));
    key.add_file(layout.train.text);
    if (const auto file = CacheFile::open(folder, key)) {
        const auto json = file->section<char>("tokenizer");
        return parse_tokenizer_json({json.data(), json.size()}, (folder / key.file_name()).string());
    }
    auto tokenizer = learn(context, reading, layout);
    const std::string json = tokenizer->to_json();
    CacheWriter writer(folder, key);
    writer.section("tokenizer", std::vector<char>(json.begin(), json.end()));
    writer.commit();
    return tokenizer;
}

std::string config_json(const Tokenizer& tokenizer, const TokenizerSpec& spec, std::int64_t max_length) {
    nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"model_max_length", max_length},
                                   {"clean_up_tokenization_spaces", false}};
    const auto name = [&](const char* key, std::int32_t id) {
        for (const NamedId& entry : spec.vocab)
            if (entry.id == id) json[key] = entry.token;
        for (const AddedToken& entry : spec.added_tokens)
            if (entry.id == id) json[key] = entry.content;
    };
    name("unk_token", tokenizer.unk_id());
    name("pad_token", tokenizer.pad_id());
    name("cls_token", tokenizer.cls_id());
    name("sep_token", tokenizer.sep_id());
    for (const AddedToken& entry : spec.added_tokens)
        if (entry.content == "[MASK]" || entry.content == "<mask>") json["mask_token"] = entry.content;
    return json_string(json, 2) + "\n";
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const Context& context, const ReadOptions& reading) {
    if (!reading.data.empty()) {
        const Layout layout = find_layout(reading);
        if (layout.format == DataFormat::kSparse) {
            if (is_encoder_folder(reading.encoder) && holds_tokenizer(reading.encoder) &&
                reading.tokenizer == "auto") {
                auto of_run = load_tokenizer(context, reading.encoder);
                if (is_number_tokenizer(*of_run)) return of_run;  // of a run of features
            }
            if (is_encoder_folder(reading.encoder) || reading.tokenizer != "auto")
                throw ConfigError(fmt::format(
                    "{}: bag-of-words features have no text: expected encoder linear, bag or that of a "
                    "run of features, and tokenizer auto, found "
                    "{} and {}",
                    reading.data, reading.encoder, reading.tokenizer));
            const auto shape =
                join_sparse_shapes(context, {layout.train.text, layout.test.text, layout.validation.text});
            return number_tokenizer(shape.features);
        }
    }
    if (reading.tokenizer != "auto") return load_tokenizer(context, reading.tokenizer);
    // Of a kind that cannot be read, load_tokenizer says so: to learn another vocabulary would be wrong.
    if (is_encoder_folder(reading.encoder) && holds_tokenizer(reading.encoder))
        return load_tokenizer(context, reading.encoder);
    return learn_or_reuse(context, reading);
}

std::unique_ptr<Tokenizer> stored_tokenizer(const InputFolder& checkpoint) {
    constexpr const char* kName = "tokenizer.json";
    if (!checkpoint.has(kName))
        throw DataError(fmt::format("{}: expected {}, found none; the checkpoint is damaged",
                                    checkpoint.path().string(), kName));
    return parse_tokenizer_json(checkpoint.read(kName), (checkpoint / kName).string());
}

void save_tokenizer(const fs::path& folder, const Tokenizer& tokenizer, std::int64_t max_length) {
    const std::string json = tokenizer.to_json();
    write_file_atomically(folder / "tokenizer.json", json);
    write_file_atomically(folder / "tokenizer_config.json",
                          config_json(tokenizer, read_tokenizer_json(json, "tokenizer.json"), max_length));
}

}  // namespace elmo
