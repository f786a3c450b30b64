#include "data/token_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "base/progress.h"
#include "base/text_util.h"
#include "cache/token_parts.h"
#include "config/rows_path.h"
#include "data/named_labels.h"
#include "elmo/error.h"
#include "sources/matrices/sparse_source.h"
#include "sources/records/block_pipeline.h"
#include "sources/row_source.h"
#include "text/numbers.h"

namespace elmo {
namespace fs = std::filesystem;

std::optional<CacheFile>& TokenCache::of(SplitName split) {
    return split == SplitName::kTrain ? train : split == SplitName::kTest ? test : validation;
}

namespace {

// Each text of a block: visit(text, was it mended).
template <class Visit>
void visit_texts(const RecordBlock& records, const RowSource& source, Encoding encoding, const Visit& visit) {
    const auto parser = source.parser();
    std::string storage, text;
    for (std::int64_t i = 0; i < records.size(); ++i) {
        Record record = records.record(i);
        ImportCounts mended;
        record.bytes = valid_utf8(record, encoding, storage, mended);
        parser->text(record, text);
        visit(text, mended.replaced_utf8 > 0);
    }
}

// Skips the records that an interrupted import has done, in whole blocks.
void skip_records(RecordReader& reader, std::int64_t records) {
    RecordBlock block;
    while (records > 0 && reader.next_block(block)) records -= block.size();
    if (records != 0) throw Error("an import that was interrupted cannot be continued; delete the cache");
}

// One pass over a source. Of a file that holds training and test rows, those of `wanted` are taken.
void import_texts(const Context& context, const ReadOptions& reading, const RowSource& source,
                  const Tokenizer& tokenizer, const HashedShare& test_share,
                  const std::vector<SplitName>& wanted, const std::string& title, TokenParts& parts) {
    struct Blocks {
        TokenBlock of[2];
        std::int64_t records = 0;
    };
    const auto reader = source.open();
    skip_records(*reader, parts.records());
    Progress progress(context, title, reader->total_bytes(), "bytes");
    std::vector<const TokenBlock*> pieces(wanted.size());
    for_each_block<Blocks>(
        context, *reader,
        [&](const RecordBlock& records, Blocks& blocks) {
            blocks = {};
            blocks.records = records.size();
            std::vector<std::int32_t> ids;
            visit_texts(records, source, encoding_of(reading), [&](const std::string& text, bool mended) {
                std::size_t which = 0;
                if (test_share.share > 0) {
                    const SplitName split = split_of_text(text, test_share);
                    which = static_cast<std::size_t>(std::find(wanted.begin(), wanted.end(), split) -
                                                     wanted.begin());
                    if (which == wanted.size()) return;
                }
                TokenBlock& block = blocks.of[which];
                const std::int64_t whole = tokenizer.encode(text, reading.max_length, ids, reading.windows);
                block.ids.insert(block.ids.end(), ids.begin(), ids.end());
                block.lengths.push_back(static_cast<std::int64_t>(ids.size()));
                block.replaced += mended;
                block.cut += whole > static_cast<std::int64_t>(ids.size());
            });
        },
        [&](const Blocks& blocks, std::int64_t bytes) {
            for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = &blocks.of[i];
            parts.add(blocks.records, pieces);
            progress.update(bytes);
        });
    progress.finish();
}

// Bag-of-words features as tokens. They have no order, so none is cut.
void import_features(const Context& context, const ReadOptions& reading, const fs::path& file,
                     const Tokenizer& tokenizer, TokenParts& parts) {
    if (!is_number_tokenizer(tokenizer))
        throw DataError(
            fmt::format("{}: expected texts, which the run was trained on, found bag-of-words features "
                        "('label,label feature:value ...')",
                        file.string()));
    const auto reader = open_sparse_rows(file);
    skip_records(*reader, parts.records());
    const std::int64_t known = tokenizer.vocab_size() - 4;  // without the special tokens
    SparseFileShape shape;
    shape.labels = shape.features = std::numeric_limits<std::uint32_t>::max();
    Progress progress(context, "reading features", reader->total_bytes(), "bytes");
    for_each_block<TokenBlock>(
        context, *reader,
        [&](const RecordBlock& records, TokenBlock& block) {
            block = {};
            SparseRules rules;
            rules.mend = reading.allow_repeated_labels;
            SparseRow features;
            ImportCounts ignored;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                parse_sparse_record(records.record(i), shape, rules, nullptr, &features, ignored);
                if (!features.indices.empty() && features.indices.back() >= known)
                    fail(records.record(i),
                         fmt::format("features below {}, as many as the header or the run has", known),
                         fmt::format("{}", features.indices.back()));
                const auto before = block.ids.size();
                block.ids.push_back(tokenizer.cls_id());  // as a text of feature numbers would have it
                append_feature_tokens(features, block.ids);
                block.ids.push_back(tokenizer.sep_id());
                block.lengths.push_back(static_cast<std::int64_t>(block.ids.size() - before));
            }
        },
        [&](const TokenBlock& block, std::int64_t bytes) {
            parts.add(static_cast<std::int64_t>(block.lengths.size()), {&block});
            progress.update(bytes);
        });
    progress.finish();
}

CacheKey tokens_key(const ReadOptions& reading, const Layout& layout, const Tokenizer& tokenizer,
                    SplitName split) {
    CacheKey key(layout.data, fmt::format("{}.tokens", name_of(split)));
    key.add("tokenizer", fmt::format("{}", tokenizer.fingerprint()));
    key.add("max_length", fmt::format("{}", reading.max_length));
    if (reading.windows > 1) key.add("windows", fmt::format("{}", reading.windows));
    add_row_options(reading, layout, key);
    key.add_file(layout.files(split).text);
    return key;
}

}  // namespace

TokenCache open_token_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const fs::path& folder, const Tokenizer& tokenizer,
                            const std::vector<SplitName>& splits) {
    // Keys describe the sources as they were before reading.
    TokenCache cache;
    std::vector<std::vector<SplitName>> passes;
    for (const SplitName split : splits) {
        std::string why;
        cache.of(split) = CacheFile::open(folder, tokens_key(reading, layout, tokenizer, split), &why);
        if (cache.of(split)) continue;
        context.debug(fmt::format("importing the {} texts: {}", name_of(split), why));
        // Training and test rows of one file come from one pass, everything else from a file of its own.
        const bool joins = layout.splits_by_hash() && split == SplitName::kTest && !passes.empty() &&
                           passes.back().front() == SplitName::kTrain;
        if (joins)
            passes.back().push_back(split);
        else
            passes.push_back({split});
    }
    cache.reused = passes.empty();
    for (const std::vector<SplitName>& wanted : passes) {
        std::vector<CacheKey> keys;
        for (const SplitName split : wanted) keys.push_back(tokens_key(reading, layout, tokenizer, split));
        TokenParts parts(context, folder, keys);
        const bool by_hash = layout.splits_by_hash() && wanted[0] != SplitName::kValidation;
        if (layout.format == DataFormat::kSparse)
            import_features(context, reading, layout.files(wanted[0]).text, tokenizer, parts);
        else
            import_texts(context, reading, *open_texts(layout, wanted[0]), tokenizer,
                         by_hash ? layout.test_share : HashedShare(), wanted,
                         wanted.size() > 1 || is_rows_path(layout.data)
                             ? std::string("tokenizing")
                             : fmt::format("tokenizing {}", name_of(wanted[0])),
                         parts);
        parts.finish();
        for (std::size_t i = 0; i < wanted.size(); ++i)
            cache.of(wanted[i]) = CacheFile::read_back(folder, keys[i]);
    }
    // Parts of a pass that was killed when some of its files were complete: it will not run again in this
    // form.
    const auto clear = [&](const std::vector<SplitName>& pass) {
        std::vector<CacheKey> keys;
        for (const SplitName split : pass) keys.push_back(tokens_key(reading, layout, tokenizer, split));
        TokenParts::clear(folder, keys);
    };
    for (const SplitName split : splits) clear({split});
    if (layout.splits_by_hash() && (cache.train || cache.test)) clear({SplitName::kTrain, SplitName::kTest});
    return cache;
}

struct SplitTexts::Impl {
    using Texts = std::vector<std::string>;

    Layout layout;
    std::unique_ptr<RowSource> source;
    std::unique_ptr<RecordReader> reader;
    std::unique_ptr<BlockPipeline<Texts>> pipeline;
    const Texts* block = nullptr;
    std::size_t at = 0;
};

SplitTexts::SplitTexts(const Context& context, const ReadOptions& reading, SplitName split)
    : impl_(std::make_unique<Impl>()) {
    Impl& impl = *impl_;
    impl.layout = find_layout(reading);
    if (impl.layout.files(split).text.empty())
        throw DataError(fmt::format("{}: expected {} texts, found none", impl.layout.data.string(),
                                    split == SplitName::kTrain ? "training" : name_of(split)));
    impl.source = open_texts(impl.layout, split);
    impl.reader = impl.source->open();
    const Encoding encoding = encoding_of(reading);
    const bool all = !impl.layout.splits_by_hash() || split == SplitName::kValidation;
    impl.pipeline = std::make_unique<BlockPipeline<Impl::Texts>>(
        context, *impl.reader, [&impl, encoding, all, split](const RecordBlock& records, Impl::Texts& texts) {
            texts.clear();
            visit_texts(records, *impl.source, encoding, [&](const std::string& text, bool) {
                if (all || split_of_text(text, impl.layout.test_share) == split) texts.push_back(text);
            });
        });
}

SplitTexts::~SplitTexts() = default;

bool SplitTexts::next(std::string_view& text) {
    while (impl_->block == nullptr || impl_->at == impl_->block->size()) {
        impl_->block = impl_->pipeline->next();
        impl_->at = 0;
        if (impl_->block == nullptr) return false;
    }
    text = (*impl_->block)[impl_->at++];
    return true;
}

}  // namespace elmo
