// Element access of the reference: any dtype is loaded as a double and stored by one rounding rule. A double
// on its way to BF16 or an 8-bit format passes through FP32, so it is rounded twice; the two roundings differ
// from one only when the FP32 neighbour is a tie of the smaller format (about once in 2^16 for BF16), and
// every other backend, which computes in FP32, meets the same tie.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "backend/ops/common.h"
#include "numerics/bf16.h"
#include "numerics/minifloat.h"

namespace elmo::reference {

inline const MiniFloat& format_of(DType dtype) {
    return dtype == DType::kE4M3 ? kE4M3 : dtype == DType::kE3M4 ? kE3M4 : kE5M2;
}

inline double load(const View& view, std::int64_t row, std::int64_t col) {
    const std::int64_t i = row * view.cols + col;
    switch (view.dtype) {
        case DType::kF64:
            return view.as<double>()[i];
        case DType::kF32:
            return view.as<float>()[i];
        case DType::kBf16:
            return to_float(view.as<Bf16>()[i]);
        case DType::kE4M3:
        case DType::kE3M4:
            return format_of(view.dtype).decode(view.codes()[i]);
        default:
            throw std::logic_error("reference: not a floating-point view");
    }
}

// Round to nearest even; the 8-bit formats saturate.
inline void store(const View& view, std::int64_t row, std::int64_t col, double x) {
    const std::int64_t i = row * view.cols + col;
    switch (view.dtype) {
        case DType::kF64:
            view.as<double>()[i] = x;
            return;
        case DType::kF32:
            view.as<float>()[i] = static_cast<float>(x);
            return;
        case DType::kBf16:
            view.as<Bf16>()[i] = to_bf16(static_cast<float>(x));
            return;
        case DType::kE4M3:
        case DType::kE3M4:
            view.codes()[i] =
                static_cast<std::uint8_t>(round_nearest(format_of(view.dtype), static_cast<float>(x)));
            return;
        default:
            throw std::logic_error("reference: not a floating-point view");
    }
}

// Stochastic rounding of the FP32 value of x. F32 and F64 are stored to nearest.
inline void store_stochastic(const View& view, std::int64_t row, std::int64_t col, double x,
                             std::uint16_t noise, std::int64_t* saturated = nullptr) {
    const std::int64_t i = row * view.cols + col;
    switch (view.dtype) {
        case DType::kBf16:
            view.as<Bf16>()[i] = round_stochastic_bf16(static_cast<float>(x), noise);
            return;
        case DType::kE4M3:
        case DType::kE3M4:
            view.codes()[i] = static_cast<std::uint8_t>(
                round_stochastic(format_of(view.dtype), static_cast<float>(x), noise, saturated));
            return;
        default:
            store(view, row, col, x);
    }
}

// A matrix that owns doubles: ops read their inputs into one, so aliasing does not matter.
struct Matrix {
    std::int64_t rows = 0, cols = 0;
    std::vector<double> values;

    Matrix(std::int64_t num_rows, std::int64_t num_cols)
        : rows(num_rows), cols(num_cols), values(static_cast<std::size_t>(num_rows * num_cols)) {}
    explicit Matrix(const View& view) : Matrix(view.rows, view.cols) {
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c) (*this)(r, c) = load(view, r, c);
    }
    double& operator()(std::int64_t r, std::int64_t c) {
        return values[static_cast<std::size_t>(r * cols + c)];
    }
    double operator()(std::int64_t r, std::int64_t c) const {
        return values[static_cast<std::size_t>(r * cols + c)];
    }
    void store_to(const View& view) const {
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c) store(view, r, c, (*this)(r, c));
    }
};

// x as it would be stored.
inline double rounded(DType dtype, double x) {
    double place = 0;
    const View cell{&place, dtype, 1, 1};
    store(cell, 0, 0, x);
    return load(cell, 0, 0);
}

// What FP16 holds of x, where it is wanted.
inline double fp16_or(bool wanted, double x) {
    return wanted ? static_cast<double>(round_fp16(static_cast<float>(x))) : x;
}
inline void round_to_fp16(Matrix& m) {
    for (double& value : m.values) value = fp16_or(true, value);
}

// Where a gradient starts: what is there, or zero.
inline Matrix gradient_start(const View& view, bool accumulate) {
    return accumulate ? Matrix(view) : Matrix(view.rows, view.cols);
}

// The gradient of a bias from the gradients of the rows it was added to.
inline void column_sums(const View& dy, const View& dbias, bool accumulate) {
    Matrix sums = gradient_start(dbias, accumulate);
    for (std::int64_t t = 0; t < dy.rows; ++t)
        for (std::int64_t n = 0; n < dy.cols; ++n) sums(0, n) += load(dy, t, n);
    sums.store_to(dbias);
}

// What dropout multiplies element (row, col) by.
inline double dropout_factor(const Dropout& dropout, std::int64_t row, std::int64_t col) {
    const std::uint32_t threshold = dropout.threshold();
    if (threshold == 0) return 1.0;
    return noise16(dropout.key, row, col) < threshold ? 0.0 : 65536.0 / (65536.0 - threshold);
}

}  // namespace elmo::reference
