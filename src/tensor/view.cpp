#include "tensor/view.h"

namespace elmo {

std::int64_t size_of(DType dtype) {
    switch (dtype) {
        case DType::kF64:
        case DType::kI64:
            return 8;
        case DType::kF32:
        case DType::kI32:
            return 4;
        case DType::kBf16:
        case DType::kF16:
            return 2;
        case DType::kE4M3:
        case DType::kE3M4:
        case DType::kE5M2:
        case DType::kU8:
            return 1;
    }
    return 0;
}

std::string_view name_of(DType dtype) {
    switch (dtype) {
        case DType::kF64:
            return "f64";
        case DType::kF32:
            return "f32";
        case DType::kBf16:
            return "bf16";
        case DType::kE4M3:
            return "e4m3";
        case DType::kE3M4:
            return "e3m4";
        case DType::kE5M2:
            return "e5m2";
        case DType::kU8:
            return "u8";
        case DType::kI32:
            return "i32";
        case DType::kI64:
            return "i64";
        case DType::kF16:
            return "f16";
    }
    return "?";
}

}  // namespace elmo
