// Hopper's instructions for whole warpgroups (128 threads): products of 64 x N x 16 with operands in shared
// memory (A also in registers). They exist in code for sm_90a only: ELMO_HOPPER.
//
// Operands in shared memory are made of blocks of 64 BF16 columns (128 bytes) whose 16-byte pieces are
// permuted: piece p of row r lies at p ^ (r % 8). A block begins at a multiple of 1024 bytes.
//   rows run along M or N, columns along the sum:  "by rows";    16 further along the sum: +32 bytes
//   rows run along the sum, columns along M or N:  "transposed"; 16 further along the sum: +2048 bytes
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ELMO_HOPPER 1
#endif

namespace elmo::cuda::hopper {

// Among the 128 threads of a warpgroup; id from 1 to 15.
__device__ __forceinline__ void sync_group(int id) {
    asm volatile("bar.sync %0, 128;\n" ::"r"(id) : "memory");
}

// ---- products -------------------------------------------------------------------------------------------
// Byte offset of 16-byte piece `piece` of row `row` of a block.
__device__ __forceinline__ int block_offset(int row, int piece) {
    return row * 128 + ((piece ^ (row & 7)) << 4);
}
// An operand that begins at `address`. `next_block`: bytes to the next block of 64 columns (transposed
// operands wider than 64).
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address, std::uint32_t next_block = 16) {
    constexpr std::uint64_t kPermuted128 = std::uint64_t{1} << 62, kNextEightRows = 1024 >> 4;
    return kPermuted128 | kNextEightRows << 32 | static_cast<std::uint64_t>(next_block >> 4) << 16 |
           ((address & 0x3ffffu) >> 4);
}
// How far an operand moves for an offset in bytes.
__device__ __forceinline__ std::uint64_t moved(std::uint32_t bytes) {
    return bytes >> 4;
}

// Before the first product after registers of operands or sums were written.
__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Until at most `Pending` of the groups committed last are still under way.
template <int Pending>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}

// Sums of 64 x N: warp w of the group has rows 16 w .. 16 w + 15; element 4 j + 2 h + c of lane 4 g + q is
// that of row 16 w + 8 h + g and column 8 j + 2 q + c.
template <int N>
using Sums = float[N / 2];

#define ELMO_SUMS8(d, i)                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define ELMO_SUMS32(d, i) ELMO_SUMS8(d, i), ELMO_SUMS8(d, i + 8), ELMO_SUMS8(d, i + 16), ELMO_SUMS8(d, i + 24)

// d = a b, or d += a b, asynchronously. Both operands in shared memory, each by rows or transposed.
template <int TransposedA, int TransposedB>
__device__ __forceinline__ void multiply(Sums<64>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, %35, %36;\n}\n"
        : ELMO_SUMS32(d, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(TransposedA), "n"(TransposedB));
#endif
}
template <int TransposedA, int TransposedB>
__device__ __forceinline__ void multiply(Sums<128>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, %67, %68;\n}\n"
        : ELMO_SUMS32(d, 0), ELMO_SUMS32(d, 32)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(TransposedA), "n"(TransposedB));
#endif
}
template <int TransposedA, int TransposedB>
__device__ __forceinline__ void multiply(Sums<192>& d, std::uint64_t a, std::uint64_t b, bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
        " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
        " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, add, 1, 1, %99, %100;\n}\n"
        : ELMO_SUMS32(d, 0), ELMO_SUMS32(d, 32), ELMO_SUMS32(d, 64)
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(TransposedA), "n"(TransposedB));
#endif
}
// A from registers: the fragments of mma.m16n8k16 of the warp's 16 rows. B by rows.
__device__ __forceinline__ void multiply(Sums<16>& d, const std::uint32_t (&a)[4], std::uint64_t b,
                                         bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, add, 1, 1, 0;\n}\n"
        : ELMO_SUMS8(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void multiply(Sums<64>& d, const std::uint32_t (&a)[4], std::uint64_t b,
                                         bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n}\n"
        : ELMO_SUMS32(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void multiply(Sums<128>& d, const std::uint32_t (&a)[4], std::uint64_t b,
                                         bool add) {
#ifdef ELMO_HOPPER
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0;\n}\n"
        : ELMO_SUMS32(d, 0), ELMO_SUMS32(d, 32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
#endif
}
#undef ELMO_SUMS32
#undef ELMO_SUMS8

}  // namespace elmo::cuda::hopper
