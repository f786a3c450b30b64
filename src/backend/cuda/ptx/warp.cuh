// Instructions that every card since sm_80 has and C++ cannot express: BF16 products of a warp, their
// operands from shared memory, copies from global to shared memory that do not pass through registers.
//
// The layouts, for a lane with group g = lane / 4 and place q = lane % 4:
//   a (16 x 16)   a[0], a[1]: rows g and g + 8, columns 2q, 2q + 1;  a[2], a[3]: the same, columns + 8
//   b (16 x 8)    b0: rows 2q, 2q + 1 of column g;  b1: rows 2q + 8, 2q + 9
//   c (16 x 8)    c[0], c[1]: row g, columns 2q, 2q + 1;  c[2], c[3]: row g + 8
// So two neighbouring c tiles, rounded to pairs, are an a operand.
//
// What reads or writes shared memory, or waits for it, is "memory" to the compiler: plain loads and stores
// stay on their side of it. A product touches registers only.
#pragma once

#include <cstdint>

namespace elmo::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void store_shared(std::uint32_t to, const uint4& v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
__device__ __forceinline__ uint4 load_shared(std::uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

// ---- copies that go on while the thread does ------------------------------------------------------------
// An address of global memory, as such. It is the same number; only the order of instructions that the
// compiler chooses differs, so each kernel keeps the form that was measured.
__device__ __forceinline__ const void* in_global(const void* p) {
    return reinterpret_cast<const void*>(__cvta_generic_to_global(p));
}
// 16 or 4 bytes, both addresses multiples of that; zeros when not `valid` (`from` must be an address still).
__device__ __forceinline__ void copy16(std::uint32_t to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
// The same for what lies in one row with more that is copied soon: L2 fetches whole lines of 128 bytes.
__device__ __forceinline__ void copy16_of_line(std::uint32_t to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
// The same with pairs of lines: more is on its way from memory than there is room for in shared memory.
__device__ __forceinline__ void copy16_of_lines(std::uint32_t to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy8(std::uint32_t to, const void* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid ? 8 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy4(std::uint32_t to, const void* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0)
                 : "memory");
}
// Copies since the last commit are a group; wait until at most `Pending` groups of this thread are under way.
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- products -------------------------------------------------------------------------------------------
// Four 8 x 8 matrices of 16-bit elements; lanes 8i .. 8i + 7 give the addresses of the rows of matrix i. A
// lane gets elements 2q, 2q + 1 of row g of each; transposed: of column g.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a b: products exact, sums FP32.
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Byte offset of 16-byte piece `piece` of row `row` in a tile whose rows have RowBytes (64, 128 or 256):
// pieces are permuted within a row so that eight rows at one column touch all banks.
template <int RowBytes>
__device__ __forceinline__ int tile_offset(int row, int piece) {
    static_assert(RowBytes == 64 || RowBytes == 128 || RowBytes == 256);
    if constexpr (RowBytes == 64)
        return row * 64 + ((piece ^ ((row >> 1) & 3)) << 4);
    else
        return row * RowBytes + ((piece ^ (row & 7)) << 4);
}

}  // namespace elmo::cuda
