// Any bytes as a sparse matrix: a header line, then rows, under every rule. Parsing ends in entries that keep
// the rule's promise or in an elmo::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "elmo/error.h"
#include "sources/matrices/sparse_matrix.h"

namespace {

void check_row(const elmo::Record& record, std::int64_t columns, const elmo::SparseRules& rules) {
    elmo::SparseRow row;
    elmo::ImportCounts counts;
    try {
        parse_sparse_row(record, columns, rules, row, counts);
    } catch (const elmo::Error&) {
        return;
    }
    if (row.indices.size() != row.values.size()) std::abort();
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
        if (row.indices[i] >= columns) std::abort();
        if (rules.ascending && i > 0 && row.indices[i] <= row.indices[i - 1]) std::abort();
        if (!rules.keep_zeros && row.values[i] == 0) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    std::int64_t columns = 1000, line = 0;
    while (!rest.empty()) {
        const elmo::Record record{rest.substr(0, rest.find('\n')), ++line, "fuzz"};
        rest.remove_prefix(std::min(rest.size(), record.bytes.size() + 1));
        if (line == 1) {
            try {
                columns = parse_sparse_header(record).columns;
            } catch (const elmo::Error&) {
            }
            continue;
        }
        for (int rule = 0; rule < 8; ++rule)
            check_row(record, columns, {(rule & 1) != 0, (rule & 2) != 0, (rule & 4) != 0});
    }
    return 0;
}
