#include "backend/cpu/loops/noise.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clones.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own intrinsics
#endif

namespace elmo::cpu {
namespace {

constexpr int kLanes = 16;  // Philox blocks computed side by side

// Sixteen consecutive blocks of a row: 128 columns. Written as loops over lanes so that the compiler
// keeps each word of all blocks in one vector.
inline void noise_blocks(const NoiseKey& key, std::int64_t row, std::uint32_t first_block,
                         std::uint16_t* out) {
    const auto urow = static_cast<std::uint64_t>(row);
    std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    const std::uint32_t last = (static_cast<std::uint32_t>(urow >> 32) & 0xffu) | (key.stream << 8) |
                               (static_cast<std::uint32_t>(key.step >> 32) << 24);
    for (int l = 0; l < kLanes; ++l) {
        c0[l] = first_block + static_cast<std::uint32_t>(l);
        c1[l] = static_cast<std::uint32_t>(urow);
        c2[l] = static_cast<std::uint32_t>(key.step);
        c3[l] = last;
    }
    auto key0 = static_cast<std::uint32_t>(key.seed), key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
        for (int l = 0; l < kLanes; ++l) {
            const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[l];
            const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[l];
            c0[l] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[l] ^ key0;
            c1[l] = static_cast<std::uint32_t>(p1);
            c2[l] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[l] ^ key1;
            c3[l] = static_cast<std::uint32_t>(p0);
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int l = 0; l < kLanes; ++l) {
        const std::uint32_t words[4] = {c0[l], c1[l], c2[l], c3[l]};
        for (int w = 0; w < 4; ++w) {
            out[8 * l + 2 * w] = static_cast<std::uint16_t>(words[w]);
            out[8 * l + 2 * w + 1] = static_cast<std::uint16_t>(words[w] >> 16);
        }
    }
}

#if defined(__x86_64__)
// The same sixteen blocks in AVX-512: the compiler does not find the widening multiply by itself.
__attribute__((target("avx512f"))) inline void multiply_wide(__m512i a, __m512i factor, __m512i& high,
                                                             __m512i& low) {
    const __m512i even = _mm512_mul_epu32(a, factor);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
    high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

__attribute__((target("avx512f"))) void noise_blocks_avx512(const NoiseKey& key, std::int64_t row,
                                                            std::uint32_t first_block, std::uint16_t* out) {
    const auto urow = static_cast<std::uint64_t>(row);
    const std::uint32_t last = (static_cast<std::uint32_t>(urow >> 32) & 0xffu) | (key.stream << 8) |
                               (static_cast<std::uint32_t>(key.step >> 32) << 24);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i c0 = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first_block)), lanes);
    __m512i c1 = _mm512_set1_epi32(static_cast<int>(urow));
    __m512i c2 = _mm512_set1_epi32(static_cast<int>(key.step));
    __m512i c3 = _mm512_set1_epi32(static_cast<int>(last));
    const __m512i factor0 = _mm512_set1_epi32(static_cast<int>(0xD2511F53u));
    const __m512i factor1 = _mm512_set1_epi32(static_cast<int>(0xCD9E8D57u));
    auto key0 = static_cast<std::uint32_t>(key.seed), key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
        __m512i high0, low0, high1, low1;
        multiply_wide(c0, factor0, high0, low0);
        multiply_wide(c2, factor1, high1, low1);
        c0 = _mm512_ternarylogic_epi32(high1, c1, _mm512_set1_epi32(static_cast<int>(key0)), 0x96);
        c2 = _mm512_ternarylogic_epi32(high0, c3, _mm512_set1_epi32(static_cast<int>(key1)), 0x96);
        c1 = low1;
        c3 = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    // Four vectors of one word per block to sixteen blocks of four words.
    const __m512i ab_low = _mm512_unpacklo_epi32(c0, c1), ab_high = _mm512_unpackhi_epi32(c0, c1);
    const __m512i cd_low = _mm512_unpacklo_epi32(c2, c3), cd_high = _mm512_unpackhi_epi32(c2, c3);
    const __m512i q0 = _mm512_unpacklo_epi64(ab_low, cd_low), q1 = _mm512_unpackhi_epi64(ab_low, cd_low);
    const __m512i q2 = _mm512_unpacklo_epi64(ab_high, cd_high), q3 = _mm512_unpackhi_epi64(ab_high, cd_high);
    // q_i holds blocks i, 4+i, 8+i, 12+i in its 128-bit quarters.
    const __m512i q01_low = _mm512_shuffle_i32x4(q0, q1, 0x44), q01_high = _mm512_shuffle_i32x4(q0, q1, 0xee);
    const __m512i q23_low = _mm512_shuffle_i32x4(q2, q3, 0x44), q23_high = _mm512_shuffle_i32x4(q2, q3, 0xee);
    auto* to = reinterpret_cast<__m512i*>(out);
    _mm512_storeu_si512(to + 0, _mm512_shuffle_i32x4(q01_low, q23_low, 0x88));
    _mm512_storeu_si512(to + 1, _mm512_shuffle_i32x4(q01_low, q23_low, 0xdd));
    _mm512_storeu_si512(to + 2, _mm512_shuffle_i32x4(q01_high, q23_high, 0x88));
    _mm512_storeu_si512(to + 3, _mm512_shuffle_i32x4(q01_high, q23_high, 0xdd));
}

// In AVX2 a word of four blocks is the low half of each 64-bit lane. What the high halves hold does not
// matter until the end: the multiply reads low halves only.
struct FourBlocks {
    __m256i c0, c1, c2, c3;
};
__attribute__((target("avx2"))) inline __m256i in_all_lanes(std::uint32_t x) {
    return _mm256_set1_epi32(static_cast<int>(x));
}
__attribute__((target("avx2"))) inline void philox_round_avx2(FourBlocks& c, __m256i key0, __m256i key1) {
    const __m256i p0 = _mm256_mul_epu32(c.c0, in_all_lanes(0xD2511F53u));
    const __m256i p1 = _mm256_mul_epu32(c.c2, in_all_lanes(0xCD9E8D57u));
    c.c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c.c1, key0));
    c.c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c.c3, key1));
    c.c1 = p1;
    c.c3 = p0;
}
__attribute__((target("avx2"))) inline void store_blocks_avx2(const FourBlocks& c, std::uint16_t* out) {
    const __m256i c01 = _mm256_blend_epi32(c.c0, _mm256_slli_epi64(c.c1, 32), 0xaa);
    const __m256i c23 = _mm256_blend_epi32(c.c2, _mm256_slli_epi64(c.c3, 32), 0xaa);
    auto* to = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(to, _mm256_unpacklo_epi64(c01, c23));
    _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi64(c01, c23));
}

// Eight consecutive blocks of a row: 64 columns, two chains of four blocks side by side.
__attribute__((target("avx2"))) void noise_blocks_avx2(const NoiseKey& key, std::int64_t row,
                                                       std::uint32_t first_block, std::uint16_t* out) {
    const PhiloxBlock counter = noise_counter(key, row, first_block);
    // Lanes hold blocks 0, 2, 1, 3, so that unpacking ends with blocks in their order.
    const __m256i lanes = _mm256_setr_epi32(0, 0, 2, 0, 1, 0, 3, 0);
    FourBlocks a{_mm256_add_epi32(in_all_lanes(counter[0]), lanes), in_all_lanes(counter[1]),
                 in_all_lanes(counter[2]), in_all_lanes(counter[3])};
    FourBlocks b = a;
    b.c0 = _mm256_add_epi32(a.c0, in_all_lanes(4));
    auto key0 = static_cast<std::uint32_t>(key.seed), key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
        philox_round_avx2(a, in_all_lanes(key0), in_all_lanes(key1));
        philox_round_avx2(b, in_all_lanes(key0), in_all_lanes(key1));
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    store_blocks_avx2(a, out);
    store_blocks_avx2(b, out + 4 * kNoiseColumns);
}
const bool kHasAvx512 = __builtin_cpu_supports("avx512f"), kHasAvx2 = __builtin_cpu_supports("avx2");
#endif

ELMO_CLONES void noise_row_plain(const NoiseKey& key, std::int64_t row, std::int64_t count,
                                 std::uint16_t* out) {
    for (std::int64_t column = 0; column < count; column += kLanes * kNoiseColumns)
        noise_blocks(key, row, static_cast<std::uint32_t>(column / kNoiseColumns), out + column);
}
}  // namespace

void noise_row(const NoiseKey& key, std::int64_t row, std::int64_t count, std::uint16_t* out) {
#if defined(__x86_64__)
    if (kHasAvx512) {
        for (std::int64_t column = 0; column < count; column += kLanes * kNoiseColumns)
            noise_blocks_avx512(key, row, static_cast<std::uint32_t>(column / kNoiseColumns), out + column);
        return;
    }
    if (kHasAvx2) {
        for (std::int64_t column = 0; column < count; column += 8 * kNoiseColumns)
            noise_blocks_avx2(key, row, static_cast<std::uint32_t>(column / kNoiseColumns), out + column);
        return;
    }
#endif
    noise_row_plain(key, row, count, out);
}

void rounding_row(NoiseKind kind, const NoiseKey& key, std::int64_t row, std::int64_t count,
                  std::uint16_t* out) {
    const bool steps = moves_by_step(kind);
    noise_row({key.seed, steps ? 0 : key.step, key.stream}, is_shared(kind) ? 0 : row, count, out);
    const auto move = static_cast<std::uint16_t>(golden_move(key.step));
    if (steps)
        for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::uint16_t>(out[i] + move);
    if (kind == NoiseKind::kPaired)
        for (std::int64_t i = 1; i < count; i += 2) out[i] = static_cast<std::uint16_t>(~out[i - 1]);
}

}  // namespace elmo::cpu
