// Any bytes as an old sparse file: sizes from header or rows, then labels, features and their tokens. Reading
// ends in numbers within the sizes, or in an elmo::Error.
#include <cstdint>
#include <cstdlib>

#include "elmo/error.h"
#include "memory_file.h"
#include "quiet.h"
#include "sources/matrices/sparse_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const elmo::fuzz::MemoryFile file(data, size);
    try {
        const elmo::SparseFileShape shape = elmo::read_sparse_shape(elmo::quiet(), file.path());
        const auto reader = elmo::open_sparse_rows(file.path());
        elmo::SparseRow labels, features;
        elmo::ImportCounts counts;
        std::vector<std::int32_t> tokens;
        elmo::SparseRules rules;
        rules.mend = true;
        while (const auto record = reader->next()) {
            parse_sparse_record(*record, shape, rules, &labels, &features, counts);
            for (const std::uint32_t label : labels.indices)
                if (label >= shape.labels) std::abort();
            tokens.clear();
            append_feature_tokens(features, tokens);
            if (tokens.size() < features.indices.size() || tokens.size() > 8 * features.indices.size())
                std::abort();
            for (const std::int32_t token : tokens)
                if (token < 0 || token >= shape.features) std::abort();
        }
    } catch (const elmo::Error&) {
    }
    return 0;
}
