// What the tests of AdamW share, whatever its state is stored in.
#pragma once

#include "op_harness.h"

namespace elmo::testing_ops {

struct MatrixShape {
    std::int64_t rows, cols;
};

inline Workload workload_of(const MatrixShape& s) {
    Workload workload;
    workload.width = s.cols;
    return workload;
}

// Update t of a state, with the usual numbers.
template <class State>
AdamWUpdate op_of(State& state, const Tensor& grad, std::int64_t t) {
    AdamWUpdate op;
    op.w = state.w.view();
    op.grad = grad.view();
    op.m = state.m.view();
    op.v = state.v.view();
    if (state.w.dtype() == DType::kBf16) op.c = state.c.view();
    if constexpr (requires { state.exponents; }) op.exponents = state.exponents.view();
    op.lr = 0.003f;
    op.weight_decay = 0.01f;
    op.grad_scale = 0.5f;
    op.t = t;
    op.key = {3, static_cast<std::uint64_t>(t), 0x3000};
    return op;
}

// New moments and the update of one weight, with what FP32 may be away from them.
struct AdamWBounds {
    double m, m_error, v, v_error, update, update_error;

    AdamWBounds(const AdamWUpdate& op, double grad, double w, double old_m, double old_v) {
        constexpr double u = kF32Roundoff;
        const double b1 = op.beta1, b2 = op.beta2, lr = op.lr;
        const double k1 = 1 - std::pow(b1, op.t), k2 = 1 - std::pow(b2, op.t);
        const double g = grad * double{op.grad_scale};
        const double m0 = b1 * old_m, m1 = (1 - b1) * g;
        m = m0 + m1;
        v = b2 * old_v + (1 - b2) * g * g;
        // Roundings: products, 1 - beta (exact in FP32 by Sterbenz), g * scale, the sum.
        m_error = 4 * u * (std::abs(m0) + std::abs(m1));
        v_error = 6 * u * v;
        const double root = std::sqrt(v / k2), below = root + double{op.epsilon};
        // Half the relative error of v and of the correction, the root, the sum.
        const double below_error = (3 + 1 + 1 + 1) * u * below;
        const double direction = m / k1 / below;
        const double direction_error =
            (m_error / k1 / below) * (1 + 1e-6) + std::abs(direction) * (below_error / below + 4 * u);
        const double decay = double{op.weight_decay} * w;
        update = -lr * (direction + decay);
        update_error = lr * (direction_error + u * std::abs(decay)) + 3 * u * std::abs(update) +
                       2 * u * lr * (std::abs(direction) + std::abs(decay));
    }
};

// Update 3 of a state, with rows [0, 4) and the others by themselves, as ranks update them.
template <class State>
void update_by_parts(Backend& tested, State& state, const Tensor& grad) {
    // Named, as Clang 14 does not capture structured bindings.
    for (const auto& rows : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, grad.rows()}}) {
        AdamWUpdate part = op_of(state, grad, 3);
        visit_views(part, [&](auto&... views) {
            ((views = views.empty() ? views : views.slice(rows.first, rows.second)), ...);
        });
        part.first_row = rows.first;
        tested.adamw({&part, 1});
    }
}

// An update of a state that `make(shape, rng)` gives has the same bytes with one, two and three threads.
template <class Make>
void expect_threads_do_not_matter(const Make& make) {
    const MatrixShape s{1000, 33};
    const auto bytes_with = [&](int threads) {
        Rng rng(3);
        Reserved tested(make_tested_backend("fp32", threads), workload_of(s));
        const auto state = make(s, rng);
        const auto grad = make_input("grad", DType::kBf16, s.rows, s.cols, rng);
        const AdamWUpdate op = op_of(*state, *grad, 4);
        tested->adamw({&op, 1});
        std::vector<unsigned char> all;
        for (const Tensor* t : state->tensors())
            for (const auto b : t->bytes()) all.push_back(b);
        return all;
    };
    const auto expected = bytes_with(1);
    for (const int threads : {2, 3}) EXPECT_EQ(bytes_with(threads), expected) << threads;
}

}  // namespace elmo::testing_ops
