// Attention of the tested backend against the reference. The bounds follow the computation: scores, softmax,
// sums.
#include "base/parallel.h"
#include "op_harness.h"

namespace elmo::testing_ops::attention_test {
namespace {

constexpr double u = kF32Roundoff;

struct Case {
    std::vector<std::int32_t> counts;
    std::int64_t width, heads;
};
const Case kCases[] = {{{1}, 2, 2},           {{1, 1}, 4, 1},         {{7, 0, 1, 3}, 6, 3},
                       {{16}, 8, 2},          {{17, 15, 2}, 34, 2},   {{33}, 64, 1},
                       {{129, 1, 5}, 20, 4},  {{31, 32}, 24, 12},     {{157}, 2, 1},
                       {{64, 1, 65}, 64, 2},  {{128, 0, 17}, 128, 2}, {{63}, 96, 2},
                       {{259, 2, 40}, 64, 2}, {{5, 140}, 64, 1},      {{3, 2}, 192, 3}};
// A GPU has blocks for texts of up to 32, 64 and 128 tokens, and others for longer ones.
const Case kGpuCases[] = {{{32, 1, 2, 31}, 64, 1},
                          {{31, 0, 16, 17, 32}, 64, 2},
                          {{33, 64, 2, 49}, 128, 2},
                          {{64, 1, 33, 48}, 96, 3},
                          {{1, 2, 31, 32, 33, 64, 65, 127, 128}, 64, 1},
                          {{128, 127, 65, 64, 33, 32, 31, 2, 1}, 64, 2},
                          {{1, 2, 31, 32, 33, 64, 65, 127, 128, 129}, 64, 1},
                          {{129, 128, 127, 65, 64, 33, 32, 31, 2, 1}, 64, 2},
                          // ... which, on some, walk over tiles of 64 rows in blocks of 64 or 128.
                          {{192, 65, 128}, 64, 1},
                          {{129, 200}, 128, 1},
                          {{255}, 64, 2},
                          {{3, 256, 1}, 64, 1},
                          {{256, 257}, 64, 2}};
// The same on a GPU as BF16 only, and not under sanitizers: they take the reference long.
const Case kLongCases[] = {{{511, 130}, 64, 1}, {{512, 1, 66}, 64, 2}};

Workload workload_of(const Case& c) {
    Workload workload;
    workload.batch = static_cast<std::int64_t>(c.counts.size());
    workload.tokens = offsets_of(c.counts).back();
    workload.longest = *std::max_element(c.counts.begin(), c.counts.end());
    workload.width = c.width;
    workload.widest = 3 * c.width;
    workload.heads = c.heads;
    return workload;
}

// What one head of one text computes, in FP64, with bounds of the FP32 errors beside it.
struct Attention {
    std::int64_t begin, n, width, size, heads, h;
    const Tensor& qkv;
    const Dropout& dropout;
    const Tensor* bias;  // may be null

    double q(std::int64_t i, std::int64_t d) const { return qkv(begin + i, h * size + d); }
    double k(std::int64_t i, std::int64_t d) const { return qkv(begin + i, width + h * size + d); }
    double v(std::int64_t i, std::int64_t d) const { return qkv(begin + i, 2 * width + h * size + d); }
    double factor(std::int64_t i, std::int64_t j) const {
        return reference::dropout_factor(dropout, (begin + i) * heads + h, j);
    }

    // Row i of the softmax: weights, lse, largest error of a score.
    struct Row {
        std::vector<double> score, weight;
        double lse = 0, top = 0, score_error = 0;
        double lowest() const { return *std::min_element(score.begin(), score.end()); }
        double spread() const { return top - lowest(); }
        double largest() const { return std::max(std::abs(top), std::abs(lowest())); }
    };
    Row row(std::int64_t i) const {
        Row r;
        for (std::int64_t j = 0; j < n; ++j) {
            double score = 0, magnitude = 0;
            for (std::int64_t d = 0; d < size; ++d) {
                score += q(i, d) * k(j, d);
                magnitude += std::abs(q(i, d) * k(j, d));
            }
            const double scale = 1 / std::sqrt(static_cast<double>(size));
            // 1 / sqrt(size) is rounded twice, q * scale once.
            double error = sum_error(size + 3) * magnitude * scale;
            r.score.push_back(score * scale);
            if (bias != nullptr) {  // added in FP32; a GPU divides it by the scale first
                const double more = (*bias)(relative_bucket(j - i), h);
                r.score.back() += more;
                error += 4 * u * (magnitude * scale + std::abs(more));
            }
            r.score_error = std::max(r.score_error, error);
        }
        r.top = *std::max_element(r.score.begin(), r.score.end());
        double sum = 0;
        for (const double s : r.score) sum += std::exp(s - r.top);
        r.lse = r.top + std::log(sum);
        for (const double s : r.score) r.weight.push_back(std::exp(s - r.lse));
        return r;
    }
    // A GPU takes e^x as 2^(x log2(e)), where scores are rounded twice more; and it meets the keys in blocks
    // of 16 or more, where each block with a new largest score scales the sums by one more power.
    double exp_error(const Row& r) const {
        const double on_gpu = 4 * u * (r.largest() + std::abs(r.lse) + r.spread()) +
                              std::ceil(static_cast<double>(n) / 16) * (kExpError + 2 * u);
        return u * r.spread() + kExpError + (kTestsGpu ? on_gpu : 0);
    }
    // Weights (with their dropout) and gradients of scores are operands of products, which the tensor cores
    // of a GPU take as BF16.
    bool on_tensor_cores() const {
        return kTestsGpu && qkv.dtype() == DType::kBf16 && (size == 32 || size == 64);
    }
    double operand_error(double relative) const {
        return on_tensor_cores() ? relative + (1 + relative) * kBf16Roundoff : relative;
    }
    // Relative error of a weight from e^(score - top) / sum.
    double weight_error(const Row& r) const {
        return std::expm1(2 * (2 * r.score_error + exp_error(r)) + sum_error(n + 3));
    }
    double lse_error(const Row& r) const {
        return 2 * r.score_error + exp_error(r) + sum_error(n + 2) +
               2 * u * (std::abs(r.top) + std::abs(r.lse) + std::log(static_cast<double>(n)));
    }
    // Relative error of a weight from e^(score - lse), lse being `error` off.
    double weight_error_from_lse(const Row& r, double error) const {
        double distance = 0;
        for (const double s : r.score) distance = std::max(distance, std::abs(s - r.lse));
        return std::expm1(r.score_error + error + u * distance + exp_error(r));
    }
};

template <class Body>
void for_each_head(const Case& c, const Tensor& qkv, const Dropout& dropout, const Tensor* bias,
                   const Body& body) {
    const auto offsets = offsets_of(c.counts);
    for (std::size_t b = 0; b < c.counts.size(); ++b)
        for (std::int64_t h = 0; h < c.heads; ++h)
            body(Attention{offsets[b], c.counts[b], c.width, c.width / c.heads, c.heads, h, qkv, dropout,
                           bias});
}

template <class Body>
void for_each_case(const Body& body) {
    Rng rng(23);
    std::size_t turn = 0;
    for (const DType storage : {DType::kF32, DType::kBf16}) {
        const std::size_t few = storage == DType::kF32 ? 3 : 1;
        const bool on_tiles = kTestsGpu && storage == DType::kBf16;
        std::vector<Case> cases = thinned(kCases, few);
        if (kTestsGpu) std::ranges::copy(thinned(kGpuCases, few), std::back_inserter(cases));
        if (on_tiles && !under_sanitizer())
            cases.insert(cases.end(), std::begin(kLongCases), std::end(kLongCases));
        for (const Case& c : cases)
            // A GPU's kernels for BF16 are compiled for either.
            for (const float p : on_tiles ? std::vector{0.0f, 0.25f} : in_turn({0.0f, 0.25f}, turn)) {
                SCOPED_TRACE(std::string(name_of(storage)) + ", " + std::to_string(c.counts.size()) +
                             " texts, width " + std::to_string(c.width) + ", " + std::to_string(c.heads) +
                             " heads, dropout " + std::to_string(p));
                Workload workload = workload_of(c);
                Reserved tested(make_tested_backend("fp32"), workload);
                body(storage, c, Dropout{p, {5, 6, 7}}, nullptr, tested, rng);
                if (testing::Test::HasFatalFailure()) return;
                if (on_tiles && p == 0) continue;
                SCOPED_TRACE("with a bias");
                workload.relative_bias = true;
                Reserved with_bias(make_tested_backend("fp32"), workload);
                const auto bias = make_input("bias", storage, kRelativeBuckets, c.heads, rng, 1.5);
                body(storage, c, Dropout{p, {5, 6, 7}}, bias.get(), with_bias, rng);
                if (testing::Test::HasFatalFailure()) return;
            }
    }
}

View view_of(const Tensor* bias) {
    return bias == nullptr ? View{} : bias->view();
}

// Room for what the forward leaves of a dropout.
std::unique_ptr<Tensor> make_mask(const Case& c, const Tensor* bias, Reserved& tested) {
    Workload workload = workload_of(c);
    workload.relative_bias = bias != nullptr;
    return std::make_unique<Tensor>("mask", DType::kU8, 1, tested->attention_mask_bytes(workload));
}

TEST(Attention, Forward) {
    const auto truth = make_reference_backend();
    for_each_case([&](DType storage, const Case& c, const Dropout& dropout, const Tensor* bias,
                      Reserved& tested, Rng& rng) {
        const auto offsets = offsets_of(c.counts);
        const std::int64_t tokens = offsets.back();
        const auto qkv = make_input("qkv", storage, tokens, 3 * c.width, rng, 1.5);
        Tensor context("context", storage, tokens, c.width), lse("lse", DType::kF32, tokens, c.heads);
        Tensor econtext("exact context", DType::kF64, tokens, c.width),
            else_("exact lse", DType::kF64, tokens, c.heads);
        const auto mask = make_mask(c, bias, tested);
        tested->attention_forward({qkv->view(), offsets, c.heads, dropout, context.view(), lse.view(),
                                   view_of(bias), mask->view()});
        truth->attention_forward(
            {qkv->view(), offsets, c.heads, dropout, econtext.view(), else_.view(), view_of(bias)});
        Tensor error("error", DType::kF64, tokens, c.width),
            lse_error("lse error", DType::kF64, tokens, c.heads);
        for_each_head(c, *qkv, dropout, bias, [&](const Attention& a) {
            for (std::int64_t i = 0; i < a.n; ++i) {
                const auto row = a.row(i);
                lse_error.set(a.begin + i, a.h, a.lse_error(row));
                for (std::int64_t d = 0; d < a.size; ++d) {
                    double size = 0;
                    for (std::int64_t j = 0; j < a.n; ++j)
                        size += row.weight[j] * a.factor(i, j) * std::abs(a.v(j, d));
                    error.set(a.begin + i, a.h * a.size + d,
                              size * (a.operand_error(a.weight_error(row)) + sum_error(a.n + 2)));
                }
            }
        });
        expect_close(lse, else_, [&](auto t, auto h) { return lse_error(t, h); });
        expect_close(context, econtext, [&](auto t, auto d) { return error(t, d); });
        Tensor alone("context without lse and mask", storage, tokens, c.width);
        tested->attention_forward({qkv->view(), offsets, c.heads, dropout, alone.view(), {}, view_of(bias)});
        expect_same_bits(alone, context);
    });
}

// The backward of one batch, with the forward's results from the reference, except for the mask.
void expect_backward(DType storage, const Case& c, const Dropout& dropout, Reserved& tested,
                     const Tensor& qkv, const Tensor& dcontext, const Tensor* bias = nullptr) {
    const auto truth = make_reference_backend();
    const auto offsets = offsets_of(c.counts);
    const std::int64_t tokens = offsets.back();
    Tensor context("context", storage, tokens, c.width), lse("lse", DType::kF32, tokens, c.heads);
    truth->attention_forward(
        {qkv.view(), offsets, c.heads, dropout, context.view(), lse.view(), view_of(bias)});
    context.freeze();
    lse.freeze();
    const auto mask = make_mask(c, bias, tested);
    Tensor unused("context of the mask", storage, tokens, c.width);
    tested->attention_forward(
        {qkv.view(), offsets, c.heads, dropout, unused.view(), {}, view_of(bias), mask->view()});
    mask->freeze();
    Tensor dqkv("dqkv", storage, tokens, 3 * c.width), exact("exact", DType::kF64, tokens, 3 * c.width);
    // What is there stays: the bias's gradient is added.
    Tensor dbias("dbias", DType::kF32, kRelativeBuckets, c.heads),
        exact_dbias("exact dbias", DType::kF64, kRelativeBuckets, c.heads),
        dbias_error("dbias error", DType::kF64, kRelativeBuckets, c.heads);
    for (Tensor* tensor : {&dbias, &exact_dbias})
        tensor->fill([](auto r, auto) { return r == 1 ? 2.0 : 0.0; });
    dbias_error.fill([](auto, auto) { return 0; });
    tested->attention_backward({dcontext.view(),
                                qkv.view(),
                                context.view(),
                                lse.view(),
                                offsets,
                                c.heads,
                                dropout,
                                dqkv.view(),
                                view_of(bias),
                                bias == nullptr ? View{} : dbias.view(),
                                false,
                                {},
                                false,
                                mask->view()});
    truth->attention_backward({dcontext.view(), qkv.view(), context.view(), lse.view(), offsets, c.heads,
                               dropout, exact.view(), view_of(bias),
                               bias == nullptr ? View{} : exact_dbias.view()});
    Tensor error("error", DType::kF64, tokens, 3 * c.width);
    error.fill([](auto, auto) { return 0; });
    const auto grow = [&](std::int64_t t, std::int64_t column, double by) {
        error.set(t, column, error(t, column) + by);
    };
    for_each_head(c, qkv, dropout, bias, [&](const Attention& a) {
        const double scale = 1 / std::sqrt(static_cast<double>(a.size));
        for (std::int64_t i = 0; i < a.n; ++i) {
            const auto row = a.row(i);
            const double relative = a.weight_error_from_lse(row, u * std::abs(row.lse));
            std::vector<double> dp(static_cast<std::size_t>(a.n)), dp_error(dp.size());
            double delta = 0, delta_error = 0;
            for (std::int64_t j = 0; j < a.n; ++j) {
                double magnitude = 0;
                for (std::int64_t d = 0; d < a.size; ++d) {
                    const double term = dcontext(a.begin + i, a.h * a.size + d) * a.v(j, d);
                    dp[j] += term * a.factor(i, j);
                    magnitude += std::abs(term) * a.factor(i, j);
                    // dv
                    grow(a.begin + j, 2 * a.width + a.h * a.size + d,
                         row.weight[j] * a.factor(i, j) * std::abs(dcontext(a.begin + i, a.h * a.size + d)) *
                             (a.operand_error(relative) + sum_error(a.n + 2)));
                }
                dp_error[j] = sum_error(a.size + 2) * magnitude;
                delta += row.weight[j] * dp[j];
                delta_error += row.weight[j] * (1 + relative) *
                               (dp_error[j] + std::abs(dp[j]) * (relative + sum_error(a.n)));
            }
            if (a.on_tensor_cores()) {  // delta is the sum of dcontext * context, the context as stored
                delta_error = 0;
                for (std::int64_t d = 0; d < a.size; ++d) {
                    const std::int64_t column = a.h * a.size + d;
                    const double stored = context(a.begin + i, column);
                    delta_error += std::abs(dcontext(a.begin + i, column)) *
                                   (storing_error(storage, stored) * (1 + kBf16Roundoff) +
                                    sum_error(a.size) * std::abs(stored));
                }
                delta_error += 3 * u * std::abs(delta);  // divided by the dropout's scale, times the weight
            }
            for (std::int64_t j = 0; j < a.n; ++j) {
                const double difference = std::abs(dp[j] - delta);
                const double dscore = row.weight[j] * difference;
                const double dscore_error = dscore * (relative + 3 * u) +
                                            row.weight[j] * (1 + relative) * (dp_error[j] + delta_error);
                const std::int64_t bucket = relative_bucket(j - i);
                dbias_error.set(bucket, a.h,
                                dbias_error(bucket, a.h) + dscore_error +
                                    sum_error(offsets.back() + 3 * a.n + 64) * (dscore + dscore_error));
                for (std::int64_t d = 0; d < a.size; ++d) {  // the scales may come after the sum
                    const double by = dscore_error + sum_error(a.n + 6) * dscore +
                                      a.operand_error(0) * (dscore + dscore_error);
                    grow(a.begin + i, a.h * a.size + d, scale * std::abs(a.k(j, d)) * by);
                    grow(a.begin + j, a.width + a.h * a.size + d, scale * std::abs(a.q(i, d)) * by);
                }
            }
        }
    });
    expect_close(dqkv, exact, [&](auto t, auto d) { return error(t, d); });
    if (bias != nullptr)
        expect_close(dbias, exact_dbias, [&](auto r, auto h) { return dbias_error(r, h) + 4 * u; });
}

TEST(Attention, Backward) {
    for_each_case([&](DType storage, const Case& c, const Dropout& dropout, const Tensor* bias,
                      Reserved& tested, Rng& rng) {
        const std::int64_t tokens = offsets_of(c.counts).back();
        const auto qkv = make_input("qkv", storage, tokens, 3 * c.width, rng, 1.5);
        const auto dcontext = make_input("dcontext", storage, tokens, c.width, rng);
        expect_backward(storage, c, dropout, tested, *qkv, *dcontext, bias);
    });
}

// The backward that computes the context again, and the column sums that come with it.
void expect_again(DType storage, const Case& c, const Dropout& dropout, Reserved& tested, Rng& rng,
                  const Tensor* bias = nullptr) {
    const auto offsets = offsets_of(c.counts);
    const std::int64_t tokens = offsets.back();
    const auto qkv = make_input("qkv", storage, tokens, 3 * c.width, rng, 1.5);
    const auto dcontext = make_input("dcontext", storage, tokens, c.width, rng);
    Tensor context("context", storage, tokens, c.width), lse("lse", DType::kF32, tokens, c.heads);
    const auto kept = make_mask(c, bias, tested);
    tested->attention_forward(
        {qkv->view(), offsets, c.heads, dropout, context.view(), lse.view(), view_of(bias), kept->view()});
    const auto backward = [&](const Tensor& with, const Tensor& log_sums, const Tensor& mask,
                              const Tensor& dqkv, bool again, View qkv_dbias, bool accumulate) {
        Tensor dbias("dbias", DType::kF32, kRelativeBuckets, c.heads);
        dbias.fill([](auto, auto) { return 0.0; });
        tested->attention_backward({dcontext->view(), qkv->view(), with.view(), log_sums.view(), offsets,
                                    c.heads, dropout, dqkv.view(), view_of(bias),
                                    bias == nullptr ? View{} : dbias.view(), again, qkv_dbias, accumulate,
                                    mask.view()});
        return dbias.bytes();
    };
    Tensor plain("dqkv", storage, tokens, 3 * c.width);
    const auto plain_dbias = backward(context, lse, *kept, plain, false, {}, false);
    for (const bool again : {false, true})
        for (const DType gradients : {storage, DType::kF32})
            for (const bool accumulate : {false, true}) {
                Tensor second("context again", storage, tokens, c.width),
                    room("room of lse", DType::kF32, tokens, c.heads),
                    dqkv("dqkv with sums", storage, tokens, 3 * c.width),
                    sums("sums of dqkv", gradients, 1, 3 * c.width);
                const auto room_of_mask = make_mask(c, bias, tested);
                const auto start = make_input("sums before", gradients, 1, 3 * c.width, rng);
                if (accumulate) sums.copy(*start);
                const auto dbias =
                    again ? backward(second, room, *room_of_mask, dqkv, true, sums.view(), accumulate)
                          : backward(context, lse, *kept, dqkv, false, sums.view(), accumulate);
                if (again) expect_same_bits(second, context);
                expect_same_bits(dqkv, plain);
                EXPECT_EQ(dbias, plain_dbias);
                expect_column_sums(sums, dqkv, accumulate ? start.get() : nullptr);
            }
}

TEST(Attention, BackwardComputesTheContextAgainAndSums) {
    for_each_case([&](DType storage, const Case& c, const Dropout& dropout, const Tensor* bias,
                      Reserved& tested, Rng& rng) { expect_again(storage, c, dropout, tested, rng, bias); });
}

// Of every power that codes have: numbers that are codes stay, others become the nearest.
TEST(QkvCodes, AreTheNearest) {
    for (std::uint32_t e = 8; e < 254; ++e) {
        const auto exponent = static_cast<std::uint8_t>(e);
        const double step = std::ldexp(1.0, static_cast<int>(e) - 133);
        for (std::uint32_t code = 0; code < 256; ++code) {
            const auto byte = static_cast<std::uint8_t>(code);
            const float x = qkv_of(byte, exponent);
            ASSERT_EQ(x, (code < 128 ? 1 : -1) * static_cast<double>(code % 128) * step);
            ASSERT_EQ(to_float(to_bf16(x)), x);
            ASSERT_EQ(qkv_code(x, exponent), byte);
        }
        const float largest = qkv_of(127, exponent);
        ASSERT_EQ(qkv_exponent(magnitude_bits(largest)), exponent);
        ASSERT_EQ(qkv_exponent(magnitude_bits(static_cast<float>(126 * step))), exponent);
        // What would be rounded to 128 takes the next power.
        const auto limit = static_cast<float>(127.5 * step);
        ASSERT_EQ(qkv_exponent(magnitude_bits(std::nextafter(limit, 0.0f))), exponent);
        ASSERT_EQ(qkv_code(std::nextafter(limit, 0.0f), exponent), 127);
        ASSERT_EQ(qkv_exponent(magnitude_bits(limit)), e == 253 ? kQkvNan : exponent + 1);
        for (int count = 0; count < 127; ++count) {
            const auto middle = static_cast<float>((count + 0.5) * step);
            ASSERT_EQ(qkv_code(middle, exponent), count + count % 2);
            ASSERT_EQ(qkv_code(std::nextafter(middle, 0.0f), exponent), count);
            ASSERT_EQ(qkv_code(-std::nextafter(middle, INFINITY), exponent), 128 + count + 1);
        }
    }
    EXPECT_EQ(qkv_exponent(0), 8);
    EXPECT_EQ(qkv_exponent(1), 8);
    EXPECT_EQ(qkv_code(0x1p-126f, 8), 0);  // half a step
    EXPECT_EQ(qkv_code(0x1.8p-126f, 8), 1);
    EXPECT_EQ(qkv_code(-0x1p-133f, 8), 128);
    for (const float x : {INFINITY, std::nanf(""), -INFINITY, 0x1.fep126f, 0x1.fep127f})
        EXPECT_EQ(qkv_exponent(magnitude_bits(x)), kQkvNan) << x;
    EXPECT_TRUE(std::isnan(qkv_of(0, kQkvNan)));
    EXPECT_TRUE(std::isnan(qkv_of(255, kQkvNan)));
}

// q, k and v of one batch as codes.
struct Coded {
    Tensor codes, exponents;
    Coded(std::int64_t tokens, const Case& c)
        : codes("codes", DType::kU8, tokens, 3 * c.width),
          exponents("exponents", DType::kU8, 3 * c.heads, tokens) {}
};
// What codes of it stand for, as a tensor; `coded`, where given, receives the codes.
std::unique_ptr<Tensor> rounded(const Tensor& qkv, const Case& c, Coded* coded = nullptr) {
    auto result = std::make_unique<Tensor>("rounded qkv", qkv.dtype(), qkv.rows(), qkv.cols());
    const std::int64_t size = c.width / c.heads;
    for (std::int64_t t = 0; t < qkv.rows(); ++t)
        for (std::int64_t n = 0; n < 3 * c.heads; ++n) {
            float largest = 0;
            for (std::int64_t d = n * size; d < (n + 1) * size; ++d)
                largest = std::max(largest, static_cast<float>(std::abs(qkv(t, d))));
            const std::uint8_t exponent = qkv_exponent(magnitude_bits(largest));
            if (coded != nullptr) coded->exponents.view().codes()[n * qkv.rows() + t] = exponent;
            for (std::int64_t d = n * size; d < (n + 1) * size; ++d) {
                const std::uint8_t code = qkv_code(static_cast<float>(qkv(t, d)), exponent);
                if (coded != nullptr) coded->codes.view().codes()[t * qkv.cols() + d] = code;
                result->set(t, d, qkv_of(code, exponent));
            }
        }
    result->freeze();
    return result;
}

// The forward's other results do not change, and codes are the reference's, bit for bit. The backward from
// codes, and that of numbers which it rounds itself, have the bits of the backward of rounded numbers.
TEST(Attention, CodesOfQueriesKeysAndValues) {
    for_each_case([&](DType storage, const Case& c, const Dropout& dropout, const Tensor* bias,
                      Reserved& tested, Rng& rng) {
        const auto offsets = offsets_of(c.counts);
        const std::int64_t tokens = offsets.back();
        // Vectors of zeros, of the largest codes, of small numbers and of large ones.
        Tensor qkv("qkv", storage, tokens, 3 * c.width);
        std::normal_distribution<double> normal(0, 1.5);
        qkv.fill([&](auto t, auto d) {
            const auto kind = (t + d / (c.width / c.heads)) % 11;
            const double x = normal(rng);
            return kind == 0   ? 0.0
                   : kind == 1 ? (d % 2 == 0 ? 1.9921875 : 1.984375)
                   : kind == 2 ? x / 1e4
                               : x;
        });
        qkv.freeze();
        const auto dcontext = make_input("dcontext", storage, tokens, c.width, rng);
        Coded expected(tokens, c), coded(tokens, c), of_truth(tokens, c);
        const auto exact = rounded(qkv, c, &expected);
        Tensor context("context", storage, tokens, c.width), lse("lse", DType::kF32, tokens, c.heads),
            context_too("context beside codes", storage, tokens, c.width),
            lse_too("lse beside codes", DType::kF32, tokens, c.heads);
        const auto mask = make_mask(c, bias, tested), mask_too = make_mask(c, bias, tested);
        tested->attention_forward(
            {qkv.view(), offsets, c.heads, dropout, context.view(), lse.view(), view_of(bias), mask->view()});
        tested->attention_forward({qkv.view(), offsets, c.heads, dropout, context_too.view(), lse_too.view(),
                                   view_of(bias), mask_too->view(), false, coded.codes.view(),
                                   coded.exponents.view()});
        if (tokens < 64) {  // where the reference does not take long
            Tensor unused("exact context", DType::kF64, tokens, c.width);
            make_reference_backend()->attention_forward({qkv.view(),
                                                         offsets,
                                                         c.heads,
                                                         dropout,
                                                         unused.view(),
                                                         {},
                                                         view_of(bias),
                                                         {},
                                                         false,
                                                         of_truth.codes.view(),
                                                         of_truth.exponents.view()});
            expect_same_bits(of_truth.codes, expected.codes);
            expect_same_bits(of_truth.exponents, expected.exponents);
        }
        expect_same_bits(context_too, context);
        expect_same_bits(lse_too, lse);
        expect_same_bits(coded.codes, expected.codes);
        expect_same_bits(coded.exponents, expected.exponents);
        if (testing::Test::HasFatalFailure()) return;
        coded.codes.freeze();
        coded.exponents.freeze();

        struct Results {
            Tensor context, dqkv, sums, dbias;
            Results(DType storage, std::int64_t tokens, const Case& c)
                : context("context again", storage, tokens, c.width),
                  dqkv("dqkv", storage, tokens, 3 * c.width),
                  sums("sums of dqkv", DType::kF32, 1, 3 * c.width),
                  dbias("dbias", DType::kF32, kRelativeBuckets, c.heads) {
                dbias.fill([](auto, auto) { return 0.0; });
            }
        };
        const auto backward = [&](const Tensor& numbers, const Coded* codes, bool rounds, Results& results) {
            Tensor room("room of lse", DType::kF32, tokens, c.heads);
            const auto room_of_mask = make_mask(c, bias, tested);
            tested->attention_backward({dcontext->view(), numbers.view(), results.context.view(), room.view(),
                                        offsets, c.heads, dropout, results.dqkv.view(), view_of(bias),
                                        bias == nullptr ? View{} : results.dbias.view(), true,
                                        results.sums.view(), false, room_of_mask->view(), false,
                                        codes == nullptr ? View{} : codes->codes.view(),
                                        codes == nullptr ? View{} : codes->exponents.view(), rounds});
        };
        Tensor copy("qkv to be rounded", storage, tokens, 3 * c.width),
            room("room of qkv", storage, tokens, 3 * c.width);
        copy.copy(qkv);
        Results plain(storage, tokens, c), from_codes(storage, tokens, c), again(storage, tokens, c);
        backward(*exact, nullptr, false, plain);
        backward(room, &coded, false, from_codes);
        backward(copy, nullptr, true, again);
        expect_same_bits(copy, *exact);
        for (const Results* other : {&from_codes, &again}) {
            expect_same_bits(other->context, plain.context);
            expect_same_bits(other->dqkv, plain.dqkv);
            expect_same_bits(other->sums, plain.sums);
            if (bias != nullptr) expect_same_bits(other->dbias, plain.dbias);
        }
    });
}

// A number that is not finite leaves NaN in the gradients of its text and head, and in no others.
TEST(Attention, CodesOfInfinitiesAreSeen) {
    for (const Case& c : {Case{{3, 40, 9}, 128, 2}, Case{{20, 5}, 6, 2}, Case{{140, 3}, 64, 2}})
        for (const double bad : {std::nan(""), static_cast<double>(INFINITY), 3.3e38}) {
            Rng rng(37);
            Reserved tested(make_tested_backend("fp32"), workload_of(c));
            const auto offsets = offsets_of(c.counts);
            const std::int64_t tokens = offsets.back(), size = c.width / c.heads;
            Tensor qkv("qkv", DType::kBf16, tokens, 3 * c.width);
            qkv.copy(*make_input("qkv", DType::kBf16, tokens, 3 * c.width, rng));
            qkv.set(1, 2 * c.width + size, bad);  // v of head 1 in the first text
            qkv.freeze();
            const auto dcontext = make_input("dcontext", DType::kBf16, tokens, c.width, rng);
            Coded coded(tokens, c);
            Tensor context("context", DType::kBf16, tokens, c.width),
                lse("lse", DType::kF32, tokens, c.heads), dqkv("dqkv", DType::kBf16, tokens, 3 * c.width),
                room("room of qkv", DType::kBf16, tokens, 3 * c.width);
            const auto mask = make_mask(c, nullptr, tested);
            tested->attention_forward({qkv.view(),
                                       offsets,
                                       c.heads,
                                       {},
                                       context.view(),
                                       lse.view(),
                                       {},
                                       mask->view(),
                                       false,
                                       coded.codes.view(),
                                       coded.exponents.view()});
            tested->attention_backward({dcontext->view(),
                                        room.view(),
                                        context.view(),
                                        lse.view(),
                                        offsets,
                                        c.heads,
                                        {},
                                        dqkv.view(),
                                        {},
                                        {},
                                        true,
                                        {},
                                        false,
                                        mask->view(),
                                        false,
                                        coded.codes.view(),
                                        coded.exponents.view()});
            for (std::int64_t t = 0; t < tokens; ++t)
                for (std::int64_t d = 0; d < 2 * c.width; ++d) {
                    const bool seen = t < c.counts[0] && d % c.width >= size && d % c.width < 2 * size;
                    ASSERT_EQ(std::isnan(dqkv(t, d)), seen) << t << ", " << d;
                }
        }
}

// Gradients of rounded numbers near those of the numbers themselves, in FP64. Where a vector x is off by at
// most |dx|, scores are off by s = (|dq||k| + |q||dk| + |dq||dk|) / sqrt(size), so weights by a share of
// w = e^(2 s) - 1, the gradients of weights by |dcontext||dv|, and what is multiplied with them by dq and dk.
TEST(Attention, GradientsOfCodesAreClose) {
    const auto truth = make_reference_backend();
    for (const Case& c : {Case{{1}, 8, 1}, Case{{31, 5}, 64, 2}, Case{{129}, 64, 1}, Case{{20, 33}, 15, 3}}) {
        Rng rng(41);
        const auto offsets = offsets_of(c.counts);
        const std::int64_t tokens = offsets.back(), size = c.width / c.heads;
        const auto qkv = make_input("qkv", DType::kBf16, tokens, 3 * c.width, rng);
        const auto near = rounded(*qkv, c);
        const auto dcontext = make_input("dcontext", DType::kBf16, tokens, c.width, rng);
        Tensor exact("exact", DType::kF64, tokens, 3 * c.width),
            found("dqkv", DType::kF64, tokens, 3 * c.width), context("context", DType::kF64, tokens, c.width),
            error("error", DType::kF64, tokens, 3 * c.width);
        error.fill([](auto, auto) { return 0; });
        for (const auto& [numbers, to] : {std::pair{qkv.get(), &exact}, std::pair{near.get(), &found}})
            truth->attention_backward({dcontext->view(),
                                       numbers->view(),
                                       context.view(),
                                       {},
                                       offsets,
                                       c.heads,
                                       {},
                                       to->view(),
                                       {},
                                       {},
                                       true});
        for_each_head(c, *qkv, {}, nullptr, [&](const Attention& a) {
            const auto norm = [&](const auto& x) {
                double sum = 0;
                for (std::int64_t d = 0; d < size; ++d) sum += x(d) * x(d);
                return std::sqrt(sum);
            };
            const auto column = [&](int part, std::int64_t d) { return part * c.width + a.h * size + d; };
            // |x| and |dx| of q, k or v of a token of the text.
            const auto of = [&](int part, std::int64_t i) {
                return norm([&](auto d) { return (*qkv)(a.begin + i, column(part, d)); });
            };
            const auto off = [&](int part, std::int64_t i) {
                return norm([&](auto d) {
                    return (*qkv)(a.begin + i, column(part, d)) - (*near)(a.begin + i, column(part, d));
                });
            };
            const auto grow = [&](std::int64_t i, int part, std::int64_t d, double by) {
                error.set(a.begin + i, column(part, d), error(a.begin + i, column(part, d)) + by);
            };
            for (std::int64_t i = 0; i < a.n; ++i) {
                const auto row = a.row(i);
                const double dout = norm([&](auto d) { return (*dcontext)(a.begin + i, column(0, d)); });
                const double scale = 1 / std::sqrt(static_cast<double>(size));
                double score = 0;
                for (std::int64_t j = 0; j < a.n; ++j)
                    score = std::max(
                        score, scale * (off(0, i) * of(1, j) + of(0, i) * off(1, j) + off(0, i) * off(1, j)));
                const double share = std::expm1(2 * score);
                std::vector<double> dp(static_cast<std::size_t>(a.n));
                double delta = 0, delta_error = 0;
                for (std::int64_t j = 0; j < a.n; ++j) {
                    for (std::int64_t d = 0; d < size; ++d)
                        dp[j] += (*dcontext)(a.begin + i, column(0, d)) * a.v(j, d);
                    delta += row.weight[j] * dp[j];
                    delta_error += row.weight[j] * ((1 + share) * dout * off(2, j) + share * std::abs(dp[j]));
                }
                for (std::int64_t j = 0; j < a.n; ++j) {
                    const double dscore = row.weight[j] * std::abs(dp[j] - delta);
                    const double dscore_error =
                        share * dscore + (1 + share) * row.weight[j] * (dout * off(2, j) + delta_error);
                    for (std::int64_t d = 0; d < size; ++d) {
                        grow(j, 2, d,
                             row.weight[j] * share * std::abs((*dcontext)(a.begin + i, column(0, d))));
                        const auto by = [&](int part, std::int64_t token) {
                            const double x = (*qkv)(a.begin + token, column(part, d));
                            const double dx = std::abs(x - (*near)(a.begin + token, column(part, d)));
                            return scale * (dscore_error * (std::abs(x) + dx) + dscore * dx);
                        };
                        grow(i, 0, d, by(1, j));
                        grow(j, 1, d, by(0, i));
                    }
                }
            }
        });
        expect_close(found, exact, [&](auto t, auto d) { return error(t, d); });
        double off = 0, all = 0;
        for (std::int64_t t = 0; t < tokens; ++t)
            for (std::int64_t d = 0; d < 3 * c.width; ++d) {
                off += (found(t, d) - exact(t, d)) * (found(t, d) - exact(t, d));
                all += exact(t, d) * exact(t, d);
            }
        // Not a bound: of normal deviates a vector is off by about 1/100 of itself.
        EXPECT_LT(std::sqrt(off), 0.03 * std::sqrt(all));
        EXPECT_EQ(off > 0, tokens > 1);
    }
}

// More texts than a GPU has partial sums for.
TEST(Attention, SumsOfManyTexts) {
    for (const std::size_t texts : {1024, 1025}) {
        const Case c{std::vector<std::int32_t>(texts, 2), 64, 1};
        Rng rng(31);
        Reserved tested(make_tested_backend("fp32"), workload_of(c));
        expect_again(DType::kBf16, c, Dropout{0.25f, {5, 6, 7}}, tested, rng);
    }
}

// All scores near -1152: e^-lse, the weight of a key of zeros past the text's end, is infinite.
TEST(Attention, ScoresFarBelowZero) {
    for (const Case& c :
         {Case{{17, 1, 31}, 64, 1}, Case{{50, 9}, 64, 1}, Case{{100}, 64, 1}, Case{{150}, 64, 1}}) {
        Rng rng(29);
        Reserved tested(make_tested_backend("fp32"), workload_of(c));
        const std::int64_t tokens = offsets_of(c.counts).back();
        Tensor qkv("qkv", DType::kBf16, tokens, 3 * c.width);
        qkv.fill([&](auto t, auto d) {
            return d < 64 ? 12.0 : d < 128 ? -12.0 : static_cast<double>((7 * t + d) % 5 - 2);
        });
        qkv.freeze();
        const auto dcontext = make_input("dcontext", DType::kBf16, tokens, c.width, rng);
        expect_backward(DType::kBf16, c, Dropout{0.25f, {5, 6, 7}}, tested, qkv, *dcontext);
    }
}

// Scores far apart: the softmax is one-hot, nothing overflows.
TEST(Attention, LargeScores) {
    const Case c{{5}, 2, 1};
    Reserved tested(make_tested_backend("fp32"), workload_of(c));
    const auto offsets = offsets_of(c.counts);
    Tensor qkv("qkv", DType::kF32, 5, 6), context("context", DType::kF32, 5, 2),
        lse("lse", DType::kF32, 5, 1);
    qkv.fill([](auto t, auto d) {
        return d < 2 ? 300.0 : d < 4 ? static_cast<double>(t) : static_cast<double>(t * t);
    });
    qkv.freeze();
    tested->attention_forward({qkv.view(), offsets, 1, {}, context.view(), lse.view()});
    for (std::int64_t t = 0; t < 5; ++t) {
        EXPECT_EQ(context(t, 0), 16);
        EXPECT_EQ(context(t, 1), 16);
        EXPECT_NEAR(lse(t, 0), 2 * 300 * 4 / std::sqrt(2.0), 1e-3);
    }
}

TEST(Attention, RunsAndThreadsDoNotMatter) {
    const Case c{{19, 3, 40}, 24, 4};
    const auto offsets = offsets_of(c.counts);
    std::vector<std::vector<unsigned char>> results;
    for (const int threads : {1, 2, 3}) {
        Rng rng(3);
        Workload workload = workload_of(c);
        workload.relative_bias = true;
        Reserved tested(make_tested_backend("fp32", threads), workload);
        const Dropout dropout{0.1f, {1, 1, 1}};
        const auto bias = make_input("bias", DType::kBf16, kRelativeBuckets, 4, rng);
        Tensor dbias("dbias", DType::kF32, kRelativeBuckets, 4);
        dbias.fill([](auto, auto) { return 0.0; });
        const auto qkv = make_input("qkv", DType::kBf16, offsets.back(), 72, rng);
        const auto dcontext = make_input("dcontext", DType::kBf16, offsets.back(), 24, rng);
        Tensor context("context", DType::kBf16, offsets.back(), 24),
            lse("lse", DType::kF32, offsets.back(), 4);
        Tensor dqkv("dqkv", DType::kBf16, offsets.back(), 72);
        tested->attention_forward(
            {qkv->view(), offsets, 4, dropout, context.view(), lse.view(), bias->view()});
        tested->attention_backward({dcontext->view(), qkv->view(), context.view(), lse.view(), offsets, 4,
                                    dropout, dqkv.view(), bias->view(), dbias.view()});
        auto all = context.bytes();
        for (const auto b : dqkv.bytes()) all.push_back(b);
        for (const auto b : dbias.bytes()) all.push_back(b);
        results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace elmo::testing_ops::attention_test
