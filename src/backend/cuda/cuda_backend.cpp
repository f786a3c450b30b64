#include "backend/cuda/cuda_backend.h"

#include <cstring>

#include "backend/cuda/device/convert.h"
#include "backend/cuda/device/roofline.h"

namespace elmo::cuda {

bool CudaBackend::has_fp8_products() const {
    if (!context_.started()) return true;
    const cudaDeviceProp& card = context_.properties();
    return card.major > 8 || (card.major == 8 && card.minor >= 9);
}

std::unique_ptr<MemoryBlock> CudaBackend::allocate(std::int64_t bytes) {
    start();
    return context_.allocate(bytes);
}

std::unique_ptr<MemoryBlock> CudaBackend::allocate_in_host(std::int64_t bytes) {
    start();
    return context_.allocate_in_host(bytes);
}

void CudaBackend::upload(View to, const void* from) {
    column_sums_.finish();
    if (!context_.is_in_host(to)) return context_.upload(to, from);
    wait();
    std::memcpy(to.data, from, static_cast<std::size_t>(to.bytes()));
}

void CudaBackend::download(void* to, View from) {
    column_sums_.finish();
    if (!context_.is_in_host(from)) return context_.download(to, from);
    wait();
    std::memcpy(to, from.data, static_cast<std::size_t>(from.bytes()));
}

void CudaBackend::reserve(Arena& arena, const Workload& workload) {
    products_.reserve(arena);
    texts_.reserve(arena, workload);
    context_.reserve(arena);
    embedding_.reserve(arena, workload);
    column_sums_.reserve(arena, workload);
    attention_.reserve(arena, workload);
    linear_.reserve(arena, workload);
    head_.reserve_report(arena, workload);
    head_.reserve_stream(arena, workload);
}

void CudaBackend::reserve_head(Arena& arena, const Workload& workload) {
    if (workload.labels == 0) return;
    head_.reserve(arena, workload);
    if (workload.training && workload.renee) renee_.reserve(arena, workload);
}

void CudaBackend::fill_normal(const FillNormal& op) {
    if (settled(op.w).empty()) return;
    column_sums_.finish();
    if (op.width() != op.w.cols) return head_.fill_packed(op);
    cuda::fill_normal(op, context_.stream());
}

void CudaBackend::cast(View to, View from) {
    column_sums_.finish();
    cuda::cast(to, from, context_.stream());
}

void CudaBackend::round_fp16(View view) {
    column_sums_.finish();
    cuda::round_fp16(view, view, context_.stream());
}

bool CudaBackend::has_non_finite(View view) {
    column_sums_.finish();
    return cuda::has_non_finite(context_, settled(view));
}

Ceilings CudaBackend::measure_ceilings(DType storage, std::int64_t room_bytes) {
    start();
    return cuda::measure_ceilings(context_, products_, storage, room_bytes);
}

}  // namespace elmo::cuda
