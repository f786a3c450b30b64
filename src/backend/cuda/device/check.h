// Every CUDA and cuBLASLt call goes through these: a failure becomes a DeviceError that names the op.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

namespace elmo::cuda {

// DeviceError "what: the CUDA error" unless `status` is success.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const char* what);
// After a kernel launch: errors of the launch itself. Failures inside the kernel appear at the next wait.
void check_launch(const char* op);

}  // namespace elmo::cuda
