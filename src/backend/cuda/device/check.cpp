#include "backend/cuda/device/check.h"

#include <fmt/format.h>

#include "elmo/error.h"

namespace elmo::cuda {

void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();
    throw DeviceError(
        fmt::format("GPU: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

void check(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(fmt::format("GPU: {}: cuBLASLt says {}", what, cublasLtGetStatusString(status)));
}

void check_launch(const char* op) {
    check(cudaGetLastError(), op);
}

}  // namespace elmo::cuda
