// AdamW over all tensors of a call in one kernel, and the filling of weights. Compiled without contraction
// and in the order of the CPU backend: both give the same bits.
#include <cmath>
#include <cstring>

#include "backend/cuda/device/early.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/rows.h"
#include "backend/cuda/optimizer/optimizer.h"
#include "elmo/error.h"
#include "numerics/normal.h"

namespace elmo::cuda {
namespace {

constexpr std::int64_t kBlockElements = kThreads * 8;

struct TensorEntry {
    void *w, *grad, *m, *v, *c;
    std::int64_t size, cols, first_block, first_row;
    std::uint32_t stream;
    float weight_decay;
};

struct AdamWArgs {
    float lr, beta1, beta2, epsilon, grad_scale, correction1, correction2;
    std::uint64_t seed, step;
};

// One element; noise of the two moments for BF16.
template <class T, class G>
__device__ __forceinline__ void update_element(const AdamWArgs& a, const TensorEntry& t, float grad, float& w,
                                               float& m, float& v, float& c) {
    const float g = grad * a.grad_scale;
    m = a.beta1 * m + (1.0f - a.beta1) * g;
    v = a.beta2 * v + (1.0f - a.beta2) * (g * g);
    const float direction = (m * a.correction1) / (sqrtf(v * a.correction2) + a.epsilon);
    const float u = -a.lr * (direction + t.weight_decay * w);
    if constexpr (std::is_same_v<T, bf16>) {
        const float y = u + c;
        const float rounded = __bfloat162float(__float2bfloat16_rn(w + y));
        c = y - (rounded - w);
        w = rounded;
    } else {
        w += u;
    }
}

template <int V, class T, class G>
__device__ __forceinline__ void update_some(const AdamWArgs& a, const TensorEntry& t, std::int64_t i) {
    float w[V], g[V], m[V], v[V], c[V] = {};
    load_some<V>(static_cast<const T*>(t.w) + i, w);
    load_some<V>(static_cast<const T*>(t.m) + i, m);
    load_some<V>(static_cast<const T*>(t.v) + i, v);
    constexpr bool kKahan = std::is_same_v<T, bf16>;
    if (kKahan && t.c != nullptr) load_some<V>(static_cast<const T*>(t.c) + i, c);
    wait_for_previous();
    load_some<V>(static_cast<const G*>(t.grad) + i, g);
#pragma unroll
    for (int j = 0; j < V; ++j) update_element<T, G>(a, t, g[j], w[j], m[j], v[j], c[j]);
    store_some<V>(static_cast<T*>(t.w) + i, w);
    if constexpr (!kKahan) {
        store_some<V>(static_cast<T*>(t.m) + i, m);
        store_some<V>(static_cast<T*>(t.v) + i, v);
    } else {
        if (t.c != nullptr) store_some<V>(static_cast<T*>(t.c) + i, c);
        const std::int64_t row = t.first_row + i / t.cols, column = i % t.cols;
        const PhiloxBlock noise_m = noise_block({a.seed, a.step, t.stream}, row, column >> 3);
        const PhiloxBlock noise_v = noise_block({a.seed, a.step, t.stream + 1}, row, column >> 3);
        std::uint16_t rm[V], rv[V];
        if constexpr (V == 8) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                rm[j] = stochastic_bf16(m[j], noise_word(noise_m, j));
                rv[j] = stochastic_bf16(v[j], noise_word(noise_v, j));
            }
            const auto pack = [](const std::uint16_t* r) {
                return make_uint4(r[0] | r[1] << 16, r[2] | r[3] << 16, r[4] | r[5] << 16, r[6] | r[7] << 16);
            };
            *reinterpret_cast<uint4*>(static_cast<T*>(t.m) + i) = pack(rm);
            *reinterpret_cast<uint4*>(static_cast<T*>(t.v) + i) = pack(rv);
        } else {
            const int word = static_cast<int>(column & 7);
            static_cast<std::uint16_t*>(t.m)[i] = stochastic_bf16(m[0], noise_word(noise_m, word));
            static_cast<std::uint16_t*>(t.v)[i] = stochastic_bf16(v[0], noise_word(noise_v, word));
        }
    }
}

template <class T, class G>
__global__ void adamw_kernel(const TensorEntry* entries, int num_entries, AdamWArgs args) {
    let_next_begin();
    // The last entry whose first block is not after this one: each warp looks at 32 of them at a time, since
    // nothing else can begin before it is known.
    const int lane = threadIdx.x % 32;
    int low = 0, count = num_entries;
    while (count > 1) {
        const int step = (count + 31) / 32, at = lane * step;
        const bool fits =
            at < count && entries[low + at].first_block <= static_cast<std::int64_t>(blockIdx.x);
        const int last = (31 - __clz(__ballot_sync(0xffffffffu, fits))) * step;  // the first always fits
        low += last;
        count = min(step, count - last);
    }
    const TensorEntry t = entries[low];
    const std::int64_t first = (blockIdx.x - t.first_block) * kBlockElements;
    if (t.cols % 8 == 0) {
        const std::int64_t i = first + threadIdx.x * 8;
        if (i < t.size) update_some<8, T, G>(args, t, i);
    } else {
        for (std::int64_t i = first + threadIdx.x; i < t.size && i < first + kBlockElements; i += kThreads)
            update_some<1, T, G>(args, t, i);
    }
}

// Eight columns of a row per thread (fewer at its end).
template <class Store>
__global__ void fill_normal_kernel(FillNormal op, Store store) {
    const std::int64_t cols = op.w.cols, groups = (cols + 7) / 8;
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= op.w.rows * groups) return;
    const std::int64_t r = index / groups, begin = index % groups * 8, row = op.first_row + r;
    const PhiloxBlock noise = noise_block(op.rounding, row, begin >> 3);
    for (std::int64_t pair = 0; pair < 4; ++pair) {
        const PhiloxBlock words = noise_block(op.key, row, (begin >> 1) + pair);
        for (int half = 0; half < 2; ++half) {
            const std::int64_t c = begin + 2 * pair + half;
            if (c >= cols) return;
            const float x = op.sigma * normal_of(words[half * 2], words[half * 2 + 1]);
            store(r * cols + c, x, noise[pair] >> (16 * half) & 0xffffu);
        }
    }
}

template <class F>
struct StoreCode {
    std::uint8_t* to;
    __device__ void operator()(std::int64_t i, float x, std::uint32_t noise) const {
        std::uint32_t saturated = 0;
        to[i] = static_cast<std::uint8_t>(stochastic_code<F>(x, noise, saturated));
    }
};
struct StoreBf16 {
    std::uint16_t* to;
    __device__ void operator()(std::int64_t i, float x, std::uint32_t noise) const {
        to[i] = stochastic_bf16(x, noise);
    }
};
struct StoreF32 {
    float* to;
    __device__ void operator()(std::int64_t i, float x, std::uint32_t) const { to[i] = x; }
};

}  // namespace

void OptimizerOps::reserve(Arena& arena, const Workload& w) {
    tables_.clear();
    tables_used_ = 0;
    if (!w.training) return;
    constexpr std::int64_t kTableBytes = 4096 * 80;  // of 4,096 tensors
    table_ = arena.allocate("scratch/optimizer_table", DType::kU8, 1, kTableBytes);
}

void OptimizerOps::adamw(std::span<const AdamWUpdate> ops, bool early) {
    if (ops.empty()) return;
    const AdamWUpdate& first = ops.front();
    std::vector<TensorEntry> entries;
    std::int64_t blocks = 0;
    for (const AdamWUpdate& op : ops) {
        if (op.w.size() == 0) continue;
        entries.push_back({op.w.data, op.grad.data, op.m.data, op.v.data, op.c.data, op.w.size(), op.w.cols,
                           blocks, op.first_row, op.key.stream, op.weight_decay});
        blocks += (op.w.size() + kBlockElements - 1) / kBlockElements;
    }
    if (entries.empty()) return;
    const AdamWArgs args{
        first.lr,
        first.beta1,
        first.beta2,
        first.epsilon,
        first.grad_scale,
        static_cast<float>(1.0 / (1.0 - std::pow(double{first.beta1}, static_cast<double>(first.t)))),
        static_cast<float>(1.0 / (1.0 - std::pow(double{first.beta2}, static_cast<double>(first.t)))),
        first.key.seed,
        first.key.step};
    const auto* table = static_cast<const TensorEntry*>(
        on_device(entries.data(), static_cast<std::int64_t>(entries.size() * sizeof(TensorEntry))));
    with_type(first.w, [&](auto* w) {
        using T = std::remove_pointer_t<decltype(w)>;
        with_type(first.grad, [&](auto* g) {
            using G = std::remove_pointer_t<decltype(g)>;
            launch_early(early && context_.starts_early(), adamw_kernel<T, G>, static_cast<unsigned>(blocks),
                         kThreads, 0, context_.stream(), "AdamW", table, static_cast<int>(entries.size()),
                         args);
        });
    });
}

const void* OptimizerOps::on_device(const void* table, std::int64_t bytes) {
    const auto* from = static_cast<const unsigned char*>(table);
    for (const Table& known : tables_)
        if (static_cast<std::int64_t>(known.content.size()) == bytes &&
            std::memcmp(known.content.data(), from, known.content.size()) == 0)
            return known.device;
    if (bytes > table_.bytes()) throw DeviceError("AdamW: more tensors than were planned for");
    if (tables_used_ + bytes > table_.bytes()) {
        tables_.clear();
        tables_used_ = 0;
    }
    unsigned char* place = static_cast<unsigned char*>(table_.data) + tables_used_;
    tables_used_ += (bytes + 255) / 256 * 256;
    context_.send(place, from, bytes);
    tables_.push_back({place, {from, from + bytes}});
    return place;
}

void fill_normal(const FillNormal& op, cudaStream_t stream) {
    if (op.w.empty()) return;
    if (op.grid.used()) return fill_normal_on_grid(op, stream);
    const unsigned blocks = blocks_for(op.w.rows * ((op.w.cols + 7) / 8), kThreads);
    const auto launch = [&](auto store) { fill_normal_kernel<<<blocks, kThreads, 0, stream>>>(op, store); };
    switch (op.w.dtype) {
        case DType::kF32:
            launch(StoreF32{op.w.as<float>()});
            break;
        case DType::kBf16:
            launch(StoreBf16{static_cast<std::uint16_t*>(op.w.data)});
            break;
        case DType::kE4M3:
            launch(StoreCode<E4M3>{op.w.codes()});
            break;
        case DType::kE3M4:
            launch(StoreCode<E3M4>{op.w.codes()});
            break;
        default:
            throw DeviceError("fill_normal: a GPU holds f32, bf16, e4m3 and e3m4 weights");
    }
    check_launch("filling with normal deviates");
}

}  // namespace elmo::cuda
