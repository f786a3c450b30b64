// DType and the matrix view. A view never owns: memory belongs to an arena or a mapped file.
// Everything the models compute with is a matrix: a vector is a matrix of one row.
#pragma once

#include <cassert>
#include <cstdint>
#include <string_view>

#include "numerics/bf16.h"

namespace elmo {

enum class DType : std::uint8_t { kF64, kF32, kBf16, kE4M3, kE3M4, kE5M2, kU8, kI32, kI64, kF16 };

std::int64_t size_of(DType dtype);
// "f64", "f32", "bf16", "e4m3", "e3m4", "e5m2", "u8", "i32", "i64", "f16"
std::string_view name_of(DType dtype);

template <class T>
struct dtype_of;
template <>
struct dtype_of<double> {
    static constexpr DType value = DType::kF64;
};
template <>
struct dtype_of<float> {
    static constexpr DType value = DType::kF32;
};
template <>
struct dtype_of<Bf16> {
    static constexpr DType value = DType::kBf16;
};
template <>
struct dtype_of<Fp16> {
    static constexpr DType value = DType::kF16;
};
template <>
struct dtype_of<std::int32_t> {
    static constexpr DType value = DType::kI32;
};
template <>
struct dtype_of<std::int64_t> {
    static constexpr DType value = DType::kI64;
};

// Row-major, without gaps between rows.
struct View {
    void* data = nullptr;
    DType dtype = DType::kF32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    std::int64_t size() const { return rows * cols; }
    std::int64_t bytes() const { return size() * size_of(dtype); }
    bool empty() const { return data == nullptr || size() == 0; }

    template <class T>
    T* as() const {
        assert(dtype == dtype_of<T>::value);
        return static_cast<T*>(data);
    }
    // 8-bit codes.
    std::uint8_t* codes() const {
        assert(size_of(dtype) == 1);
        return static_cast<std::uint8_t*>(data);
    }
    // Rows [begin, end) as a view.
    View slice(std::int64_t begin, std::int64_t end) const {
        assert(0 <= begin && begin <= end && end <= rows);
        return {static_cast<char*>(data) + begin * cols * size_of(dtype), dtype, end - begin, cols};
    }
    // The first `n` rows: a buffer planned for the largest batch, used for a smaller one.
    View first(std::int64_t n) const { return slice(0, n); }
};

}  // namespace elmo
