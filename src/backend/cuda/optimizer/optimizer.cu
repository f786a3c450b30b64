// AdamW over up to 32 tensors at a time, and the filling of weights. Compiled without contraction
// and in the order of the CPU backend: both give the same bits.
#include <cmath>

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
    std::uint16_t* exponents;  // state in bytes: of m, and of v above it
    // Elements, or blocks of columns where the state is in bytes: whatever threads are counted by.
    std::int64_t size;
    std::int64_t cols, first_block, first_row;
    std::uint32_t stream;
    float weight_decay;
};

struct AdamWArgs {
    float lr, beta1, beta2, epsilon, grad_scale, correction1, correction2;
    std::uint64_t seed, step;
    std::uint32_t noise_shift;  // of both halves of a word
};

__device__ __forceinline__ void move_moments(const AdamWArgs& a, float grad, float& m, float& v) {
    const float g = grad * a.grad_scale;
    m = a.beta1 * m + (1.0f - a.beta1) * g;
    v = a.beta2 * v + (1.0f - a.beta2) * (g * g);
}
__device__ __forceinline__ float update_of(const AdamWArgs& a, float weight_decay, float direction, float w) {
    return -a.lr * (direction + weight_decay * w);
}

// The larger magnitude; NaN where one of them is.
__device__ __forceinline__ float larger(float a, float b) {
    float largest;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(fabsf(a)), "f"(fabsf(b)));
    return largest;
}

// a / (sqrt(x) + epsilon), with sqrtf's and the quotient's own steps but without their checks: a is zero or
// of 2^-101 to 2^80, x is zero or of 2^-101 to 2^46, epsilon is at least 2^-40.
__device__ __forceinline__ float usual_direction(float a, float x, float epsilon) {
    float y, r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaxf(x, 0x1p-101f)));
    const float s = x * y;
    const float b = __fmaf_rn(__fmaf_rn(-s, s, x), y * 0.5f, s) + epsilon;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    r = __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r);
    const float q = a * r;
    return copysignf(__fmaf_rn(r, __fmaf_rn(-b, q, a), q), a);
}

// The same for any numbers. Not inlined: it is hardly ever called, and would take registers from the rest.
__device__ __noinline__ float any_direction(float a, float x, float epsilon) {
    return a / (sqrtf(x) + epsilon);
}

// Directions of eight weights, with one check for all of them, and the largest magnitudes of their moments.
struct Largest {
    float m = 0, v = 0;
};
__device__ __forceinline__ Largest directions(const AdamWArgs& a, const float (&m)[8], const float (&v)[8],
                                              float (&direction)[8]) {
    Largest largest;
    std::uint32_t least = 0xffffffffu;  // of what is not zero; as bits, less one
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        largest.m = larger(largest.m, m[j]);
        largest.v = larger(largest.v, v[j]);
        least = __viaddmin_u32(__float_as_uint(fabsf(m[j] * a.correction1)), 0xffffffffu, least);
        least = __viaddmin_u32(__float_as_uint(v[j] * a.correction2), 0xffffffffu, least);
    }
    const bool usual = least >= 0x0cffffffu && largest.m * a.correction1 <= 0x1p80f &&
                       largest.v * a.correction2 <= 0x1p46f && a.epsilon >= 0x1p-40f;
    if (usual) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
            direction[j] = usual_direction(m[j] * a.correction1, v[j] * a.correction2, a.epsilon);
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
            direction[j] = any_direction(m[j] * a.correction1, v[j] * a.correction2, a.epsilon);
    }
    return largest;
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
    float direction[V];
#pragma unroll
    for (int j = 0; j < V; ++j) move_moments(a, g[j], m[j], v[j]);
    if constexpr (V == 8)
        directions(a, m, v, direction);
    else
        direction[0] = any_direction(m[0] * a.correction1, v[0] * a.correction2, a.epsilon);
#pragma unroll
    for (int j = 0; j < V; ++j) {
        const float u = update_of(a, t.weight_decay, direction[j], w[j]);
        if constexpr (kKahan) {
            const float y = u + c[j];
            const float rounded = __bfloat162float(__float2bfloat16_rn(w[j] + y));
            c[j] = y - (rounded - w[j]);
            w[j] = rounded;
        } else {
            w[j] += u;
        }
    }
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

// The tensors of a kernel: they come with its launch, so that nothing waits for them.
constexpr int kMostEntries = 32;
struct Entries {
    TensorEntry entry[kMostEntries];
    int count = 0;
};

// The last entry whose first block is not after this one.
__device__ __forceinline__ int find_entry(const Entries& all, std::uint32_t block) {
    int found = 0;
#pragma unroll
    for (int step = kMostEntries / 2; step > 0; step /= 2)
        if (found + step < all.count && all.entry[found + step].first_block <= std::int64_t{block})
            found += step;
    return found;
}

template <class T, class G>
__global__ void adamw_kernel(const __grid_constant__ Entries entries, AdamWArgs args) {
    let_next_begin();
    const TensorEntry t = entries.entry[find_entry(entries, blockIdx.x)];
    const std::int64_t first = (blockIdx.x - t.first_block) * kBlockElements;
    if (t.cols % 8 == 0) {
        const std::int64_t i = first + threadIdx.x * 8;
        if (i < t.size) update_some<8, T, G>(args, t, i);
    } else {
        for (std::int64_t i = first + threadIdx.x; i < t.size && i < first + kBlockElements; i += kThreads)
            update_some<1, T, G>(args, t, i);
    }
}

// State in bytes: 16 threads have a block of 128 columns, eight each.
constexpr int kBlockLanes = static_cast<int>(kMomentBlock / 8);
constexpr int kByteBlocks = kThreads / kBlockLanes;  // per block of threads

// Eight neighbouring BF16 numbers, and eight bytes.
struct alignas(16) Eight16 {
    std::uint32_t words[4];
    __device__ __forceinline__ std::uint32_t operator[](int j) const {
        return words[j / 2] >> 16 * (j % 2) & 0xffffu;
    }
};
struct alignas(8) Eight8 {
    std::uint32_t words[2];
    __device__ __forceinline__ std::uint32_t operator[](int j) const {
        return words[j / 4] >> 8 * (j % 4) & 255u;
    }
};

// The upper halves of eight words, and byte `kByte` of each.
__device__ __forceinline__ Eight16 upper_halves(const std::uint32_t (&x)[8]) {
    const auto pair = [&](int j) { return __byte_perm(x[j], x[j + 1], 0x7632); };
    return {{pair(0), pair(2), pair(4), pair(6)}};
}
template <int kByte>
__device__ __forceinline__ Eight8 bytes_of(const std::uint32_t (&x)[8]) {
    const auto pair = [&](int j) { return __byte_perm(x[j], x[j + 1], kByte | (4 + kByte) << 4); };
    return {{__byte_perm(pair(0), pair(2), 0x5410), __byte_perm(pair(4), pair(6), 0x5410)}};
}

// Eight numbers of type E at once, or none, where rows begin at multiples of eight; else up to eight.
template <bool kEights, class E, class Eight>
__device__ __forceinline__ Eight load_eight(const void* from, std::int64_t i, int count) {
    const E* p = static_cast<const E*>(from) + i;
    Eight x{};
    if constexpr (kEights) {
        if (count > 0) x = *reinterpret_cast<const Eight*>(p);
    } else {
        constexpr int kPerWord = 4 / sizeof(E);
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (j < count) x.words[j / kPerWord] |= std::uint32_t{p[j]} << 8 * sizeof(E) * (j % kPerWord);
    }
    return x;
}
template <bool kEights, class E, class Eight>
__device__ __forceinline__ void store_eight(void* to, std::int64_t i, const Eight& x, int count) {
    E* p = static_cast<E*>(to) + i;
    if constexpr (kEights) {
        *reinterpret_cast<Eight*>(p) = x;
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (j < count) p[j] = static_cast<E>(x[j]);
    }
}

template <bool kEights, class G>
__device__ __forceinline__ Packed<8, G> load_gradient(const G* p, int count) {
    Packed<8, G> packed{};
    if constexpr (kEights) {
        if (count > 0) packed = load_packed<8>(p);
    } else if constexpr (std::is_same_v<G, bf16>) {
        const auto x = load_eight<false, std::uint16_t, Eight16>(p, 0, count);
        packed.x = make_uint4(x.words[0], x.words[1], x.words[2], x.words[3]);
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
            if (j < count) packed.x[j] = p[j];
    }
    return packed;
}

__device__ __forceinline__ std::uint32_t largest_in_block(std::uint32_t x) {
#pragma unroll
    for (int step = 1; step < kBlockLanes; step *= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

// Eight columns of a tensor, as a thread has loaded them; fewer at the end of a row. Threads without columns
// are there all the same: their neighbours ask for the largest moments of all.
template <class G>
struct EightColumns {
    int entry = 0, count = 0;
    std::uint32_t block = 0, row = 0, column = 0, exponents = 0;
    Eight16 w;
    Eight8 m, v, c;
    Packed<8, G> grad;

    __device__ __forceinline__ std::int64_t place(const TensorEntry& t) const {
        return static_cast<std::int64_t>(row) * t.cols + column;
    }
    // All but the gradient.
    __device__ __forceinline__ void load_state(const Entries& all, std::uint32_t block_of_threads) {
        entry = find_entry(all, block_of_threads);
        const TensorEntry& t = all.entry[entry];
        block = (block_of_threads - static_cast<std::uint32_t>(t.first_block)) * kByteBlocks +
                threadIdx.x / kBlockLanes;
        const auto cols = static_cast<std::uint32_t>(t.cols), blocks = (cols + 127) / 128;
        row = block / blocks;
        column = block % blocks * 128 + threadIdx.x % kBlockLanes * 8;
        count = block < t.size && column < cols ? static_cast<int>(min(cols - column, 8u)) : 0;
        exponents = block < t.size ? t.exponents[block] : 0;
        t.cols % 8 == 0 ? load_state_as<true>(t) : load_state_as<false>(t);
    }
    template <bool kEights>
    __device__ __forceinline__ void load_state_as(const TensorEntry& t) {
        const std::int64_t i = place(t);
        w = load_eight<kEights, std::uint16_t, Eight16>(t.w, i, count);
        m = load_eight<kEights, std::uint8_t, Eight8>(t.m, i, count);
        v = load_eight<kEights, std::uint8_t, Eight8>(t.v, i, count);
        c = load_eight<kEights, std::uint8_t, Eight8>(t.c, i, count);
    }
    __device__ __forceinline__ void load_gradient(const Entries& all) {
        const TensorEntry& t = all.entry[entry];
        const G* const from = static_cast<const G*>(t.grad) + place(t);
        grad = t.cols % 8 == 0 ? cuda::load_gradient<true>(from, count)
                               : cuda::load_gradient<false>(from, count);
    }

    __device__ __forceinline__ void update(const Entries& all, const AdamWArgs& a) {
        const TensorEntry& t = all.entry[entry];
        PhiloxBlock noise = noise_block({a.seed, 0, t.stream}, t.first_row + row, column >> 3);
        for (std::uint32_t& two : noise) two = __vadd2(two, a.noise_shift);
        float g[8], new_m[8], new_v[8];
        unpack(grad, g);
        float direction[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            new_m[j] = decode_first_moment(m[j], exponents & 255u);
            new_v[j] = decode_second_moment(v[j], exponents >> 8);
            move_moments(a, g[j], new_m[j], new_v[j]);
        }
        const Largest largest = directions(a, new_m, new_v, direction);
        std::uint32_t weights[8], m_bytes[8], v_bytes[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float old = decode_weight(w[j], c[j]);
            weights[j] =
                round_weight(old + update_of(a, t.weight_decay, direction[j], old), noise_word(noise, j));
        }
        const std::uint32_t m_exponent =
            moment_exponent(largest_in_block(__float_as_uint(largest.m)), kFirstMomentRange);
        const std::uint32_t v_exponent =
            moment_exponent(largest_in_block(__float_as_uint(largest.v)), kSecondMomentRange);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            m_bytes[j] = encode_first_moment(new_m[j], m_exponent, noise_word(noise, j));
            v_bytes[j] = encode_second_moment(new_v[j], v_exponent, noise_word(noise, j));
        }
        if (count == 0) return;
        m = bytes_of<3>(m_bytes);
        v = bytes_of<3>(v_bytes);
        c = bytes_of<1>(weights);
#pragma unroll
        for (int j = 0; j < 8; ++j) weights[j] = weight_bf16(weights[j]);
        w = upper_halves(weights);
        t.cols % 8 == 0 ? store_as<true>(t) : store_as<false>(t);
        if (threadIdx.x % kBlockLanes == 0)
            t.exponents[block] = static_cast<std::uint16_t>(m_exponent | v_exponent << 8);
    }
    template <bool kEights>
    __device__ __forceinline__ void store_as(const TensorEntry& t) const {
        const std::int64_t i = place(t);
        store_eight<kEights, std::uint8_t>(t.m, i, m, count);
        store_eight<kEights, std::uint8_t>(t.v, i, v, count);
        store_eight<kEights, std::uint8_t>(t.c, i, c, count);
        store_eight<kEights, std::uint16_t>(t.w, i, w, count);
    }
};

// Each block of threads takes every gridDim-th piece of work, and loads the next one while it computes.
constexpr int kResident = 3;  // per multiprocessor
template <class G>
__global__ void __launch_bounds__(kThreads, kResident)
    adamw_bytes_kernel(const __grid_constant__ Entries entries, const __grid_constant__ AdamWArgs args,
                       std::uint32_t blocks) {
    let_next_begin();
    EightColumns<G> now, next;
    now.load_state(entries, blockIdx.x);
    wait_for_previous();
    now.load_gradient(entries);
    for (std::uint32_t at = blockIdx.x;;) {
        at += gridDim.x;
        if (at < blocks) {
            next.load_state(entries, at);
            next.load_gradient(entries);
        }
        now.update(entries, args);
        if (at >= blocks) break;
        now = next;
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

void OptimizerOps::adamw(std::span<const AdamWUpdate> ops, bool early) {
    if (ops.empty()) return;
    const AdamWUpdate& first = ops.front();
    const AdamWArgs args{
        first.lr,
        first.beta1,
        first.beta2,
        first.epsilon,
        first.grad_scale,
        static_cast<float>(1.0 / (1.0 - std::pow(double{first.beta1}, static_cast<double>(first.t)))),
        static_cast<float>(1.0 / (1.0 - std::pow(double{first.beta2}, static_cast<double>(first.t)))),
        first.key.seed,
        first.key.step,
        noise_shift(first.t) * 0x10001u};
    Entries entries;
    std::int64_t blocks = 0;
    const auto run = [&] {
        with_type(first.grad, [&](auto* g) {
            using G = std::remove_pointer_t<decltype(g)>;
            const auto launch = [&](auto kernel, std::int64_t most, const auto&... more) {
                launch_early(early && context_.starts_early(), kernel, blocks_up_to(most, blocks, 1),
                             kThreads, 0, context_.stream(), "AdamW", entries, args, more...);
            };
            if (first.in_bytes())
                return launch(adamw_bytes_kernel<G>, kResident * context_.properties().multiProcessorCount,
                              static_cast<std::uint32_t>(blocks));
            with_type(first.w,
                      [&](auto* w) { launch(adamw_kernel<std::remove_pointer_t<decltype(w)>, G>, blocks); });
        });
        entries.count = 0;
        blocks = 0;
    };
    for (const AdamWUpdate& op : ops) {
        if (op.w.size() == 0) continue;
        if (entries.count == kMostEntries) run();
        const std::int64_t size = op.in_bytes() ? op.w.rows * moment_blocks(op.w.cols) : op.w.size();
        const std::int64_t at_once = op.in_bytes() ? kByteBlocks : kBlockElements;
        entries.entry[entries.count++] = {
            op.w.data,    op.grad.data,  op.m.data,
            op.v.data,    op.c.data,     static_cast<std::uint16_t*>(op.exponents.data),
            size,         op.w.cols,     blocks,
            op.first_row, op.key.stream, op.weight_decay};
        blocks += (size + at_once - 1) / at_once;
    }
    if (entries.count > 0) run();
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
