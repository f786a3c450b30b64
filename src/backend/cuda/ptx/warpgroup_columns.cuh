// More of warpgroup.cuh: operands in blocks of 32 columns, and products of A in registers with transposed B.
//
// A block of 32 BF16 columns has rows of 64 bytes: piece p of row r lies at p ^ (r / 2 % 4). 16 further along
// the sum are 32 bytes by rows and 1024 bytes transposed.
#pragma once

#include "backend/cuda/ptx/warpgroup.cuh"

namespace elmo::cuda::hopper {

// An operand of one block of Columns (32 or 64) that begins at `address`, a multiple of 1024.
template <int Columns>
__device__ __forceinline__ std::uint64_t block_operand(std::uint32_t address) {
    static_assert(Columns == 64 || Columns == 32);
    constexpr std::uint64_t kPermuted = std::uint64_t{Columns == 64 ? 1 : 2} << 62;
    constexpr std::uint64_t kNextEightRows = 16 * Columns >> 4;
    return kPermuted | kNextEightRows << 32 | std::uint64_t{1} << 16 | ((address & 0x3ffffu) >> 4);
}

// d = a b, both operands in shared memory, by rows. Nothing of d is read, and the compiler knows it.
__device__ __forceinline__ void multiply_first(Sums<64>& d, std::uint64_t a, std::uint64_t b) {
#ifdef ELMO_HOPPER
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 0, 1, 1, 0, 0;\n"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]),
          "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]),
          "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]), "=f"(d[21]),
          "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]),
          "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
        : "l"(a), "l"(b));
#endif
}

// d += a b. A: the fragments of mma.m16n8k16 of the warp's 16 rows. B transposed.
__device__ __forceinline__ void add_transposed(Sums<32>& d, const std::uint32_t (&a)[4], std::uint64_t b) {
#ifdef ELMO_HOPPER
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}
__device__ __forceinline__ void add_transposed(Sums<64>& d, const std::uint32_t (&a)[4], std::uint64_t b) {
#ifdef ELMO_HOPPER
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

}  // namespace elmo::cuda::hopper
