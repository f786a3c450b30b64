// The measured ceilings of this machine, in the process that is being judged.
#pragma once

#include <string>

namespace elmo::cpu {

// Rate of large products with all threads, in the arithmetic that products ("auto", "bf16", "fp32") chooses
// for BF16 operands; FP32 products when fp32_storage is set.
double measure_product_gflops(const std::string& products, bool fp32_storage);
// Rate of copying, read + write, with all threads.
double measure_copy_gbytes();

}  // namespace elmo::cpu
