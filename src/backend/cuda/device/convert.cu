// Elementwise ops of all families: casting, and the search for non-finite numbers.
#include "backend/cuda/device/convert.h"

#include "backend/cuda/device/as_fp16.cuh"
#include "backend/cuda/head/storage.cuh"

namespace elmo::cuda {
namespace {

template <int V, class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count) {
    for_each<V>(count, [&](std::int64_t i) {
        float v[V];
        load_some<V>(from + i, v);
        store_some<V>(to + i, v);
    });
}

template <class S, class To>
__global__ void decode_kernel(To* to, const std::uint8_t* from, std::int64_t count) {
    for_each<1>(count, [&](std::int64_t i) { store_float(to, i, S::load(from, i)); });
}

template <class T>
__global__ void non_finite_kernel(const T* x, std::int64_t count, int* found) {
    for_each<1>(count, [&](std::int64_t i) {
        if (!isfinite(load_float(x, i))) *found = 1;
    });
}

}  // namespace

void round_fp16(const View& to, const View& from, cudaStream_t stream) {
    if (to.empty()) return;
    const std::int64_t count = from.size();
    with_width(count, [&](auto width) {
        const unsigned blocks = blocks_for(count, kThreads * width());
        if (to.dtype == DType::kF16)
            cast_kernel<width()>
                <<<blocks, kThreads, 0, stream>>>(static_cast<fp16*>(to.data), from.as<float>(), count);
        else
            cast_kernel<width()><<<blocks, kThreads, 0, stream>>>(static_cast<FloatAsFp16*>(to.data),
                                                                  from.as<float>(), count);
    });
    check_launch("rounding to FP16");
}

void cast(const View& to, const View& from, cudaStream_t stream) {
    if (to.empty()) return;
    with_type(to, [&](auto* out) {
        const unsigned blocks = blocks_for(to.size(), kThreads);
        if (from.dtype == DType::kE4M3)
            return decode_kernel<StorageE4M3><<<blocks, kThreads, 0, stream>>>(out, from.codes(), to.size());
        if (from.dtype == DType::kE3M4)
            return decode_kernel<StorageE3M4><<<blocks, kThreads, 0, stream>>>(out, from.codes(), to.size());
        with_type(from, [&](auto* in) {
            using From = std::remove_pointer_t<decltype(in)>;
            const std::int64_t count = to.size();
            with_width(count, [&](auto width) {
                cast_kernel<width()><<<blocks_for(count, kThreads * width()), kThreads, 0, stream>>>(
                    out, static_cast<const From*>(in), count);
            });
        });
    });
    check_launch("cast");
}

bool has_non_finite(CudaContext& context, const View& view) {
    if (view.empty()) return false;
    context.clear(context.flags(), 4, "finite check");
    with_type(view, [&](auto* x) {
        non_finite_kernel<<<blocks_up_to(1 << 16, view.size(), kThreads * 8), kThreads, 0,
                            context.stream()>>>(x, view.size(), context.flags());
    });
    check_launch("finite check");
    std::int32_t found = 0;
    context.download(&found, {context.flags(), DType::kI32, 1, 1});
    return found != 0;
}

}  // namespace elmo::cuda
