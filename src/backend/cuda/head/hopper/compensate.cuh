// The compensated update (ops/head.h) of the labels that are marked, from the sums that the update handed
// over. They are few: apart from the others' rounding, whose warps would wait for them.
#pragma once

#include "backend/cuda/head/hopper/hopper.cuh"

namespace elmo::cuda::hopper {

constexpr int kMarkWarps = 8;  // of a block; each has the 32 labels of a word of marks

// Grid: words of marks of the chunk's labels.
template <class S>
__global__ void compensate_kernel(HeadArgs a) {
    const std::int64_t word = a.first_tile * (kLabelTile / 32) +
                              static_cast<std::int64_t>(blockIdx.x) * kMarkWarps + threadIdx.x / 32;
    if (word >= mark_words(min(a.labels, a.last_tile * kLabelTile))) return;
    const std::uint32_t marks = a.marks[2 * word];
    std::int64_t number = a.marks[2 * word + 1];
    const auto lane = static_cast<std::int64_t>(threadIdx.x % 32);
    std::uint32_t saturated = 0;
    for (std::uint32_t rest = marks; rest != 0; rest &= rest - 1, ++number) {
        const std::int64_t label = word * 32 + __ffs(static_cast<int>(rest)) - 1;
        auto* const row = static_cast<typename S::Raw*>(a.w_LD) + label * raws<S>(a.stride);
        bf16* const kept = compensation_at(a, static_cast<std::int32_t>(number));
        const float* const sums = a.compensated_sums + (number - a.first_compensated) * a.width;
        const NearestOf<S> nearest(a, label);
        std::uint32_t count = 0;
        for (std::int64_t column = 16 * lane; column < a.width; column += 16 * 32) {
            const uint4 piece = load_piece<S>(row + raws<S>(column));
            typename S::Eight eights[2] = {make_uint2(piece.x, piece.y), make_uint2(piece.z, piece.w)};
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                if (column + 8 * m >= a.width) continue;
                float v[8], c[8], sum[8];
                S::unpack(eights[m], v);
                load8(kept + column + 8 * m, c);
                load8(sums + column + 8 * m, sum);
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    v[i] *= nearest.factor * (1.0f / S::kUnpacked);
                    compensate(a, nearest, sum[i] * nearest.inverse, v[i], c[i], count);
                    v[i] *= nearest.inverse * S::kUnpacked;
                }
                store8(kept + column + 8 * m, c);
                eights[m] = S::round8(v, PhiloxBlock{});  // exact: no noise moves it
            }
            store_piece<S>(row + raws<S>(column),
                           make_uint4(eights[0].x, eights[0].y, eights[1].x, eights[1].y));
        }
        note_saturation(a, label, count, saturated);
    }
    if (saturated > 0) atomicAdd(&a.report->saturations, static_cast<unsigned long long>(saturated));
}

}  // namespace elmo::cuda::hopper
