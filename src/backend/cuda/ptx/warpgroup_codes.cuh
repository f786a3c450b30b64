// Products of E4M3 codes, more of warpgroup.cuh: both operands in shared memory, by rows, in blocks of 128
// codes (128 bytes); 32 further along the sum: +32 bytes. A product adds 32 terms and the sum so far, each
// cut about 13 bits below the largest of them: long sums are made of short ones.
#pragma once

#include "backend/cuda/ptx/warpgroup.cuh"

namespace elmo::cuda::hopper {

#define ELMO_SUMS8(d, i)                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])

// d = a b, or d += a b, asynchronously.
__device__ __forceinline__ void multiply_codes(Sums<16>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, add, 1, 1;\n}\n"
        : ELMO_SUMS8(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void multiply_codes(Sums<64>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1;\n}\n"
        : ELMO_SUMS8(d, 0), ELMO_SUMS8(d, 8), ELMO_SUMS8(d, 16), ELMO_SUMS8(d, 24)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void multiply_codes(Sums<128>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1;\n}\n"
        : ELMO_SUMS8(d, 0), ELMO_SUMS8(d, 8), ELMO_SUMS8(d, 16), ELMO_SUMS8(d, 24), ELMO_SUMS8(d, 32),
          ELMO_SUMS8(d, 40), ELMO_SUMS8(d, 48), ELMO_SUMS8(d, 56)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
#undef ELMO_SUMS8

}  // namespace elmo::cuda::hopper
