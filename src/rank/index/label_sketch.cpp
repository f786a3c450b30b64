#include "rank/index/label_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clones.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "numerics/philox.h"

namespace elmo {
namespace {

constexpr std::int64_t kSampledLabels = 20'000;  // whose covariance is taken
constexpr int kIterations = 30;
constexpr double kRidge = 1e-2;  // of the mean variance of a text's element: texts are a sample too
constexpr std::int64_t kRowsAtOnce = 4096, kBlock = 2048, kSlices = 16;
constexpr std::int64_t kSampledBlock = 32;  // every so many blocks are sampled
constexpr int kLargestCode = 7, kCodeZero = 8, kLargestQuery = 127;

using Matrix = std::vector<float>;  // row after row

std::vector<std::int64_t> range(std::int64_t first, std::int64_t last, std::int64_t step = 1) {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = first; row < last; row += step) rows.push_back(row);
    return rows;
}

std::vector<float> mean_of(std::span<const float> rows, std::int64_t width) {
    std::vector<double> sum(static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < rows.size(); ++i) sum[i % sum.size()] += rows[i];
    const double count = static_cast<double>(rows.size()) / static_cast<double>(width);
    std::vector<float> mean;
    for (const double value : sum) mean.push_back(static_cast<float>(value / count));
    return mean;
}

void subtract(std::span<float> rows, std::span<const float> vector) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] -= vector[i % vector.size()];
}

// y += a x
ELMO_CLONES void add_scaled(float* y, float a, const float* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

double dot(const float* a, const float* b, std::int64_t count) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
}

// a [n, k] times b [k, m]
Matrix product(const Context& context, std::span<const float> a, std::span<const float> b, std::int64_t k,
               std::int64_t m) {
    const auto n = static_cast<std::int64_t>(a.size()) / k;
    Matrix result(static_cast<std::size_t>(n * m));
    context.threads().parallel_ranges(n, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            for (std::int64_t j = 0; j < k; ++j)
                add_scaled(&result[static_cast<std::size_t>(i * m)], a[static_cast<std::size_t>(i * k + j)],
                           &b[static_cast<std::size_t>(j * m)], m);
    });
    return result;
}

Matrix transposed(std::span<const float> a, std::int64_t cols) {
    const auto rows = static_cast<std::int64_t>(a.size()) / cols;
    Matrix result(a.size());
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j)
            result[static_cast<std::size_t>(j * rows + i)] = a[static_cast<std::size_t>(i * cols + j)];
    return result;
}

// Mean of the products of elements, [width, width].
Matrix covariance(const Context& context, std::span<const float> rows, std::int64_t width) {
    const Matrix turned = transposed(rows, width);
    const auto count = static_cast<std::int64_t>(rows.size()) / width;
    Matrix result = product(context, turned, rows, count, width);
    for (float& value : result) value /= static_cast<float>(count);
    return result;
}

// Rows made orthonormal, in order; one that depends on those before it becomes zero.
void orthonormalise(Matrix& rows, std::int64_t width) {
    const auto count = static_cast<std::int64_t>(rows.size()) / width;
    for (std::int64_t i = 0; i < count; ++i) {
        float* const row = &rows[static_cast<std::size_t>(i * width)];
        const double before = std::sqrt(dot(row, row, width));
        for (int pass = 0; pass < 2; ++pass)
            for (std::int64_t j = 0; j < i; ++j) {
                const float* const other = &rows[static_cast<std::size_t>(j * width)];
                add_scaled(row, -static_cast<float>(dot(row, other, width)), other, width);
            }
        const double size = std::sqrt(dot(row, row, width));
        const double scale = size > 1e-5 * before && size > 0 ? 1 / size : 0;
        for (std::int64_t d = 0; d < width; ++d) row[d] = static_cast<float>(row[d] * scale);
    }
}

// Solves m y = right, m [n, n] symmetric with a positive diagonal ridge, for each row of right [count, n].
void solve(std::vector<double> m, std::int64_t n, Matrix& right) {
    const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
        return m[static_cast<std::size_t>(i * n + j)];
    };
    double trace = 0;
    for (std::int64_t i = 0; i < n; ++i) trace += at(i, i);
    for (std::int64_t i = 0; i < n; ++i) at(i, i) += 1e-9 * trace + 1e-30;  // directions that are zero
    for (std::int64_t j = 0; j < n; ++j) {                                  // Cholesky
        for (std::int64_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
        at(j, j) = std::sqrt(std::max(at(j, j), 1e-30));
        for (std::int64_t i = j + 1; i < n; ++i) {
            for (std::int64_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
            at(i, j) /= at(j, j);
        }
    }
    std::vector<double> y(static_cast<std::size_t>(n));
    for (std::size_t row = 0; row < right.size(); row += static_cast<std::size_t>(n)) {
        for (std::int64_t i = 0; i < n; ++i) {
            double value = right[row + static_cast<std::size_t>(i)];
            for (std::int64_t k = 0; k < i; ++k) value -= at(i, k) * y[static_cast<std::size_t>(k)];
            y[static_cast<std::size_t>(i)] = value / at(i, i);
        }
        for (std::int64_t i = n; i-- > 0;) {
            double value = y[static_cast<std::size_t>(i)];
            for (std::int64_t k = i + 1; k < n; ++k) value -= at(k, i) * y[static_cast<std::size_t>(k)];
            y[static_cast<std::size_t>(i)] = value / at(i, i);
        }
        for (std::int64_t i = 0; i < n; ++i)
            right[row + static_cast<std::size_t>(i)] = static_cast<float>(y[static_cast<std::size_t>(i)]);
    }
}

// The directions of labels [dims, width] that carry most of the scores' variance: the leading eigenvectors of
// (covariance of texts) (covariance of labels), by orthogonal iteration.
Matrix leading_directions(const Context& context, std::span<const float> texts, std::span<const float> labels,
                          std::int64_t dims, std::int64_t width) {
    Matrix directions(static_cast<std::size_t>(dims * width));
    for (std::size_t i = 0; i < directions.size(); ++i) {
        const PhiloxBlock noise = noise_block(NoiseKey{1, 0, 0}, static_cast<std::int64_t>(i), 0);
        directions[i] = static_cast<float>(static_cast<std::int32_t>(noise[0])) * 0x1p-31f;
    }
    orthonormalise(directions, width);
    for (int i = 0; i < kIterations; ++i) {  // both are symmetric: rows times them, in turn
        directions =
            product(context, product(context, directions, labels, width, width), texts, width, width);
        orthonormalise(directions, width);
    }
    return directions;
}

struct OwnedSketch {
    std::vector<float> centre, project, scales, biases;
    std::vector<std::uint8_t> codes;
};

// Sets the codes of a label's coordinates: byte j of it is codes[j * kGroup]. Returns their scale.
float encode(std::span<const float> values, std::int64_t half, std::uint8_t* codes) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    const float scale = largest / kLargestCode, inverse = scale > 0 ? 1 / scale : 0;
    for (std::size_t j = 0; j < values.size(); ++j) {
        const int code = static_cast<int>(std::lrint(values[j] * inverse));
        const int stored = std::clamp(code, -kLargestCode, kLargestCode) + kCodeZero;
        const auto at = static_cast<std::int64_t>(j);
        std::uint8_t& byte = codes[(at < half ? at : at - half) * LabelSketch::kGroup];
        byte = static_cast<std::uint8_t>(byte | (at < half ? stored : stored << 4));
    }
    return scale;
}

// A text as the scan takes it: numbers for the low and the high half of the codes.
struct SketchedText {
    std::vector<std::int16_t> low, high;
    float scale = 0;
    std::int32_t zero = 0;  // what the codes' own zero adds
};

SketchedText sketch_text(const LabelSketch& sketch, std::span<const Bf16> text) {
    std::vector<float> centred;
    for (std::size_t d = 0; d < text.size(); ++d) centred.push_back(to_float(text[d]) - sketch.centre[d]);
    std::vector<float> values;
    float largest = 0;
    for (std::int64_t j = 0; j < sketch.dims; ++j) {
        values.push_back(static_cast<float>(
            dot(&sketch.project[static_cast<std::size_t>(j * sketch.width)], centred.data(), sketch.width)));
        if (std::isfinite(values.back())) largest = std::max(largest, std::abs(values.back()));
    }
    SketchedText result;
    result.low.resize(static_cast<std::size_t>(sketch.half()));
    result.high.resize(result.low.size());
    result.scale = largest / kLargestQuery;
    const float inverse = result.scale > 0 ? 1 / result.scale : 0;
    for (std::size_t j = 0; j < values.size(); ++j) {
        const float scaled = values[j] * inverse;
        const auto number = static_cast<std::int16_t>(
            std::isfinite(scaled) ? std::clamp(std::nearbyint(scaled), -127.0f, 127.0f) : 0.0f);
        (j < result.low.size() ? result.low[j] : result.high[j - result.low.size()]) = number;
        result.zero += kCodeZero * number;
    }
    return result;
}

// sums[l] = sum over j of code_lj times the text's number, of whole groups. Exact: eight pairs of products of
// at most 15 times 127 fit 16 bits.
ELMO_CLONES void scan(const std::uint8_t* codes, std::int64_t groups, std::int64_t half,
                      const std::int16_t* low, const std::int16_t* high, std::int32_t* sums) {
    constexpr std::int64_t kLanes = LabelSketch::kGroup, kPairs = 8;
    for (std::int64_t g = 0; g < groups; ++g) {
        std::int32_t total[kLanes] = {};
        for (std::int64_t first = 0; first < half; first += kPairs) {
            std::int16_t part[kLanes] = {};
            const std::int64_t last = first + kPairs < half ? first + kPairs : half;
            for (std::int64_t j = first; j < last; ++j) {
                const std::uint8_t* const bytes = codes + (g * half + j) * kLanes;
                const std::int16_t a = low[j], b = high[j];
                for (std::int64_t i = 0; i < kLanes; ++i)
                    part[i] = static_cast<std::int16_t>(part[i] + (bytes[i] & 15) * a + (bytes[i] >> 4) * b);
            }
            for (std::int64_t i = 0; i < kLanes; ++i) total[i] += part[i];
        }
        for (std::int64_t i = 0; i < kLanes; ++i) sums[g * kLanes + i] = total[i];
    }
}

ELMO_CLONES void to_scores(const std::int32_t* sums, const float* scales, const float* biases,
                           std::int64_t labels, float text_scale, std::int32_t zero, float* scores) {
    for (std::int64_t l = 0; l < labels; ++l)
        scores[l] = biases[l] + scales[l] * (text_scale * static_cast<float>(sums[l] - zero));
}

// Whether a score is at least so much: most groups of labels have none.
ELMO_CLONES bool any_reaches(const float* scores, std::int64_t count, float least) {
    int any = 0;
    for (std::int64_t i = 0; i < count; ++i) any |= scores[i] >= least ? 1 : 0;
    return any != 0;
}

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The scores of a block of labels for a text, until the next call.
struct ScanBuffers {
    std::vector<std::int32_t> sums = std::vector<std::int32_t>(kBlock);
    std::vector<float> scores = std::vector<float>(kBlock);

    std::span<const float> scan_block(const LabelSketch& sketch, const SketchedText& text,
                                      std::int64_t block) {
        const std::int64_t first = block * kBlock, n = std::min(kBlock, sketch.labels - first);
        const auto at = static_cast<std::size_t>(first);
        scan(&sketch.codes[at * static_cast<std::size_t>(sketch.half())],
             (n + LabelSketch::kGroup - 1) / LabelSketch::kGroup, sketch.half(), text.low.data(),
             text.high.data(), sums.data());
        to_scores(sums.data(), &sketch.scales[at], &sketch.biases[at], n, text.scale, text.zero,
                  scores.data());
        return std::span(scores).first(static_cast<std::size_t>(n));
    }
};

std::int64_t blocks_of(const LabelSketch& sketch) {
    return (sketch.labels + kBlock - 1) / kBlock;
}

// Of each text, a score that about twice `count` labels reach, by a sample of the blocks; kNone where there
// are few. It saves ordering the others, and decides nothing.
std::vector<float> sampled_scores(const Context& context, const LabelSketch& sketch,
                                  std::span<const SketchedText> texts, std::int64_t count) {
    std::vector<float> least(texts.size(), kNone);
    const std::int64_t sampled = blocks_of(sketch) / kSampledBlock;
    const std::int64_t place = 2 * count / kSampledBlock + 16;
    if (sampled * kBlock < 4 * place) return least;
    context.threads().parallel_for(static_cast<std::int64_t>(texts.size()), [&](std::int64_t i) {
        ScanBuffers buffers;
        TopK best(place);
        for (std::int64_t s = 0; s < sampled; ++s)
            best.offer_block(
                buffers.scan_block(sketch, texts[static_cast<std::size_t>(i)], s * kSampledBlock),
                s * kBlock);
        if (best.size() == place) least[static_cast<std::size_t>(i)] = best.sorted().back().score;
    });
    return least;
}

// Of each text, the labels with at least this score, in the order of labels. NaN is never among them.
std::vector<std::vector<ScoredLabel>> labels_above(const Context& context, const LabelSketch& sketch,
                                                   std::span<const SketchedText> texts,
                                                   const std::vector<float>& least) {
    const std::int64_t blocks = blocks_of(sketch), slices = std::min(kSlices, blocks);
    std::vector<std::vector<std::vector<ScoredLabel>>> found(
        static_cast<std::size_t>(slices), std::vector<std::vector<ScoredLabel>>(texts.size()));
    context.threads().parallel_for(slices, [&](std::int64_t slice) {
        ScanBuffers buffers;
        for (std::int64_t block = blocks * slice / slices; block < blocks * (slice + 1) / slices; ++block)
            for (std::size_t i = 0; i < texts.size(); ++i) {  // a block is read once for all texts
                const std::span<const float> scores = buffers.scan_block(sketch, texts[i], block);
                auto& of_text = found[static_cast<std::size_t>(slice)][i];
                const auto count = static_cast<std::int64_t>(scores.size());
                for (std::int64_t first = 0; first < count; first += LabelSketch::kGroup) {
                    const std::int64_t last = std::min(count, first + LabelSketch::kGroup);
                    if (!any_reaches(&scores[static_cast<std::size_t>(first)], last - first, least[i]))
                        continue;
                    for (std::int64_t l = first; l < last; ++l)
                        if (const float score = scores[static_cast<std::size_t>(l)]; score >= least[i])
                            of_text.push_back({score, block * kBlock + l});
                }
            }
    });
    for (std::size_t slice = 1; slice < found.size(); ++slice)
        for (std::size_t i = 0; i < texts.size(); ++i)
            found[0][i].insert(found[0][i].end(), found[slice][i].begin(), found[slice][i].end());
    return found.empty() ? std::vector<std::vector<ScoredLabel>>(texts.size()) : std::move(found[0]);
}

}  // namespace

LabelSketch make_sketch(const Context& context, std::int64_t labels, std::int64_t width, const ReadRows& rows,
                        std::span<const Bf16> texts) {
    const std::int64_t dims = std::min(kSketchDims, width), half = (dims + 1) / 2;
    auto owned = std::make_shared<OwnedSketch>();
    // Labels and texts around their means.
    Matrix sample = rows(range(0, labels, (labels + kSampledLabels - 1) / kSampledLabels));
    const std::vector<float> label_mean = mean_of(sample, width);
    subtract(sample, label_mean);
    Matrix vectors;
    for (const Bf16 value : texts) vectors.push_back(to_float(value));
    owned->centre = mean_of(vectors, width);
    subtract(vectors, owned->centre);
    const Matrix of_labels = covariance(context, sample, width);
    Matrix of_texts = covariance(context, vectors, width);
    double variance = 0;
    for (std::int64_t d = 0; d < width; ++d) variance += of_texts[static_cast<std::size_t>(d * width + d)];
    for (std::int64_t d = 0; d < width; ++d)
        of_texts[static_cast<std::size_t>(d * width + d)] +=
            static_cast<float>(kRidge * variance / static_cast<double>(width));

    // Coordinates of a label: directions times it. What gives the least squared error of scores from them is
    // (P C P')^-1 P C x for a text x, with P the directions and C the labels' covariance.
    const Matrix directions = leading_directions(context, of_texts, of_labels, dims, width);
    const Matrix reach = product(context, directions, of_labels, width, width);  // P C
    const Matrix turned = transposed(directions, width);
    const Matrix among = product(context, reach, turned, width, dims);  // P C P'
    Matrix project = transposed(reach, width);                          // [width, dims]
    solve({among.begin(), among.end()}, dims, project);
    owned->project = transposed(project, dims);
    // All coordinates get the same spread, so that 4 bits serve them alike.
    std::vector<float> inverse_spread;
    for (std::int64_t j = 0; j < dims; ++j) {
        const float spread = std::sqrt(std::max(among[static_cast<std::size_t>(j * dims + j)], 0.0f));
        inverse_spread.push_back(spread > 0 ? 1 / spread : 0);
        for (std::int64_t d = 0; d < width; ++d)
            owned->project[static_cast<std::size_t>(j * width + d)] *= spread;
    }

    owned->codes.resize(static_cast<std::size_t>((labels + LabelSketch::kGroup - 1) / LabelSketch::kGroup *
                                                 half * LabelSketch::kGroup));
    owned->scales.resize(static_cast<std::size_t>(labels));
    owned->biases.resize(static_cast<std::size_t>(labels));
    Progress progress(context, "sketching labels", labels, "labels");
    for (std::int64_t first = 0; first < labels; first += kRowsAtOnce) {
        context.leave_if_stopped();
        const std::int64_t last = std::min(labels, first + kRowsAtOnce);
        Matrix some = rows(range(first, last));
        subtract(some, label_mean);
        Matrix coordinates = product(context, some, turned, width, dims);
        for (std::int64_t l = first; l < last; ++l) {
            float* const row = &coordinates[static_cast<std::size_t>((l - first) * dims)];
            for (std::int64_t j = 0; j < dims; ++j) row[j] *= inverse_spread[static_cast<std::size_t>(j)];
            const auto at = static_cast<std::size_t>(l);
            owned->scales[at] =
                encode({row, static_cast<std::size_t>(dims)}, half,
                       &owned->codes[static_cast<std::size_t>(
                           l / LabelSketch::kGroup * half * LabelSketch::kGroup + l % LabelSketch::kGroup)]);
            owned->biases[at] = static_cast<float>(
                dot(&some[static_cast<std::size_t>((l - first) * width)], owned->centre.data(), width));
        }
        progress.update(last);
    }
    progress.finish();
    return {labels,       width,         dims,          owned->centre, owned->project,
            owned->codes, owned->scales, owned->biases, owned};
}

std::vector<std::vector<std::int64_t>> sketch_candidates(const Context& context, const LabelSketch& sketch,
                                                         std::span<const Bf16> texts, std::int64_t count) {
    const std::int64_t num_texts = static_cast<std::int64_t>(texts.size()) / sketch.width;
    std::vector<SketchedText> sketched;
    for (std::int64_t i = 0; i < num_texts; ++i)
        sketched.push_back(sketch_text(sketch, texts.subspan(static_cast<std::size_t>(i * sketch.width),
                                                             static_cast<std::size_t>(sketch.width))));
    const std::vector<float> least = sampled_scores(context, sketch, sketched, count);
    std::vector<std::vector<ScoredLabel>> found = labels_above(context, sketch, sketched, least);
    std::vector<std::vector<std::int64_t>> result;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (static_cast<std::int64_t>(found[i].size()) < count && least[i] > kNone)  // the sample misled
            found[i] =
                labels_above(context, sketch, std::span(sketched).subspan(i, 1), std::vector{kNone}).front();
        const auto kept = std::min(found[i].size(), static_cast<std::size_t>(count));
        std::partial_sort(found[i].begin(), found[i].begin() + static_cast<std::ptrdiff_t>(kept),
                          found[i].end(), ranks_before);
        found[i].resize(kept);
        auto& labels = result.emplace_back();
        for (const ScoredLabel& label : found[i]) labels.push_back(label.label);
    }
    return result;
}

}  // namespace elmo
