#include "linear/trees/label_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "numerics/philox.h"

namespace elmo {
namespace {

constexpr std::size_t kLargestParts = 256;  // of a label vector
constexpr int kRounds = 10;
constexpr double kLeastGain = 1e-4;
constexpr int kBranchBits = 4;  // 16 children at most, but for leaves

// Dense sums over columns that forget themselves: only what was touched is cleared.
struct DenseSum {
    std::vector<float> values;
    std::vector<std::int32_t> touched;  // each once
    std::vector<std::uint64_t> seen;    // a bit per column: a sum may pass through zero

    void need(std::int64_t columns) {
        values.resize(static_cast<std::size_t>(columns));
        seen.resize(static_cast<std::size_t>(columns + 63) / 64);
    }
    void add(const SparseRows& rows, std::int64_t row, float scale) {
        const auto columns = rows.columns_of(row);
        const auto parts = rows.values_of(row);
        for (std::size_t i = 0; i < columns.size(); ++i) {
            float& value = values[static_cast<std::size_t>(columns[i])];
            if (value == 0) touch(columns[i]);
            value += scale * parts[i];
        }
    }
    void touch(std::int32_t column) {
        std::uint64_t& word = seen[static_cast<std::size_t>(column) / 64];
        const std::uint64_t bit = std::uint64_t{1} << (column % 64);
        if ((word & bit) == 0) touched.push_back(column);
        word |= bit;
    }
    // Puts `touched` into the order of columns: by the bits where that is less work than sorting.
    float length() {
        if (touched.size() < seen.size() / 4) {
            std::sort(touched.begin(), touched.end());
        } else {
            touched.clear();
            for (std::size_t i = 0; i < seen.size(); ++i)
                for (std::uint64_t word = seen[i]; word != 0; word &= word - 1)
                    touched.push_back(static_cast<std::int32_t>(i * 64) + std::countr_zero(word));
        }
        double sum = 0;
        for (const std::int32_t c : touched) {
            const double value = values[static_cast<std::size_t>(c)];
            sum += value * value;
        }
        return static_cast<float>(std::sqrt(sum));
    }
    void clear() {
        for (const std::int32_t c : touched) {
            values[static_cast<std::size_t>(c)] = 0;
            seen[static_cast<std::size_t>(c) / 64] = 0;
        }
        touched.clear();
    }
};

struct SplitScratch {
    DenseSum direction, half;
    std::vector<std::pair<float, std::int32_t>> scores;

    void need(std::int64_t columns) {
        direction.need(columns);
        half.need(columns);
    }
};

float product(const SparseRows& vectors, std::int64_t label, const std::vector<float>& dense) {
    const auto columns = vectors.columns_of(label);
    const auto values = vectors.values_of(label);
    float sum = 0;
    for (std::size_t i = 0; i < columns.size(); ++i)
        sum += dense[static_cast<std::size_t>(columns[i])] * values[i];
    return sum;
}

// Orders labels so that the first half is one cluster and the second the other.
void split(const SparseRows& vectors, std::span<std::int32_t> labels, std::uint64_t seed, std::uint64_t place,
           SplitScratch& scratch) {
    const std::size_t n = labels.size(), half = n / 2;
    if (n < 2) return;
    const auto draw =
        philox4x32({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0},
                   static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    const std::size_t first = draw[0] % n;
    scratch.direction.add(vectors, labels[first], 1);
    // The other end is a label that is least like the first: two of one kind would tell nothing apart.
    std::size_t second = first;
    float least = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = (draw[1] % n + i) % n;
        const float likeness = product(vectors, labels[at], scratch.direction.values);
        if (at != first && (second == first || likeness < least)) {
            second = at;
            least = likeness;
        }
    }
    scratch.direction.add(vectors, labels[second], -1);
    double before = -1e30;
    for (int round = 0; round < kRounds; ++round) {
        scratch.scores.resize(n);
        for (std::size_t i = 0; i < n; ++i)
            scratch.scores[i] = {product(vectors, labels[i], scratch.direction.values), labels[i]};
        scratch.direction.clear();
        std::sort(scratch.scores.begin(), scratch.scores.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : a.second < b.second;
        });
        double gain = 0;
        for (std::size_t i = 0; i < n; ++i) {
            labels[i] = scratch.scores[i].second;
            gain += i < half ? scratch.scores[i].first : -scratch.scores[i].first;
        }
        gain /= static_cast<double>(n);
        if (round > 0 && gain - before < kLeastGain) break;
        before = gain;
        if (round + 1 == kRounds) break;
        for (const bool is_first : {true, false}) {
            for (std::size_t i = is_first ? 0 : half; i < (is_first ? half : n); ++i)
                scratch.half.add(vectors, labels[i], 1);
            const float length = scratch.half.length();
            for (const std::int32_t c : scratch.half.touched) {
                float& value = scratch.direction.values[static_cast<std::size_t>(c)];
                if (length > 0)
                    value += (is_first ? 1 : -1) * scratch.half.values[static_cast<std::size_t>(c)] / length;
                scratch.direction.touch(c);
            }
            scratch.half.clear();
        }
    }
    scratch.direction.clear();
}

}  // namespace

SparseRows label_vectors(const Context& context, const SparseRows& rows, const RowsOfLabels& labels,
                         std::int64_t num_columns) {
    constexpr std::int64_t kChunk = 256;
    const std::int64_t chunks = (labels.labels() + kChunk - 1) / kChunk;
    std::vector<SparseRows> parts(static_cast<std::size_t>(chunks));
    std::vector<DenseSum> sums(static_cast<std::size_t>(context.num_threads()));
    context.threads().parallel_for(chunks, [&](std::int64_t chunk) {
        DenseSum& sum = sums[static_cast<std::size_t>(thread_index())];
        sum.need(num_columns);
        SparseRows& part = parts[static_cast<std::size_t>(chunk)];
        for (std::int64_t label = chunk * kChunk; label < std::min((chunk + 1) * kChunk, labels.labels());
             ++label) {
            for (const std::int32_t row : labels.of(label)) sum.add(rows, row, 1);
            const float length = sum.length();
            std::vector<std::int32_t> kept = sum.touched;
            if (kept.size() > kLargestParts) {
                std::nth_element(kept.begin(), kept.begin() + kLargestParts, kept.end(),
                                 [&](std::int32_t a, std::int32_t b) {
                                     const float x = sum.values[static_cast<std::size_t>(a)],
                                                 y = sum.values[static_cast<std::size_t>(b)];
                                     return x != y ? x > y : a < b;
                                 });
                kept.resize(kLargestParts);
                std::sort(kept.begin(), kept.end());
            }
            for (const std::int32_t c : kept) {
                part.columns.push_back(c);
                part.values.push_back(length > 0 ? sum.values[static_cast<std::size_t>(c)] / length : 0);
            }
            part.offsets.push_back(static_cast<std::int64_t>(part.columns.size()));
            sum.clear();
        }
    });
    SparseRows all;
    for (const SparseRows& part : parts) {
        const std::int64_t base = all.offsets.back();
        for (std::int64_t i = 1; i <= part.rows(); ++i)
            all.offsets.push_back(base + part.offsets[static_cast<std::size_t>(i)]);
        all.columns.insert(all.columns.end(), part.columns.begin(), part.columns.end());
        all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    }
    return all;
}

LabelTree build_label_tree(const Context& context, const SparseRows& vectors, std::int64_t num_columns,
                           std::int64_t leaf, std::uint64_t seed) {
    std::vector<std::int32_t> labels(static_cast<std::size_t>(vectors.rows()));
    std::iota(labels.begin(), labels.end(), 0);
    std::vector<std::size_t> cuts = {0, labels.size()};  // clusters of the level
    std::vector<SplitScratch> scratch(static_cast<std::size_t>(context.num_threads()));
    int depth = 0;
    // Halves differ by one label at most, so all clusters reach the size of a leaf on the same level.
    for (; static_cast<std::int64_t>(labels.size() + (std::size_t{1} << depth) - 1) >> depth > leaf;
         ++depth) {
        const std::size_t clusters = cuts.size() - 1;
        context.threads().parallel_for(static_cast<std::int64_t>(clusters), [&](std::int64_t i) {
            SplitScratch& own = scratch[static_cast<std::size_t>(thread_index())];
            own.need(num_columns);
            const std::size_t begin = cuts[static_cast<std::size_t>(i)];
            split(vectors, std::span(labels).subspan(begin, cuts[static_cast<std::size_t>(i) + 1] - begin),
                  seed, clusters + static_cast<std::uint64_t>(i), own);
        });
        std::vector<std::size_t> finer;
        for (std::size_t i = 0; i < clusters; ++i) {
            finer.push_back(cuts[i]);
            finer.push_back(cuts[i] + (cuts[i + 1] - cuts[i]) / 2);
        }
        finer.push_back(labels.size());
        cuts = std::move(finer);
    }
    LabelTree tree;
    for (int above = 0; above < depth;) {
        const int bits = (depth - above) % kBranchBits != 0 ? (depth - above) % kBranchBits : kBranchBits;
        std::vector<LabelTree::Node> level(std::size_t{1} << above);
        for (std::size_t i = 0; i < level.size(); ++i)
            for (std::size_t k = 0; k < std::size_t{1} << bits; ++k)
                level[i].push_back(static_cast<std::int32_t>((i << bits) + k));
        tree.levels.push_back(std::move(level));
        above += bits;
    }
    std::vector<LabelTree::Node> leaves;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        leaves.emplace_back(labels.begin() + static_cast<std::ptrdiff_t>(cuts[i]),
                            labels.begin() + static_cast<std::ptrdiff_t>(cuts[i + 1]));
        std::sort(leaves.back().begin(), leaves.back().end());
    }
    tree.levels.push_back(std::move(leaves));
    return tree;
}

}  // namespace elmo
