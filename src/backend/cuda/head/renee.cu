// The baseline's step: see backend/ops/renee.h. cuBLASLt multiplies FP16 numbers with sums in FP32; between
// the products there are passes over whole matrices, as in the original program. The host waits once, to
// learn whether the encoder's step is left out.
#include <algorithm>

#include "backend/cuda/device/as_fp16.cuh"
#include "backend/cuda/head/renee.h"
#include "backend/cuda/head/storage.cuh"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// Blocks of the pass over the logits, each with its part of the loss.
constexpr std::int64_t kLossParts = 1024;
// A product has at most this many elements in an operand, so that offsets fit in 32 bits, and this many
// labels.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30, kMostLabels = std::int64_t{1} << 20;

// The results of a step for the host.
struct ReneeReport {
    double loss_sum;
    std::int32_t overflow;  // 1: dx is not finite
};

__device__ __forceinline__ std::int64_t first_element(int each) {
    return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * each;
}

// x in FP16, and zeros from `count` on.
template <class T>
__global__ void stage_kernel(const T* x, std::int64_t count, std::int64_t padded_count, fp16* x16) {
    const std::int64_t i = first_element(1);
    if (i < padded_count) store_float(x16, i, i < count ? load_float(x, i) : 0.0f);
}

template <int V>
__global__ void round_weights_kernel(const float* w, std::int64_t count, fp16* w16) {
    const std::int64_t i = first_element(V);
    if (i >= count) return;
    float v[V];
    load_some<V>(w + i, v);
    store_some<V>(w16 + i, v);
}

struct Positives {
    const std::int64_t* labels;
    const std::int32_t* samples;
    const float* weights;  // null: each counts once
    std::int64_t count;
    float* z;  // their logits
    __device__ float weight(std::int64_t i) const { return weights == nullptr ? 1.0f : weights[i]; }
    __device__ std::int64_t place(std::int64_t i, std::int64_t columns) const {
        return labels[i] * columns + samples[i];
    }
};

// Keeps the positives' logits for the loss, before g takes the place of all.
__global__ void take_positives_kernel(const fp16* z_LP, std::int64_t columns, Positives positives) {
    const std::int64_t i = first_element(1);
    if (i < positives.count) positives.z[i] = load_float(z_LP, positives.place(i, columns));
}

// z becomes g as of negatives. Columns are whole eights, those from `batch` on become zeros.
template <bool WantLoss>
__global__ void gradient_kernel(fp16* z_LP, std::int64_t count, std::int64_t columns, std::int64_t batch,
                                double* losses) {
    double loss = 0;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * 8;
    for (std::int64_t i = first_element(8); i < count; i += stride) {
        float v[8];
        load8(z_LP + i, v);
        const std::int64_t sample = i % columns;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const bool real = sample + j < batch;
            if (WantLoss && real) loss += static_cast<double>(logit_loss(v[j], false));
            v[j] = real ? logit_gradient(v[j], false) : 0.0f;
        }
        store8(z_LP + i, v);
    }
    if constexpr (WantLoss) {
        __shared__ double sums[kThreads];
        sums[threadIdx.x] = loss;
        __syncthreads();  // all threads' sums are in shared memory
        if (threadIdx.x != 0) return;
        double total = 0;
        for (const double sum : sums) total += sum;
        losses[blockIdx.x] = total;
    }
}

__global__ void set_positives_kernel(fp16* g_LP, std::int64_t columns, Positives positives) {
    const std::int64_t i = first_element(1);
    if (i >= positives.count) return;
    const std::int64_t at = positives.place(i, columns);
    store_float(g_LP, at, positives.weight(i) * (load_float(g_LP, at) - 1.0f));
}

// One block: the parts' sum, which takes all for negatives, put right for the positives, in a fixed order.
__global__ void add_losses_kernel(const double* parts, Positives positives, ReneeReport* report) {
    __shared__ double sums[kThreads];
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < kLossParts; i += kThreads) sum += parts[i];
    for (std::int64_t i = threadIdx.x; i < positives.count; i += kThreads) {
        const float z = positives.z[i];
        sum -= static_cast<double>(z);
        if (positives.weights != nullptr)
            sum += (static_cast<double>(positives.weights[i]) - 1) * static_cast<double>(logit_loss(z, true));
    }
    sums[threadIdx.x] = sum;
    __syncthreads();  // all threads' sums are in shared memory
    if (threadIdx.x != 0) return;
    double total = 0;
    for (const double part : sums) total += part;
    report->loss_sum = total;
}

// dx as FP16 holds it times the scale, over `divisor`.
__global__ void round_input_gradient_kernel(float* dx, std::int64_t count, float scale, float divisor,
                                            ReneeReport* report) {
    const std::int64_t i = first_element(1);
    if (i >= count) return;
    dx[i] = round_fp16(scale * dx[i]) / divisor;
    if (!isfinite(dx[i])) report->overflow = 1;
}

struct UpdateArgs {
    const fp16* dw16;
    float *dw32, *momentum, *w;
    std::int64_t count;
    float lr, weight_decay, beta;
};

template <int V>
__global__ void update_kernel(UpdateArgs a) {
    const std::int64_t i = first_element(V);
    if (i >= a.count) return;
    float d[V], m[V], w[V];
    load_some<V>(a.dw16 + i, d);
    load_some<V>(a.momentum + i, m);
    load_some<V>(a.w + i, w);
#pragma unroll
    for (int j = 0; j < V; ++j) {
        m[j] = a.beta * m[j] + (d[j] + a.weight_decay * w[j]);
        w[j] -= a.lr * m[j];
    }
    store_some<V>(a.dw32 + i, d);
    store_some<V>(a.momentum + i, m);
    store_some<V>(a.w + i, w);
}

}  // namespace

void ReneeOps::reserve(Arena& arena, const Workload& w) {
    const std::int64_t columns = renee_columns(std::max<std::int64_t>(w.batch, 1));
    x16_ = arena.allocate("scratch/renee_input", DType::kF16, columns, w.width);
    dx_ = arena.allocate("scratch/renee_input_gradient", DType::kF32, columns, w.width);
    positive_z_ = arena.allocate("scratch/renee_positive_logits", DType::kF32, 1,
                                 std::max<std::int64_t>(w.positives, 1));
    losses_ = arena.allocate("scratch/renee_losses", DType::kF64, 1, kLossParts);
    report_ = arena.allocate("scratch/renee_report", DType::kU8, 1, sizeof(ReneeReport));
}

ReneeStepResult ReneeOps::step(const ReneeStep& op) {
    const std::int64_t labels = op.w_LD.rows, batch = op.x_BD.rows, width = op.w_LD.cols;
    const std::int64_t columns = op.g16_LP.cols, weights = labels * width;
    if (columns > x16_.rows || width != x16_.cols)
        throw DeviceError("renee: a batch larger than was planned for");
    positives_.send(op.positives);
    const Positives positives{positives_.labels(), positives_.samples(), positives_.weights(),
                              op.positives.size(), positive_z_.as<float>()};
    auto* report = static_cast<ReneeReport*>(report_.data);
    context_.clear(report, sizeof(ReneeReport), "renee, report");

    const View x16 = x16_.first(columns), dx = dx_.first(columns);
    auto* w16 = static_cast<fp16*>(op.w16_LD.data);
    auto* z_or_g = static_cast<fp16*>(op.g16_LP.data);
    auto* dw16 = static_cast<fp16*>(op.dw16_LD.data);
    with_type(op.x_BD, [&](auto* x) {
        using In = std::remove_pointer_t<decltype(x)>;
        stage_kernel<In><<<blocks_for(x16.size(), kThreads), kThreads, 0, context_.stream()>>>(
            x, batch * width, x16.size(), static_cast<fp16*>(x16.data));
    });
    check_launch("renee, input");
    with_width(weights, [&](auto v) {
        round_weights_kernel<v()><<<blocks_for(weights, kThreads * v()), kThreads, 0, context_.stream()>>>(
            op.w_LD.as<float>(), weights, w16);
    });
    check_launch("renee, weights in FP16");

    // body(first, last) for pieces of the labels; they begin at multiples of 256 bytes, as cuBLASLt expects.
    const auto for_labels = [&](const auto& body) {
        const std::int64_t most =
            std::clamp<std::int64_t>(kMostElements / std::max(width, columns) / 128 * 128, 128, kMostLabels);
        for (std::int64_t first = 0; first < labels; first += most)
            body(first, std::min(first + most, labels));
    };
    for_labels([&](std::int64_t first, std::int64_t last) {
        Product z;
        z.a = op.w16_LD.slice(first, last);
        z.b = x16;
        z.transpose_b = true;
        z.c = op.g16_LP.slice(first, last);
        products_.multiply(z, "renee, logits");
    });
    const unsigned positive_blocks = blocks_for(positives.count, kThreads);
    if (op.want_loss) {
        take_positives_kernel<<<positive_blocks, kThreads, 0, context_.stream()>>>(z_or_g, columns,
                                                                                   positives);
        check_launch("renee, positives");
    }
    const auto gradient = op.want_loss ? gradient_kernel<true> : gradient_kernel<false>;
    gradient<<<kLossParts, kThreads, 0, context_.stream()>>>(z_or_g, labels * columns, columns, batch,
                                                             losses_.as<double>());
    check_launch("renee, logit gradient");
    set_positives_kernel<<<positive_blocks, kThreads, 0, context_.stream()>>>(z_or_g, columns, positives);
    check_launch("renee, positives");
    if (op.want_loss) {
        add_losses_kernel<<<1, kThreads, 0, context_.stream()>>>(losses_.as<double>(), positives, report);
        check_launch("renee, loss");
    }

    for_labels([&](std::int64_t first, std::int64_t last) {
        Product input;
        input.a = op.g16_LP.slice(first, last);
        input.transpose_a = true;
        input.b = op.w16_LD.slice(first, last);
        input.c = dx;
        input.accumulate = first > 0;
        products_.multiply(input, "renee, input gradient");
        Product weight;
        weight.a = op.g16_LP.slice(first, last);
        weight.b = x16;
        weight.c = op.dw16_LD.slice(first, last);
        products_.multiply(weight, "renee, weight gradient");
    });
    const std::int64_t inputs = batch * width;
    round_input_gradient_kernel<<<blocks_for(inputs, kThreads), kThreads, 0, context_.stream()>>>(
        dx.as<float>(), inputs, op.scale, op.keeps_scale ? 1.0f : op.scale, report);
    check_launch("renee, input gradient");
    with_width(weights, [&](auto v) {
        update_kernel<v()><<<blocks_for(weights, kThreads * v()), kThreads, 0, context_.stream()>>>(
            {dw16, op.dw32_LD.as<float>(), op.momentum_LD.as<float>(), op.w_LD.as<float>(), weights, op.lr,
             op.weight_decay, op.beta});
    });
    check_launch("renee, update");
    ReneeReport found{};
    context_.download(&found, report_);
    ReneeStepResult result;
    result.loss_sum = found.loss_sum;
    result.skipped = found.overflow != 0;
    if (!result.skipped) context_.copy_out(op.dx_BD.data, dx.first(batch));
    return result;
}

}  // namespace elmo::cuda
