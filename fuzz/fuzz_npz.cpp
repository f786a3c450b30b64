// Any bytes as a zip archive of NumPy arrays: every member is read, and the whole as a label matrix. Reading
// ends in rows within the shape, or in an elmo::Error.
#include <cstdint>
#include <cstdlib>

#include "elmo/error.h"
#include "memory_file.h"
#include "sources/matrices/npz_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const elmo::fuzz::MemoryFile file(data, size);
    try {
        const elmo::ZipFile zip(file.path());
        for (const elmo::ZipMember& member : zip.members()) {
            try {
                char buffer[4096];
                const auto stream = zip.open(member);
                std::int64_t total = 0;
                while (const std::size_t n = stream->read(buffer, sizeof buffer)) total += n;
                if (total != member.bytes) std::abort();
            } catch (const elmo::Error&) {
            }
        }
        const elmo::NpzMatrix matrix(file.path());
        elmo::ImportCounts counts;
        elmo::SparseRules rules;
        rules.mend = true;
        std::int64_t rows = 0;
        matrix.read(rules, counts, [&](const elmo::SparseRow& row) {
            ++rows;
            for (std::size_t i = 0; i < row.indices.size(); ++i)
                if (row.indices[i] >= matrix.columns() || (i > 0 && row.indices[i] <= row.indices[i - 1]))
                    std::abort();
        });
        if (rows != matrix.rows()) std::abort();
    } catch (const elmo::Error&) {
    }
    return 0;
}
