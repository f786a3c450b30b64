// Copies, casts and first weights of the tested backend.
#include <limits>

#include "numerics/normal.h"
#include "op_harness.h"

namespace elmo::testing_ops::memory_test {
namespace {

TEST(Memory, CastAndFiniteness) {
    Reserved tested(make_tested_backend("fp32"), Workload{});
    const auto truth = make_reference_backend();
    Rng rng(3);
    const DType types[] = {DType::kF32, DType::kBf16};
    for (const DType from : {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4})
        for (const DType to : types) {
            const auto source = make_input("source", from, 3, 17, rng);
            Tensor cast("cast", to, 3, 17), expected("expected", to, 3, 17);
            tested->cast(cast.view(), source->view());
            truth->cast(expected.view(), source->view());
            expect_same_bits(cast, expected);
            EXPECT_FALSE(tested->has_non_finite(cast.view()));
            EXPECT_FALSE(truth->has_non_finite(cast.view()));
        }
    for (const DType type : types)
        for (const float bad :
             {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
            for (const std::int64_t place : {0, 1024, 20000, 32767}) {
                Tensor x("x", type, 1, 32768);
                x.fill([&](auto, auto c) { return c == place ? double{bad} : 1.0; });
                EXPECT_TRUE(tested->has_non_finite(x.view())) << place;
                EXPECT_TRUE(truth->has_non_finite(x.view())) << place;
            }
}

TEST(Memory, UploadDownloadZero) {
    Reserved tested(make_tested_backend("fp32"), Workload{});
    Tensor x("x", DType::kBf16, 3, 5);
    std::vector<Bf16> host(15), back(15);
    for (std::size_t i = 0; i < 15; ++i) host[i] = to_bf16(static_cast<float>(i));
    tested->upload(x.view(), host.data());
    tested->download(back.data(), x.view());
    EXPECT_EQ(host, back);
    tested->fill_zero(x.view());
    for (std::int64_t c = 0; c < 5; ++c) EXPECT_EQ(x(2, c), 0);
}

// Initial weights are the same on every backend and in every cut into rows.
TEST(FillNormal, EqualsTheReferenceBitForBit) {
    const auto truth = make_reference_backend();
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4})
        for (const std::int64_t width : {1, 7, 129, 1030}) {
            Workload workload;
            workload.width = width;
            Reserved tested(make_tested_backend("fp32"), workload);
            const FillNormal op{{}, 0.02f, {5, 0, 2}, {5, 0, 3}, 0};
            Tensor all("all", dtype, 70, width), expected("expected", dtype, 70, width);
            Tensor parts("parts", dtype, 70, width);
            FillNormal run = op;
            run.w = all.view();
            tested->fill_normal(run);
            run.w = expected.view();
            truth->fill_normal(run);
            for (const auto& [begin, end] : {std::pair{0, 1}, {1, 64}, {64, 70}}) {
                run.w = parts.view().slice(begin, end);
                run.first_row = begin;
                tested->fill_normal(run);
            }
            expect_same_bits(all, expected);
            expect_same_bits(parts, expected);
        }
}

// Weights start alive in every format: mean 0, deviation 0.02 plus that of the rounding.
TEST(FillNormal, MomentsInEveryFormat) {
    Workload workload;
    workload.width = 512;
    Reserved tested(make_tested_backend("fp32"), workload);
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kE4M3, DType::kE3M4}) {
        Tensor w("w", dtype, 256, 512);
        tested->fill_normal({w.view(), 0.02f, {1, 0, 2}, {1, 0, 3}, 0});
        double sum = 0, squares = 0, rounding = 0;
        for (std::int64_t r = 0; r < w.rows(); ++r)
            for (std::int64_t c = 0; c < w.cols(); ++c) {
                const double exact = noise_normal({1, 0, 2}, r, c) * 0.02f;
                sum += w(r, c);
                squares += w(r, c) * w(r, c);
                rounding += (w(r, c) - exact) * (w(r, c) - exact);
            }
        const double n = 256 * 512, variance = 0.02 * 0.02 + rounding / n;
        EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n)) << name_of(dtype);
        EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n)) << name_of(dtype);
    }
}

}  // namespace
}  // namespace elmo::testing_ops::memory_test
