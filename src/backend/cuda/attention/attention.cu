// Attention of the CUDA backend: which kernels serve a batch, and how many warps a block of them has.
#include <algorithm>
#include <cmath>
#include <string>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/bias.cuh"
#include "backend/cuda/attention/codes.cuh"
#include "backend/cuda/attention/long.cuh"
#include "backend/cuda/attention/short.h"
#include "backend/cuda/attention/simple.cuh"
#include "backend/cuda/attention/warpgroups.h"
#include "backend/cuda/head/hopper/hopper.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

AttentionShape shape_of(const DeviceTexts& texts, std::int64_t width, std::int64_t heads,
                        const Dropout& dropout) {
    const float size = static_cast<float>(width / heads);
    return {texts.offsets,          static_cast<int>(heads), width,
            1.0f / std::sqrt(size), dropout_args(dropout),   philox_keys(dropout.key.seed)};
}

bool on_tensor_cores(DType storage, std::int64_t width, std::int64_t heads) {
    const std::int64_t size = width / heads;
    return storage == DType::kBf16 && (size == 32 || size == 64);
}

// Warps of a block, 16 rows each: enough for most texts of the batch, since warps without rows still occupy
// the chip. The longest text counts if it is less than twice the mean.
int warps_for(const DeviceTexts& texts, int most) {
    const std::int64_t mean = (texts.num_tokens + texts.num_texts - 1) / texts.num_texts;
    const std::int64_t rows = std::min(texts.longest, 2 * mean);
    int warps = 1;
    while (warps < most && 16 * warps < rows) warps *= 2;
    return warps;
}

constexpr int kMostWarps = 8;

template <int Size, int Warps, class Args>
void launch(void (*kernel)(Args), const char* op, Args args, const DeviceTexts& texts, int own,
            cudaStream_t stream) {
    const int stages = texts.longest > walked_rows(Warps) ? 2 : 1;
    const int bytes = own + tiles_bytes(Size, Warps, stages);
    if (bytes > 48 * 1024)
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), op);
    const unsigned grid = grid_of(args.shape, texts, 16 * Warps);
    kernel<<<grid, 32 * Warps, static_cast<std::size_t>(bytes), stream>>>(args);
    check_launch(op);
}

template <int Size, int Warps>
struct Forward {
    static void run(const ForwardArgs& args, const DeviceTexts& texts, cudaStream_t stream) {
        launch<Size, Warps>(attention_forward_mma<Size, Warps>, "attention forward", args, texts,
                            own_bytes(Size, Warps), stream);
    }
};
template <int Size, int Warps>
struct BackwardQueries {
    static void run(const BackwardArgs& args, const DeviceTexts& texts, cudaStream_t stream) {
        launch<Size, Warps>(attention_dq_mma<Size, Warps>, "attention backward, queries", args, texts,
                            2 * own_bytes(Size, Warps) + delta_bytes(Warps), stream);
    }
};
template <int Size, int Warps>
struct BackwardKeys {
    static void run(const BackwardArgs& args, const DeviceTexts& texts, cudaStream_t stream) {
        launch<Size, Warps>(attention_dkv_mma<Size, Warps>, "attention backward, keys", args, texts,
                            2 * own_bytes(Size, Warps) + query_bytes(Warps), stream);
    }
};

// With a bias, for texts of any length.
constexpr int kBiasedWarps = 4;
template <int Size>
void run_biased(const ForwardArgs& args, const DeviceTexts& texts, cudaStream_t stream) {
    launch<Size, kBiasedWarps>(attention_forward_mma<Size, kBiasedWarps, true>, "attention forward", args,
                               texts, own_bytes(Size, kBiasedWarps), stream);
}
template <int Size>
void run_biased(const BackwardArgs& args, const DeviceTexts& texts, cudaStream_t stream) {
    launch<Size, kBiasedWarps>(attention_dq_mma<Size, kBiasedWarps, true>, "attention backward, queries",
                               args, texts, 2 * own_bytes(Size, kBiasedWarps) + delta_bytes(kBiasedWarps),
                               stream);
    launch<Size, kBiasedWarps>(attention_dkv_mma<Size, kBiasedWarps, true>, "attention backward, keys", args,
                               texts, 2 * own_bytes(Size, kBiasedWarps) + query_bytes(kBiasedWarps), stream);
}
template <class Args>
void run_biased(const Args& args, const DeviceTexts& texts, cudaStream_t stream) {
    if (args.shape.width / args.shape.heads == 32)
        run_biased<32>(args, texts, stream);
    else
        run_biased<64>(args, texts, stream);
}

// Kernel<head size, warps>::run, with at most `Most` warps.
template <template <int, int> class Kernel, int Most, int Size, class Args>
void run_warps(const Args& args, const DeviceTexts& texts, cudaStream_t stream) {
    switch (warps_for(texts, Most)) {
        case 1:
            return Kernel<Size, 1>::run(args, texts, stream);
        case 2:
            return Kernel<Size, 2>::run(args, texts, stream);
        case 4:
            return Kernel<Size, 4>::run(args, texts, stream);
        default:
            return Kernel<Size, Most>::run(args, texts, stream);
    }
}
template <template <int, int> class Kernel, int Most, class Args>
void run(const Args& args, const DeviceTexts& texts, cudaStream_t stream) {
    if (args.shape.width / args.shape.heads == 32)
        run_warps<Kernel, Most, 32>(args, texts, stream);
    else
        run_warps<Kernel, Most, 64>(args, texts, stream);
}

template <class T>
void launch_simple(void (*kernel)(SimpleArgs<T>), const char* op, const SimpleArgs<T>& args,
                   cudaStream_t stream) {
    const std::int64_t items = args.num_tokens * args.shape.heads;
    kernel<<<static_cast<unsigned>((items + kSimpleWarps - 1) / kSimpleWarps), 32 * kSimpleWarps, 0,
             stream>>>(args);
    check_launch(op);
}

template <class T>
void forward_simple(const AttentionForward& op, const AttentionShape& shape, const DeviceTexts& texts,
                    std::int64_t num_tokens, cudaStream_t stream) {
    SimpleArgs<T> args{shape, texts.num_texts, num_tokens, shape.width / shape.heads};
    args.qkv = static_cast<const T*>(op.qkv_T3D.data);
    args.out = static_cast<T*>(op.context_TD.data);
    args.lse_out = op.lse_TH.empty() ? nullptr : op.lse_TH.as<float>();
    launch_simple(attention_forward_simple<T>, "attention forward", args, stream);
}

template <class T>
SimpleArgs<T> backward_args(const AttentionBackward& op, const AttentionShape& shape,
                            const DeviceTexts& texts, float* delta) {
    SimpleArgs<T> args{shape, texts.num_texts, op.offsets.back(), shape.width / shape.heads};
    args.dcontext = static_cast<const T*>(op.dcontext_TD.data);
    args.qkv = static_cast<const T*>(op.qkv_T3D.data);
    args.out = static_cast<T*>(op.dqkv_T3D.data);
    args.lse = op.lse_TH.as<float>();
    args.delta = delta;
    return args;
}

template <class T>
void backward_simple(const AttentionBackward& op, const AttentionShape& shape, const DeviceTexts& texts,
                     float* delta, cudaStream_t stream) {
    const SimpleArgs<T> args = backward_args<T>(op, shape, texts, delta);
    launch_simple(attention_dq_simple<T>, "attention backward, queries", args, stream);
    launch_simple(attention_dkv_simple<T>, "attention backward, keys", args, stream);
}

// A mask as kernels of warpgroups take it.
KeptBits kept_in(const View& mask, const DeviceTexts& texts, std::int64_t heads) {
    if (4 * kept_words(texts.num_tokens, texts.num_texts, heads, texts.longest) > mask.size())
        throw DeviceError("GPU: attention of " + std::to_string(texts.num_tokens) + " tokens in " +
                          std::to_string(texts.num_texts) + " texts was not planned for");
    return {static_cast<std::uint32_t*>(mask.data), static_cast<int>((texts.longest + 63) / 64)};
}

template <class Op>
QkvCodes codes_of(const Op& op) {
    return {op.codes_T3D.codes(), op.exponents_NT.codes(), op.qkv_T3D.rows};
}

template <Coding How>
void run_coding(const QkvCodes& codes, const View& qkv_T3D, std::int64_t heads, cudaStream_t stream) {
    const std::int64_t vectors = qkv_T3D.rows * 3 * heads;
    const CodingArgs args{codes, vectors, qkv_T3D.cols / (3 * heads)};
    with_type(qkv_T3D, [&](auto* qkv) {
        code_kernel<How><<<blocks_for(vectors, 8), 256, 0, stream>>>(args, qkv);
        check_launch("attention codes");
    });
}

// The bias as kernels read it.
const float* spread(const View& bias_RH, const AttentionShape& shape, const View& table,
                    cudaStream_t stream) {
    if (bias_RH.empty()) return nullptr;
    const unsigned blocks = static_cast<unsigned>((shape.heads * kBiasColumns + 127) / 128);
    if (bias_RH.dtype == DType::kBf16)
        spread_bias<<<blocks, 128, 0, stream>>>(static_cast<const bf16*>(bias_RH.data), shape.heads,
                                                shape.scale, table.as<float>());
    else
        spread_bias<<<blocks, 128, 0, stream>>>(bias_RH.as<float>(), shape.heads, shape.scale,
                                                table.as<float>());
    check_launch("attention bias");
    return table.as<float>();
}

template <class T>
void backward_bias(const SimpleArgs<T>& args, const View& slices, const View& dbias_RH, cudaStream_t stream) {
    const int heads = args.shape.heads;
    bias_gradient<T><<<static_cast<unsigned>(kBiasSlices * heads), 32 * kBiasWarps, 0, stream>>>(
        args, slices.as<float>());
    add_bias_slices<<<static_cast<unsigned>((heads * kRelativeBuckets + 127) / 128), 128, 0, stream>>>(
        slices.as<float>(), heads, dbias_RH.as<float>());
    check_launch("attention backward, bias");
}

}  // namespace

void AttentionOps::start() {
    has_warpgroups_ = context_.properties().major == 9 && hopper::has_code(context_.stream());
}

void AttentionOps::reserve(Arena& arena, const Workload& w) {
    if (w.training && w.heads > 0) {
        delta_TH_ =
            arena.allocate("scratch/attention_delta", DType::kF32, std::max<std::int64_t>(w.tokens, 1),
                           (w.longest > kShortText ? 2 : 1) * w.heads);
    }
    if (!w.relative_bias) return;
    bias_table_ = arena.allocate("scratch/attention_bias", DType::kF32, w.heads, kBiasColumns);
    if (w.training)
        bias_slices_ = arena.allocate("scratch/attention_bias_slices", DType::kF32, kBiasSlices * w.heads,
                                      kRelativeBuckets);
}

// On any card, so that a plan needs none. Texts may come as windows of the longest length.
std::int64_t AttentionOps::mask_bytes(const Workload& w) {
    if (w.longest <= kShortText || w.relative_bias || w.encoder_dtype != DType::kBf16) return 0;
    return 4 * kept_words(w.tokens, w.batch + w.tokens / w.longest, w.heads, w.longest);
}

// Warpgroups have 64 rows: too many for a batch of mostly shorter texts.
bool AttentionOps::on_warpgroups(const DeviceTexts& batch) const {
    return has_warpgroups_ && warps_for(batch, kMostWarps) == kMostWarps;
}

void AttentionOps::forward(const AttentionForward& op) {
    const DeviceTexts batch = texts_.get(op.offsets);
    if (batch.longest == 0) return;
    const std::int64_t width = op.context_TD.cols;
    AttentionShape shape = shape_of(batch, width, op.num_heads, op.dropout);
    shape.bias = spread(op.bias_RH, shape, bias_table_, context_.stream());
    const bool on_mma = on_tensor_cores(op.qkv_T3D.dtype, width, op.num_heads), coded = !op.codes_T3D.empty();
    const bool codes_inside = coded && on_mma && op.bias_RH.empty() && batch.longest <= kShortText;
    if (coded && !codes_inside)
        run_coding<Coding::kEncode>(codes_of(op), op.qkv_T3D, op.num_heads, context_.stream());
    if (on_mma) {
        ForwardArgs args{shape, static_cast<const bf16*>(op.qkv_T3D.data),
                         static_cast<bf16*>(op.context_TD.data),
                         op.lse_TH.empty() ? nullptr : op.lse_TH.as<float>()};
        if (codes_inside) args.codes = codes_of(op);
        if (shape.bias != nullptr)
            run_biased(args, batch, context_.stream());
        else if (batch.longest <= kShortText)
            attention_forward_short(args, batch, {context_.starts_early(), context_.stream()});
        else if (on_warpgroups(batch)) {
            if (!op.mask.empty() && shape.dropout.threshold > 0)
                args.kept = kept_in(op.mask, batch, op.num_heads);
            attention_forward_warpgroups(args, batch, {context_.starts_early(), context_.stream()});
        } else
            run<Forward, kMostWarps>(args, batch, context_.stream());
    } else {
        with_type(op.qkv_T3D, op.fp16, [&](auto* qkv) {
            using T = std::remove_pointer_t<decltype(qkv)>;
            forward_simple<T>(op, shape, batch, op.offsets.back(), context_.stream());
        });
    }
}

void AttentionOps::backward(const AttentionBackward& op) {
    const DeviceTexts batch = texts_.get(op.offsets);
    const bool with_sums = !op.qkv_dbias_1N.empty();
    if (batch.longest == 0) {
        if (with_sums && !op.accumulate) context_.fill_zero(op.qkv_dbias_1N);
        return;
    }
    const std::int64_t width = op.context_TD.cols;
    const bool on_mma = on_tensor_cores(op.qkv_T3D.dtype, width, op.num_heads);
    // One kernel, which can compute the context again and sums the columns.
    const bool is_short = on_mma && op.bias_RH.empty() && batch.longest <= kShortText;
    const bool sums_inside = is_short && with_sums && column_sums_.takes(batch.num_texts, 3 * width);
    float* const sums = sums_inside ? column_sums_.partials(batch.num_texts * 3 * width) : nullptr;
    const bool coded = !op.codes_T3D.empty();
    if (coded && !is_short)
        run_coding<Coding::kDecode>(codes_of(op), op.qkv_T3D, op.num_heads, context_.stream());
    if (op.rounds)
        run_coding<Coding::kRound>({nullptr, nullptr, op.qkv_T3D.rows}, op.qkv_T3D, op.num_heads,
                                   context_.stream());
    if (op.again && !is_short) forward(op.forward());
    AttentionShape shape = shape_of(batch, width, op.num_heads, op.dropout);
    shape.bias = spread(op.bias_RH, shape, bias_table_, context_.stream());
    float* delta = delta_TH_.as<float>();
    if (on_mma) {
        BackwardArgs args{shape,
                          static_cast<const bf16*>(op.dcontext_TD.data),
                          static_cast<const bf16*>(op.qkv_T3D.data),
                          static_cast<const bf16*>(op.context_TD.data),
                          op.lse_TH.as<float>(),
                          delta,
                          static_cast<bf16*>(op.dqkv_T3D.data)};
        args.dqkv_sums = sums;
        if (shape.bias != nullptr) {
            run_biased(args, batch, context_.stream());
        } else if (is_short) {
            if (op.again) args.context_again = static_cast<bf16*>(op.context_TD.data);
            if (coded) args.codes = codes_of(op);
            attention_backward_short(args, batch, {context_.starts_early(), context_.stream()});
        } else if (on_warpgroups(batch)) {
            if (shape.dropout.threshold > 0) args.kept = kept_in(op.mask, batch, op.num_heads);
            attention_backward_warpgroups(args, batch, {context_.starts_early(), context_.stream()});
        } else {
            run<BackwardQueries, kMostWarps>(args, batch, context_.stream());
            run<BackwardKeys, 4>(args, batch, context_.stream());
        }
    } else {
        with_type(op.qkv_T3D, op.fp16, [&](auto* qkv) {
            using T = std::remove_pointer_t<decltype(qkv)>;
            backward_simple<T>(op, shape, batch, delta, context_.stream());
        });
    }
    if (sums_inside)
        column_sums_.add_partials(sums, batch.num_texts, {op.qkv_dbias_1N}, op.accumulate);
    else if (with_sums)
        column_sums_.add_rows(op.dqkv_T3D, op.qkv_dbias_1N, op.accumulate);
    if (shape.bias == nullptr) return;
    with_type(op.qkv_T3D, op.fp16, [&](auto* qkv) {
        using T = std::remove_pointer_t<decltype(qkv)>;
        backward_bias(backward_args<T>(op, shape, batch, delta), bias_slices_, op.dbias_RH,
                      context_.stream());
    });
}

}  // namespace elmo::cuda
