#include "data/token_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <memory>

#include "base/log.h"
#include "base/text_util.h"
#include "data/block_pipeline.h"
#include "data/named_labels.h"
#include "data/ragged_writer.h"
#include "data/row_source.h"
#include "data/sparse_source.h"
#include "elmo/error.h"

namespace elmo {
namespace fs = std::filesystem;

std::optional<CacheFile>& TokenCache::of(SplitName split) {
    return split == SplitName::kTrain ? train : split == SplitName::kTest ? test : validation;
}

namespace {

struct TokenBlock {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::int64_t replaced = 0, cut = 0;
};

// The tokens file of one split.
class TokenFileWriter {
  public:
    TokenFileWriter(const fs::path& folder, const CacheKey& key)
        : file_(folder, key), rows_(file_, "tokens") {}

    void add(const TokenBlock& block) {
        rows_.add(std::span<const std::int32_t>(block.ids), block.lengths);
        replaced_ += block.replaced;
        cut_ += block.cut;
    }
    void finish() {
        rows_.finish();
        file_.section("stats", std::vector<TokenStats>{{replaced_, cut_}});
        file_.commit();
    }

  private:
    CacheWriter file_;
    RaggedWriter<std::int32_t> rows_;
    std::int64_t replaced_ = 0, cut_ = 0;
};

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

// One pass over a source; a null writer's rows are left out. `test` is used by plain files alone.
void import_texts(const Config& config, const RowSource& source, const Tokenizer& tokenizer,
                  double test_share, const std::string& title, TokenFileWriter* train,
                  TokenFileWriter* test) {
    struct Blocks {
        TokenBlock train, test;
    };
    const auto reader = source.open();
    Progress progress(title, reader->total_bytes(), "bytes");
    for_each_block<Blocks>(
        *reader,
        [&](const RecordBlock& records, Blocks& blocks) {
            blocks = {};
            std::vector<std::int32_t> ids;
            visit_texts(records, source, encoding_of(config), [&](const std::string& text, bool mended) {
                const bool is_test = split_of_text(text, test_share) == SplitName::kTest;
                if ((is_test ? test : train) == nullptr) return;
                TokenBlock& block = is_test ? blocks.test : blocks.train;
                const std::int64_t whole = tokenizer.encode(text, config.max_length, ids);
                block.ids.insert(block.ids.end(), ids.begin(), ids.end());
                block.lengths.push_back(static_cast<std::int64_t>(ids.size()));
                block.replaced += mended;
                block.cut += whole > static_cast<std::int64_t>(ids.size());
            });
        },
        [&](const Blocks& blocks) {
            if (train != nullptr) train->add(blocks.train);
            if (test != nullptr) test->add(blocks.test);
            progress.update(reader->bytes_read());
        });
    progress.finish();
}

// Bag-of-words features as tokens. They have no order, so none is cut.
void import_features(const Config& config, const fs::path& file, const Tokenizer& tokenizer,
                     TokenFileWriter& writer) {
    const auto reader = open_sparse_rows(file);
    SparseFileShape shape;
    shape.labels = std::numeric_limits<std::uint32_t>::max();
    shape.features = tokenizer.vocab_size() - 4;  // without the special tokens
    Progress progress("reading features", reader->total_bytes(), "bytes");
    for_each_block<TokenBlock>(
        *reader,
        [&](const RecordBlock& records, TokenBlock& block) {
            block = {};
            SparseRules rules;
            rules.mend = config.allow_repeated_labels;
            SparseRow features;
            ImportCounts ignored;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                parse_sparse_record(records.record(i), shape, rules, nullptr, &features, ignored);
                const auto before = block.ids.size();
                block.ids.push_back(tokenizer.cls_id());  // as a text of feature numbers would have it
                append_feature_tokens(features, block.ids);
                block.ids.push_back(tokenizer.sep_id());
                block.lengths.push_back(static_cast<std::int64_t>(block.ids.size() - before));
            }
        },
        [&](const TokenBlock& block) {
            writer.add(block);
            progress.update(reader->bytes_read());
        });
    progress.finish();
}

CacheKey tokens_key(const Config& config, const Layout& layout, const Tokenizer& tokenizer, SplitName split) {
    CacheKey key(layout.data, fmt::format("{}.tokens", name_of(split)));
    key.add("tokenizer", fmt::format("{}", tokenizer.fingerprint()));
    key.add("max_length", fmt::format("{}", config.max_length));
    add_row_options(config, layout, key);
    key.add_file(layout.files(split).text);
    return key;
}

}  // namespace

TokenCache open_token_cache(const Config& config, const Layout& layout, const fs::path& folder,
                            const Tokenizer& tokenizer, const std::vector<SplitName>& splits) {
    struct Work {
        SplitName split;
        CacheKey key;  // of the sources as they were before reading
        std::unique_ptr<TokenFileWriter> writer;
    };
    TokenCache cache;
    std::vector<Work> missing;
    for (const SplitName split : splits) {
        CacheKey key = tokens_key(config, layout, tokenizer, split);
        std::string why;
        cache.of(split) = CacheFile::open(folder, key, &why);
        if (cache.of(split)) continue;
        log_debug(fmt::format("importing the {} texts: {}", name_of(split), why));
        auto writer = std::make_unique<TokenFileWriter>(folder, key);
        missing.push_back({split, std::move(key), std::move(writer)});
    }
    cache.reused = missing.empty();

    // Training and test rows of one file come from one pass, everything else from a file of its own.
    TokenFileWriter *train = nullptr, *test = nullptr;
    for (Work& work : missing) {
        if (layout.splits_by_hash() && work.split != SplitName::kValidation) {
            (work.split == SplitName::kTrain ? train : test) = work.writer.get();
        } else if (layout.format == DataFormat::kSparse) {
            import_features(config, layout.files(work.split).text, tokenizer, *work.writer);
        } else {
            import_texts(config, *open_texts(layout, work.split), tokenizer, 0,
                         fmt::format("tokenizing {}", name_of(work.split)), work.writer.get(), nullptr);
        }
    }
    if (train != nullptr || test != nullptr)
        import_texts(config, *open_texts(layout, SplitName::kTrain), tokenizer, layout.test_share,
                     "tokenizing", train, test);
    for (Work& work : missing) {
        work.writer->finish();
        cache.of(work.split) = CacheFile::read_back(folder, work.key);
    }
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

SplitTexts::SplitTexts(const Config& config, SplitName split) : impl_(std::make_unique<Impl>()) {
    Impl& impl = *impl_;
    impl.layout = find_layout(config);
    if (impl.layout.files(split).text.empty())
        throw DataError(fmt::format("{}: expected {} texts, found none", impl.layout.data.string(),
                                    split == SplitName::kTrain ? "training" : name_of(split)));
    impl.source = open_texts(impl.layout, split);
    impl.reader = impl.source->open();
    const Encoding encoding = encoding_of(config);
    const bool all = !impl.layout.splits_by_hash() || split == SplitName::kValidation;
    impl.pipeline = std::make_unique<BlockPipeline<Impl::Texts>>(
        *impl.reader, [&impl, encoding, all, split](const RecordBlock& records, Impl::Texts& texts) {
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
