// What this processor can really do, and the arithmetic chosen for BF16 products.
#pragma once

#include <string>

namespace elmo::cpu {

// How products of BF16 matrices are computed. Both accumulate in FP32; they differ in speed and in the
// order of the sums, so a run notes which one it used.
enum class Products {
    kBf16,  // BF16 dot-product instructions (AMX, AVX-512 BF16) through oneDNN
    kFp32,  // decode to FP32 on the way into the cache, fused multiply-add through oneDNN
};

// "auto", "bf16" or "fp32". auto: BF16 where AMX is usable, or on AMD processors with AVX-512 BF16; FP32
// elsewhere, since Intel's AVX-512 BF16 instructions run at half the rate of its FP32 ones. A fixed rule
// and not a measurement, so that one machine always computes the same bits.
// The first call also keeps oneDNN from using AMX where the kernel does not grant it (it would crash).
Products choose_products(const std::string& wanted);

// Whether products of BF16 matrices run on AMX's tiles.
bool has_tiles();

std::string processor_name();

}  // namespace elmo::cpu
