// Views of an imported data set: token ids and labels of the rows of one split. Nothing here owns memory.
#pragma once

#include <cstdint>
#include <span>

namespace elmo {

// Rows of different lengths, one after another: row i is values[offsets[i], offsets[i + 1]).
template <class T>
struct RaggedRows {
    std::span<const std::int64_t> offsets;  // [rows + 1]; empty where there are no rows at all
    std::span<const T> values;

    std::int64_t rows() const { return offsets.empty() ? 0 : static_cast<std::int64_t>(offsets.size()) - 1; }
    std::int64_t length(std::int64_t i) const { return offsets[i + 1] - offsets[i]; }
    std::span<const T> row(std::int64_t i) const { return values.subspan(offsets[i], length(i)); }
};

using TokenRows = RaggedRows<std::int32_t>;
// Label ids ascend within a row.
using LabelMatrix = RaggedRows<std::uint32_t>;

enum class SplitName { kTrain, kTest, kValidation };
inline constexpr SplitName kAllSplits[] = {SplitName::kTrain, SplitName::kTest, SplitName::kValidation};
const char* name_of(SplitName split);  // "train", "test", "validation"

struct Split {
    bool present = false;  // the data set has such a split
    TokenRows tokens;      // as many rows as labels, or none where the split was opened without tokens
    LabelMatrix labels;
    // Soft targets of the labels, beside labels.values; empty where every label is a full positive.
    std::span<const float> label_targets;
    LabelMatrix filter;  // pairs to leave out of predictions; as many rows as labels, or none

    std::int64_t rows() const { return labels.rows(); }
};

}  // namespace elmo
