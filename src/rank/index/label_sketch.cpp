#include "rank/index/label_sketch.h"

#include <algorithm>
#include <cmath>

#include "base/clones.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "numerics/philox.h"

namespace elmo {
namespace {

constexpr std::int64_t kSampledLabels = 20'000;  // whose covariance is taken
constexpr int kIterations = 30;
constexpr double kRidge = 1e-2;  // of the mean variance of a text's element: texts are a sample too
constexpr std::int64_t kRowsAtOnce = 4096;
constexpr int kLargestCode = 7;

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
    std::vector<std::uint8_t> codes, rest;
};

// Sets the codes of a label's coordinates. Returns their scale.
float encode(const LabelSketch& sketch, std::span<const float> values, std::int64_t label,
             OwnedSketch& owned) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    const float scale = largest / kLargestCode, inverse = scale > 0 ? 1 / scale : 0;
    for (std::int64_t j = 0; j < sketch.dims; ++j) {
        const int code = static_cast<int>(std::lrint(values[static_cast<std::size_t>(j)] * inverse));
        const int stored = std::clamp(code, -kLargestCode, kLargestCode) + LabelSketch::kCodeZero;
        const std::int64_t byte = LabelSketch::byte_of(j), first = sketch.first_bytes();
        std::uint8_t& to =
            byte < first ? owned.codes[static_cast<std::size_t>(sketch.place(label, byte))]
                         : owned.rest[static_cast<std::size_t>(label * sketch.rest_bytes() + byte - first)];
        to = static_cast<std::uint8_t>(to | (LabelSketch::is_high(j) ? stored << 4 : stored));
    }
    return scale;
}

}  // namespace

LabelSketch make_sketch(const Context& context, std::int64_t labels, std::int64_t width, const ReadRows& rows,
                        std::span<const Bf16> texts) {
    const std::int64_t dims = std::min(kSketchDims, width);
    LabelSketch sketch;
    sketch.labels = labels;
    sketch.width = width;
    sketch.dims = dims;
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

    owned->codes.resize(
        static_cast<std::size_t>(sketch.groups() * sketch.first_bytes() * LabelSketch::kGroup));
    owned->rest.resize(static_cast<std::size_t>(labels * sketch.rest_bytes()));
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
            owned->scales[at] = encode(sketch, {row, static_cast<std::size_t>(dims)}, l, *owned);
            owned->biases[at] = static_cast<float>(
                dot(&some[static_cast<std::size_t>((l - first) * width)], owned->centre.data(), width));
        }
        progress.update(last);
    }
    progress.finish();
    sketch.centre = owned->centre;
    sketch.project = owned->project;
    sketch.codes = owned->codes;
    sketch.rest = owned->rest;
    sketch.scales = owned->scales;
    sketch.biases = owned->biases;
    sketch.owner = owned;
    return sketch;
}

}  // namespace elmo
