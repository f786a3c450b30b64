// The sparse matrix of the XMC repository: a header `rows columns`, then one line per row of `index:value`
// entries, indices from 0. An empty line is an empty row; a missing value is 1. Label matrices and stored
// predictions have this form.
#pragma once

#include <cstdint>
#include <vector>

#include "sources/records/record.h"

namespace elmo {

struct SparseHeader {
    std::int64_t rows = 0;
    std::int64_t columns = 0;  // below 2^32
};

struct SparseRow {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
};

struct SparseRules {
    bool ascending = true;    // indices must ascend strictly; when off any order is kept as it stands
    bool mend = false;        // with ascending: sort, merge repeated indices (the first stays) and count
    bool keep_zeros = false;  // an entry with value 0 is an entry (a score), not an absence (a label)
};

SparseHeader parse_sparse_header(const Record& record);
// Replaces `row` by the entries of the record. DataError for anything malformed, for an index that is not
// below `columns`, and for a repeated index unless rules.mend.
void parse_sparse_row(const Record& record, std::int64_t columns, const SparseRules& rules, SparseRow& row,
                      ImportCounts& counts);
// Puts entries that came from elsewhere under the rules: order, repeated indices, zeros.
void tidy_sparse_row(const Record& record, const SparseRules& rules, SparseRow& row, ImportCounts& counts);

}  // namespace elmo
