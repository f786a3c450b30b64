// Residual, dropout and LayerNorm as one op, and dropout alone.
#pragma once

#include "backend/ops/common.h"

namespace elmo {

// sum = dropout(a) + residual; y = LayerNorm(sum) * gamma + beta, from the sum as stored, so that the
// backward sees the same numbers. stats gets mean and 1/sqrt(var + eps). residual may be empty (0). sum may
// alias a, y may not alias anything. From a stored sum as `a`, without residual and dropout, y and stats come
// out with the same bits again. Where y_dropout drops, y is rounded first, as DropoutApply after it would see
// it. `normal`, where given, receives (sum - mean) / sqrt(var + eps) to nearest even, of NaN any number; sum
// may then be empty.
struct ResidualNormForward {
    View a_TD, residual_TD;
    Dropout dropout;
    View gamma_1D, beta_1D;
    float epsilon = 1e-12f;
    View sum_TD, y_TD;
    View stats_T2;  // f32 (f64 on the reference, where the backward is to be exact)
    Dropout y_dropout{};
    View normal_TD{};  // e4m3; may be empty
};
template <OpIs<ResidualNormForward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.a_TD, op.residual_TD, op.gamma_1D, op.beta_1D, op.sum_TD, op.y_TD, op.stats_T2, op.normal_TD);
}

// dsum = gradient of sum (and so of the residual), da = dropout(dsum). dy may alias dsum, da may alias
// sum, and dsum only when p is 0. Where more_dy is given it is first added to dy, with the bits of
// AddInPlace: what the two users of y sent back; it aliases nothing. Then comes dy_dropout, the forward's
// y_dropout, with the bits of DropoutApply. dbias, where given, receives the column sums of da as stored (of
// dsum, where da is empty): the gradient of a bias that a contains. dgamma, dbeta and dbias are added to what
// is there when `accumulate` is set. y, where given, is what the forward had before y_dropout, to the bit; it
// takes beta and epsilon and aliases nothing. Where `normal` is given, as the forward left it, it stands for
// what it says in place of sum, which is not read; with `rounds` the normal of the sum is rounded to it
// first. The results have the same bits. Neither with y.
struct ResidualNormBackward {
    View dy_TD, sum_TD, stats_T2, gamma_1D;
    Dropout dropout;
    View dsum_TD, da_TD;  // da may be empty when there is no dropout: it would equal dsum
    View dgamma_1D, dbeta_1D;
    bool accumulate = false;
    View more_dy_TD{};
    View dbias_1D{};
    Dropout dy_dropout{};
    View beta_1D{}, y_TD{};
    float epsilon = 1e-12f;
    View normal_TD{};  // e4m3
    bool rounds = false;
};
template <OpIs<ResidualNormBackward> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.dy_TD, op.sum_TD, op.stats_T2, op.gamma_1D, op.dsum_TD, op.da_TD, op.dgamma_1D, op.dbeta_1D,
          op.more_dy_TD, op.dbias_1D, op.beta_1D, op.y_TD, op.normal_TD);
}

// x = dropout(x) in place; the same op is its own backward.
struct DropoutApply {
    View x_TD;
    Dropout dropout;
};
template <OpIs<DropoutApply> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.x_TD);
}

// y += x, elementwise.
struct AddInPlace {
    View y_TD, x_TD;
};
template <OpIs<AddInPlace> Op>
void visit_views(Op& op, const auto& visit) {
    visit(op.y_TD, op.x_TD);
}

}  // namespace elmo
