#include "backend/cpu/head/few_texts.h"

#include <cstring>

#include "base/clones.h"
#include "elmo/error.h"

namespace elmo::cpu {
namespace {

constexpr std::int64_t kWordsAtOnce = 16, kLoopWeights = 64;

using Floats = float __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));

// A storage: how many weights a word of 32 bits has, and number j of each of 16 words. Codes as in
// loops/convert.cpp: subnormal ones through a number with a hidden one, which is then subtracted. (Vectors
// are not returned: that would depend on the processor.)
template <int kMantissa, int kBias>
struct Codes {
    static constexpr int kPerWord = 4;
    template <int j>
    static inline __attribute__((always_inline)) void get(const Words& words, Floats& to) {
        constexpr int kUp = 23 - kMantissa - 8 * j;
        constexpr std::uint32_t kMagnitude = 0x7fu << (23 - kMantissa), kSign = 0x80000000u;
        constexpr std::uint32_t kOffset = static_cast<std::uint32_t>(127 - kBias) << 23;
        constexpr std::uint32_t kOne = static_cast<std::uint32_t>(128 - kBias) << 23;
        const Words shifted = (kUp >= 0 ? words << (kUp & 31) : words >> (-kUp & 31)) & kMagnitude;
        const Floats subnormal = (Floats)(shifted | kOne) - (Floats)(Words{} + kOne);
        const Words size = shifted < (1u << 23) ? (Words)subnormal : shifted + kOffset;
        to = (Floats)(size | ((words << (24 - 8 * j)) & kSign));
    }
};
struct Halves {
    static constexpr int kPerWord = 2;
    template <int j>
    static inline __attribute__((always_inline)) void get(const Words& words, Floats& to) {
        to = (Floats)(j == 0 ? words << 16 : words & 0xffff0000u);
    }
};
struct Whole {
    static constexpr int kPerWord = 1;
    template <int j>
    static inline __attribute__((always_inline)) void get(const Words& words, Floats& to) {
        to = (Floats)words;
    }
};

// sums[s][k] += weights k * 16 to k * 16 + 15 of the block's order times those of text s.
template <class Storage, int kTexts, int k>
inline __attribute__((always_inline)) void add_quarter(const unsigned char* w, const float* x,
                                                       std::int64_t stride, Floats (&sums)[kTexts][4]) {
    Words words;
    std::memcpy(&words, w + k / Storage::kPerWord * static_cast<int>(sizeof(words)), sizeof(words));
    Floats weights, of_text;
    Storage::template get<k % Storage::kPerWord>(words, weights);
    for (int s = 0; s < kTexts; ++s) {
        std::memcpy(&of_text, x + s * stride + k * kWordsAtOnce, sizeof(of_text));
        sums[s][k] += weights * of_text;
    }
}
template <class Storage, int kTexts>
inline __attribute__((always_inline)) void add_block(const unsigned char* w, const float* x,
                                                     std::int64_t stride, Floats (&sums)[kTexts][4]) {
    add_quarter<Storage, kTexts, 0>(w, x, stride, sums);
    add_quarter<Storage, kTexts, 1>(w, x, stride, sums);
    add_quarter<Storage, kTexts, 2>(w, x, stride, sums);
    add_quarter<Storage, kTexts, 3>(w, x, stride, sums);
}

template <class Storage, int kTexts>
inline __attribute__((always_inline)) void multiply(const unsigned char* w, const float* x, float* logits,
                                                    std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t kWeight = 4 / Storage::kPerWord;  // bytes
    const std::int64_t whole = width / kLoopWeights * kLoopWeights, rest = width - whole,
                       stride = staged_width(width);
    unsigned char last[kLoopWeights * kWeight] = {};  // a row's last weights, and zeros
    for (std::int64_t r = 0; r < rows; ++r, w += width * kWeight) {
        Floats sums[kTexts][4] = {};
        for (std::int64_t i = 0; i < whole; i += kLoopWeights)
            add_block<Storage, kTexts>(w + i * kWeight, x + i, stride, sums);
        if (rest > 0) {
            std::memcpy(last, w + whole * kWeight, static_cast<std::size_t>(rest * kWeight));
            add_block<Storage, kTexts>(last, x + whole, stride, sums);
        }
        for (int s = 0; s < kTexts; ++s) {
            const Floats sum = (sums[s][0] + sums[s][1]) + (sums[s][2] + sums[s][3]);
            float total = 0;
            for (int lane = 0; lane < kWordsAtOnce; ++lane) total += sum[lane];
            logits[s * rows + r] = total;
        }
    }
}

using Multiply = void(const unsigned char* w, const float* x, float* logits, std::int64_t rows,
                      std::int64_t width);
#define ELMO_FEW_TEXTS(NAME, TEXTS, ...)                                                            \
    ELMO_CLONES void NAME(const unsigned char* w, const float* x, float* logits, std::int64_t rows, \
                          std::int64_t width) {                                                     \
        multiply<__VA_ARGS__, TEXTS>(w, x, logits, rows, width);                                    \
    }
ELMO_FEW_TEXTS(f32_1, 1, Whole)
ELMO_FEW_TEXTS(f32_2, 2, Whole)
ELMO_FEW_TEXTS(f32_4, 4, Whole)
ELMO_FEW_TEXTS(bf16_1, 1, Halves)
ELMO_FEW_TEXTS(bf16_2, 2, Halves)
ELMO_FEW_TEXTS(bf16_4, 4, Halves)
ELMO_FEW_TEXTS(e4m3_1, 1, Codes<3, 7>)
ELMO_FEW_TEXTS(e4m3_2, 2, Codes<3, 7>)
ELMO_FEW_TEXTS(e4m3_4, 4, Codes<3, 7>)
ELMO_FEW_TEXTS(e3m4_1, 1, Codes<4, 7>)
ELMO_FEW_TEXTS(e3m4_2, 2, Codes<4, 7>)
ELMO_FEW_TEXTS(e3m4_4, 4, Codes<4, 7>)
ELMO_FEW_TEXTS(e2m5_1, 1, Codes<5, 1>)
ELMO_FEW_TEXTS(e2m5_2, 2, Codes<5, 1>)
ELMO_FEW_TEXTS(e2m5_4, 4, Codes<5, 1>)
#undef ELMO_FEW_TEXTS

struct Kernels {
    std::int64_t per_word;
    Multiply *one, *two, *four;
};

Kernels kernels_of(DType storage) {
    switch (storage) {
        case DType::kF32:
            return {1, f32_1, f32_2, f32_4};
        case DType::kBf16:
            return {2, bf16_1, bf16_2, bf16_4};
        case DType::kE4M3:
            return {4, e4m3_1, e4m3_2, e4m3_4};
        case DType::kE3M4:
            return {4, e3m4_1, e3m4_2, e3m4_4};
        case DType::kU8:
            return {4, e2m5_1, e2m5_2, e2m5_4};
        default:
            throw DeviceError("logits of few texts: a CPU holds f32, bf16 and 8-bit weights");
    }
}

}  // namespace

void stage_few(const float* x_BD, std::int64_t texts, std::int64_t width, DType storage, float* staged) {
    const std::int64_t per_word = kernels_of(storage).per_word, each = kWordsAtOnce * per_word;
    for (std::int64_t t = 0; t < texts; ++t)
        for (std::int64_t i = 0; i < staged_width(width); ++i) {
            const std::int64_t in_words = i % each;
            const std::int64_t column =
                i - in_words + in_words % kWordsAtOnce * per_word + in_words / kWordsAtOnce;
            staged[t * staged_width(width) + i] = column < width ? x_BD[t * width + column] : 0.0f;
        }
}

void logits_of_few(const View& w_LD, const float* staged, std::int64_t texts, float* logits) {
    const Kernels kernels = kernels_of(w_LD.dtype);
    const auto* w = static_cast<const unsigned char*>(w_LD.data);
    for (std::int64_t t = 0; t < texts;) {
        const std::int64_t n = texts - t >= 4 ? 4 : texts - t >= 2 ? 2 : 1;
        Multiply* multiply_them = n == 4 ? kernels.four : n == 2 ? kernels.two : kernels.one;
        multiply_them(w, staged + t * staged_width(w_LD.cols), logits + t * w_LD.rows, w_LD.rows, w_LD.cols);
        t += n;
    }
}

}  // namespace elmo::cpu
