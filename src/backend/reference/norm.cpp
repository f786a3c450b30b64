// Residual + dropout + LayerNorm, dropout alone, addition.
#include "backend/reference/reference_backend.h"
#include "backend/reference/scalar.h"

namespace elmo {

using namespace reference;

namespace {

struct RowStats {
    double mean = 0, inverse = 0;
};
RowStats row_stats(const View& sum_TD, std::int64_t t, float epsilon) {
    const auto width = static_cast<double>(sum_TD.cols);
    RowStats stats;
    double variance = 0;
    for (std::int64_t d = 0; d < sum_TD.cols; ++d) stats.mean += load(sum_TD, t, d);
    stats.mean /= width;
    for (std::int64_t d = 0; d < sum_TD.cols; ++d) {
        const double centred = load(sum_TD, t, d) - stats.mean;
        variance += centred * centred;
    }
    stats.inverse = 1.0 / std::sqrt(variance / width + static_cast<double>(epsilon));
    return stats;
}

void store_normal(const View& y_TD, const View& sum_TD, const RowStats& stats, const View& gamma_1D,
                  const View& beta_1D, std::int64_t t, std::int64_t d) {
    const double normal = (load(sum_TD, t, d) - stats.mean) * stats.inverse;
    store(y_TD, t, d, normal * load(gamma_1D, 0, d) + load(beta_1D, 0, d));
}

}  // namespace

void ReferenceBackend::residual_norm_forward(const ResidualNormForward& op) {
    const std::int64_t width = op.a_TD.cols;
    Matrix held(op.sum_TD.empty() ? op.a_TD.rows : 0, width);
    const View sum = op.sum_TD.empty() ? View{held.values.data(), DType::kF64, held.rows, width} : op.sum_TD;
    for (std::int64_t t = 0; t < op.a_TD.rows; ++t) {
        for (std::int64_t d = 0; d < width; ++d) {
            double value = load(op.a_TD, t, d) * dropout_factor(op.dropout, t, d);
            if (!op.residual_TD.empty()) value += load(op.residual_TD, t, d);
            store(sum, t, d, op.sum_TD.empty() ? rounded(op.a_TD.dtype, value) : value);
        }
        const auto [mean, inverse] = row_stats(sum, t, op.epsilon);
        for (std::int64_t d = 0; d < width; ++d) {
            store_normal(op.y_TD, sum, {mean, inverse}, op.gamma_1D, op.beta_1D, t, d);
            if (op.y_dropout.threshold() > 0)
                store(op.y_TD, t, d, load(op.y_TD, t, d) * dropout_factor(op.y_dropout, t, d));
            if (!op.normal_TD.empty()) store(op.normal_TD, t, d, (load(sum, t, d) - mean) * inverse);
        }
        store(op.stats_T2, t, 0, mean);
        store(op.stats_T2, t, 1, inverse);
    }
}

void ReferenceBackend::residual_norm_backward(const ResidualNormBackward& op) {
    const std::int64_t width = op.dy_TD.cols;
    Matrix dgamma = gradient_start(op.dgamma_1D, op.accumulate);
    Matrix dbeta = gradient_start(op.dbeta_1D, op.accumulate);
    for (std::int64_t t = 0; t < op.dy_TD.rows; ++t) {
        const double mean = load(op.stats_T2, t, 0), inverse = load(op.stats_T2, t, 1);
        std::vector<double> normal(static_cast<std::size_t>(width)), dnormal(normal.size());
        if (!op.y_TD.empty()) {  // by the statistics as the forward had them, not as it stored them
            const RowStats exact = row_stats(op.sum_TD, t, op.epsilon);
            for (std::int64_t d = 0; d < width; ++d)
                store_normal(op.y_TD, op.sum_TD, exact, op.gamma_1D, op.beta_1D, t, d);
        }
        double mean_dnormal = 0, mean_product = 0;
        for (std::int64_t d = 0; d < width; ++d) {
            double dy = load(op.dy_TD, t, d);
            if (!op.more_dy_TD.empty()) dy = rounded(op.dy_TD.dtype, dy + load(op.more_dy_TD, t, d));
            if (op.dy_dropout.threshold() > 0)
                dy = rounded(op.dy_TD.dtype, dy * dropout_factor(op.dy_dropout, t, d));
            normal[d] =
                op.normal_TD.empty() ? (load(op.sum_TD, t, d) - mean) * inverse : load(op.normal_TD, t, d);
            if (op.rounds) normal[d] = rounded(DType::kE4M3, normal[d]);
            dnormal[d] = dy * load(op.gamma_1D, 0, d);
            mean_dnormal += dnormal[d] / static_cast<double>(width);
            mean_product += dnormal[d] * normal[d] / static_cast<double>(width);
            dgamma(0, d) += dy * normal[d];
            dbeta(0, d) += dy;
        }
        for (std::int64_t d = 0; d < width; ++d) {
            const double dsum = (dnormal[d] - mean_dnormal - normal[d] * mean_product) * inverse;
            store(op.dsum_TD, t, d, dsum);
            if (!op.da_TD.empty()) store(op.da_TD, t, d, dsum * dropout_factor(op.dropout, t, d));
        }
    }
    dgamma.store_to(op.dgamma_1D);
    dbeta.store_to(op.dbeta_1D);
    if (!op.dbias_1D.empty())
        column_sums(op.da_TD.empty() ? op.dsum_TD : op.da_TD, op.dbias_1D, op.accumulate);
}

void ReferenceBackend::dropout(const DropoutApply& op) {
    for (std::int64_t t = 0; t < op.x_TD.rows; ++t)
        for (std::int64_t d = 0; d < op.x_TD.cols; ++d)
            store(op.x_TD, t, d, load(op.x_TD, t, d) * dropout_factor(op.dropout, t, d));
}

void ReferenceBackend::add(const AddInPlace& op) {
    for (std::int64_t t = 0; t < op.y_TD.rows; ++t)
        for (std::int64_t d = 0; d < op.y_TD.cols; ++d)
            store(op.y_TD, t, d, load(op.y_TD, t, d) + load(op.x_TD, t, d));
}

}  // namespace elmo
