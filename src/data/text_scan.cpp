#include "data/text_scan.h"

#include <fmt/format.h>

#include "base/progress.h"
#include "base/text_util.h"
#include "data/named_labels.h"
#include "io/checksum.h"
#include "sources/records/block_pipeline.h"
#include "sources/row_source.h"
#include "sources/tables/label_fields.h"

namespace elmo {

TextScan scan_texts(const Context& context, const ReadOptions& reading, const Layout& layout, SplitName split,
                    const Tokenizer& tokenizer) {
    TextScan all;
    const auto source = open_texts(layout, split);
    const auto reader = source->open();
    Encoding encoding = encoding_of(reading);
    encoding.allow_invalid = true;
    const bool by_hash = layout.splits_by_hash() && split != SplitName::kValidation;
    Progress progress(context, fmt::format("looking at {}", name_of(split)), reader->total_bytes(), "bytes");
    for_each_block<TextScan>(
        context, *reader,
        [&](const RecordBlock& records, TextScan& scan) {
            scan = {};
            const auto parser = source->parser();
            std::string storage, text;
            std::vector<std::int32_t> ids;
            for (std::int64_t i = 0; i < records.size(); ++i) {
                const Record raw = records.record(i);
                Record record = raw;
                ImportCounts mended;
                record.bytes = valid_utf8(raw, encoding, storage, mended);
                parser->text(record, text);
                if (by_hash && split_of_text(text, layout.test_share) != split) continue;
                if (mended.replaced_utf8 > 0) {
                    if (scan.not_utf8++ == 0) scan.first_not_utf8 = fmt::format("{}:{}", raw.file, raw.line);
                    scan.like_latin1 += looks_like_latin1(raw.bytes);
                }
                scan.empty += text.find_first_not_of(" \t\r\n") == text.npos;
                scan.hashes.push_back(
                    hash64(layout.test_share.trimmed ? trim(text) : std::string_view(text)));
                scan.tokens.push_back(static_cast<std::int32_t>(tokenizer.encode(text, 0, ids)));
            }
        },
        [&](const TextScan& scan, std::int64_t bytes) {
            all.hashes.insert(all.hashes.end(), scan.hashes.begin(), scan.hashes.end());
            all.tokens.insert(all.tokens.end(), scan.tokens.begin(), scan.tokens.end());
            all.empty += scan.empty;
            if (all.not_utf8 == 0) all.first_not_utf8 = scan.first_not_utf8;
            all.not_utf8 += scan.not_utf8;
            all.like_latin1 += scan.like_latin1;
            progress.update(bytes);
        });
    progress.finish();
    return all;
}

}  // namespace elmo
