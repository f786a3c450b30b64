// Running one op on two backends and comparing. Tensors carry guard bytes on both sides, begin at the
// smallest alignment a slice may have, start as NaN when they are outputs and must not change when they are
// inputs: all of that is checked when they end. Tolerances are computed from the number of terms and the unit
// roundoff.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/reference/scalar.h"
#include "elmo/error.h"
#include "tested_device.h"
#include "uploading_backend.h"

namespace elmo::testing_ops {

inline constexpr double kF32Roundoff = 0x1p-24;
inline constexpr double kBf16Roundoff = 0x1p-8;
// Relative errors of e^x and ln(1 + e), absolute error of erf, as backend/cpu/loops/math.h states them.
inline constexpr double kExpError = 3e-7;
inline constexpr double kErfError = 3e-7;
inline constexpr double kLog1pError = 1e-6;

class Tensor {
  public:
    Tensor(std::string name, DType dtype, std::int64_t rows, std::int64_t cols)
        : name_(std::move(name)), dtype_(dtype), rows_(rows), cols_(cols) {
        const auto bytes = static_cast<std::size_t>(rows * cols * size_of(dtype));
        memory_.assign(2 * kGuard + bytes + kAlign, kGuardByte);
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        // One element past a 64-byte boundary.
        const std::uintptr_t first =
            (address + kGuard + 63) / 64 * 64 + static_cast<std::size_t>(size_of(dtype));
        data_ = memory_.data() + (first - address);
        std::memset(data_, 0xff, bytes);  // NaN in all but E3M4
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() {
        const auto bytes = static_cast<std::size_t>(view().bytes());
        for (const unsigned char* p = memory_.data(); p != memory_.data() + memory_.size(); ++p)
            if ((p < data_ || p >= data_ + bytes) && *p != kGuardByte) {
                ADD_FAILURE() << name_ << ": written outside, " << p - data_ << " bytes from its begin";
                break;
            }
        if (!frozen_.empty() && std::memcmp(frozen_.data(), data_, frozen_.size()) != 0)
            ADD_FAILURE() << name_ << ": an input was changed";
    }

    View view() const { return {data_, dtype_, rows_, cols_}; }
    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }
    DType dtype() const { return dtype_; }
    double operator()(std::int64_t r, std::int64_t c) const { return reference::load(view(), r, c); }
    void set(std::int64_t r, std::int64_t c, double x) { reference::store(view(), r, c, x); }
    const std::string& name() const { return name_; }
    std::vector<unsigned char> bytes() const { return {data_, data_ + view().bytes()}; }

    void fill(const std::function<double(std::int64_t, std::int64_t)>& value) {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < cols_; ++c) set(r, c, value(r, c));
    }
    void copy(const Tensor& other) {
        fill([&](std::int64_t r, std::int64_t c) { return other(r, c); });
    }
    // From now on an input.
    void freeze() { frozen_ = bytes(); }

  private:
    static constexpr std::size_t kGuard = 256, kAlign = 128;
    static constexpr unsigned char kGuardByte = 0xa5;
    std::string name_;
    DType dtype_;
    std::int64_t rows_, cols_;
    std::vector<unsigned char> memory_, frozen_;
    unsigned char* data_ = nullptr;
};

using Rng = std::mt19937;

// Under a tool that makes a GPU hundreds of times slower (tools/gpu_test.sh sets ELMO_TEST_FEW) every kernel
// is met on awkward shapes, but not in every combination of what it is given.
inline bool under_sanitizer() {
    return std::getenv("ELMO_TEST_FEW") != nullptr;
}
// All values for each case; under a sanitizer only the next one: cases take them in turn.
template <class T>
std::vector<T> in_turn(std::initializer_list<T> all, std::size_t& turn) {
    if (!under_sanitizer()) return all;
    return {all.begin()[turn++ % all.size()]};
}
// All cases; under a sanitizer every n-th, from the first.
template <class T, std::size_t N>
std::vector<T> thinned(const T (&all)[N], std::size_t n) {
    std::vector<T> cases;
    for (std::size_t i = 0; i < N; i += under_sanitizer() ? n : 1) cases.push_back(all[i]);
    return cases;
}

// Normal deviates times scale, rounded to the dtype: an input.
inline std::unique_ptr<Tensor> make_input(std::string name, DType dtype, std::int64_t rows, std::int64_t cols,
                                          Rng& rng, double scale = 1) {
    auto tensor = std::make_unique<Tensor>(std::move(name), dtype, rows, cols);
    std::normal_distribution<double> normal(0, scale);
    tensor->fill([&](auto, auto) { return normal(rng); });
    tensor->freeze();
    return tensor;
}

// |t| as F64: the reference run on absolute values gives the sum of absolute terms that error bounds need.
inline std::unique_ptr<Tensor> absolute(const Tensor& t) {
    auto result = std::make_unique<Tensor>("|" + t.name() + "|", DType::kF64, t.rows(), t.cols());
    result->fill([&](auto r, auto c) { return std::abs(t(r, c)); });
    return result;
}

inline View view_of(const std::unique_ptr<Tensor>& t) {
    return t ? t->view() : View{};
}

// Bound of the relative error of a sum of n products in FP32, in any order.
inline double sum_error(std::int64_t n) {
    const double nu = static_cast<double>(n + 1) * kF32Roundoff;
    return nu / (1 - nu);
}

// Half a unit in the last place of what storing x in dtype loses.
inline double storing_error(DType dtype, double x) {
    switch (dtype) {
        case DType::kF64:
            return 0;
        case DType::kF32:
            return std::abs(x) * kF32Roundoff + 0x1p-149;
        case DType::kBf16:
            return std::abs(x) * kBf16Roundoff + 0x1p-133;
        default:
            ADD_FAILURE() << "no tolerance for " << name_of(dtype);
            return 0;
    }
}

// Every element within error(r, c) before storing, plus what storing loses. NaN never passes.
template <class Error>
void expect_close(const Tensor& actual, const Tensor& expected, const Error& error) {
    ASSERT_EQ(actual.rows(), expected.rows());
    ASSERT_EQ(actual.cols(), expected.cols());
    for (std::int64_t r = 0; r < actual.rows(); ++r)
        for (std::int64_t c = 0; c < actual.cols(); ++c) {
            const double e = expected(r, c), before = error(r, c);
            // Sums of subnormal products may be flushed to zero.
            const double tolerance = before + storing_error(actual.dtype(), std::abs(e) + before) + 0x1p-120;
            const bool close = std::abs(actual(r, c) - e) <= tolerance && std::isfinite(e);
            ASSERT_TRUE(close) << actual.name() << "(" << r << ", " << c << ") of " << actual.rows() << " x "
                               << actual.cols() << ": " << actual(r, c) << ", expected " << e << " +- "
                               << tolerance;
        }
}

inline void expect_same_bits(const Tensor& actual, const Tensor& expected) {
    ASSERT_EQ(actual.dtype(), expected.dtype());
    const auto a = actual.bytes(), e = expected.bytes();
    ASSERT_EQ(a.size(), e.size());
    if (a == e) return;
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(a[i], e[i]) << actual.name() << ", element "
                              << i / static_cast<std::size_t>(size_of(actual.dtype())) << " of "
                              << actual.rows() << " x " << actual.cols();
}

// dbias is the column sums of dy as stored, added to `start` where that is given.
inline void expect_column_sums(const Tensor& dbias, const Tensor& dy, const Tensor* start) {
    Tensor exact("exact dbias", DType::kF64, 1, dy.cols()), size("size dbias", DType::kF64, 1, dy.cols());
    exact.fill([&](auto, auto c) { return start != nullptr ? (*start)(0, c) : 0.0; });
    size.fill([&](auto, auto c) { return std::abs(exact(0, c)); });
    for (std::int64_t r = 0; r < dy.rows(); ++r)
        for (std::int64_t c = 0; c < dy.cols(); ++c) {
            exact.set(0, c, exact(0, c) + dy(r, c));
            size.set(0, c, size(0, c) + std::abs(dy(r, c)));
        }
    expect_close(dbias, exact, [&](auto, auto c) { return sum_error(dy.rows() + 1) * size(0, c); });
}

// One text a count: B + 1 offsets.
inline std::vector<std::int32_t> offsets_of(const std::vector<std::int32_t>& counts) {
    std::vector<std::int32_t> offsets = {0};
    for (const std::int32_t count : counts) offsets.push_back(offsets.back() + count);
    return offsets;
}

inline std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocab, Rng& rng) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
    std::uniform_int_distribution<std::int32_t> pick(0, static_cast<std::int32_t>(vocab - 1));
    for (auto& token : tokens) token = pick(rng);
    return tokens;
}

// A backend with its scratch planned and taken as a run does it, and a guard behind the planned memory.
class Reserved {
  public:
    Reserved(std::unique_ptr<Backend> backend, const Workload& workload) : backend_(std::move(backend)) {
        Arena dry;
        backend_->reserve(dry, workload);
        backend_->reserve_head(dry, workload);
        auto block = backend_->allocate(dry.peak_bytes() + kGuard);
        char* const first = static_cast<char*>(block->data());
        guard_ = {first + dry.peak_bytes(), DType::kU8, 1, kGuard};
        arena_ = std::make_unique<Arena>(std::move(block));
        backend_->reserve(*arena_, workload);
        const std::int64_t head = arena_->mark().used;
        backend_->reserve_head(*arena_, workload);
        EXPECT_EQ(arena_->peak_bytes(), dry.peak_bytes());
        // The head's scratch may hold anything: NaNs, indices that do not exist.
        const std::vector<char> anything(static_cast<std::size_t>(dry.peak_bytes() - head), '\xff');
        if (!anything.empty())
            backend_->upload({first + head, DType::kU8, 1, dry.peak_bytes() - head}, anything.data());
    }
    ~Reserved() {
        try {
            std::vector<char> bytes(static_cast<std::size_t>(kGuard), 1);
            backend_->download(bytes.data(), guard_);
            EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; }))
                << "an op wrote behind the scratch it had planned";
        } catch (const Error& error) {
            ADD_FAILURE() << error.what();
        }
    }
    Reserved(const Reserved&) = delete;
    Reserved& operator=(const Reserved&) = delete;
    Backend* operator->() { return backend_.get(); }
    Backend& operator*() { return *backend_; }

  private:
    static constexpr std::int64_t kGuard = 1 << 16;
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Arena> arena_;
    View guard_;
};

// Storage of weights and activations with the arithmetic of products.
struct Mode {
    DType storage;
    std::string products;
};

// Those of the tested device.
inline std::vector<Mode> tested_modes() {
    if (kTestsGpu) return {{DType::kF32, "cuda"}, {DType::kBf16, "cuda"}};
    std::vector<Mode> modes = {{DType::kF32, "fp32"}, {DType::kBf16, "fp32"}};
    try {
        make_cpu_backend(quiet(), "bf16");
        modes.push_back({DType::kBf16, "bf16"});
    } catch (const ConfigError&) {
    }
    return modes;
}

// A backend of the tested device that takes host views, with all cores or as many threads as given. A GPU has
// one kind of products.
inline std::unique_ptr<Backend> make_tested_backend(const std::string& products, int threads = 0) {
    if (!kTestsGpu) return make_cpu_backend(quiet().with_threads(threads), products);
    return std::make_unique<UploadingBackend>(make_device_backend());
}

inline std::string describe(const Mode& mode) {
    return std::string(name_of(mode.storage)) + " storage, " + mode.products + " products";
}

}  // namespace elmo::testing_ops
