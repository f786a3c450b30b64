#include "backend/cpu/linear/gemm.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "elmo/error.h"

namespace elmo::cpu {
namespace {

struct Key {
    Gemm shape;
    bool bf16 = false;
    bool operator==(const Key&) const = default;
};

struct KeyHash {
    std::size_t operator()(const Key& key) const {
        const Gemm& s = key.shape;
        std::size_t h = key.bf16 ? 1 : 2;
        for (const std::int64_t v : {s.m, s.n, s.k, s.lda, s.ldb, s.ldc, std::int64_t{s.transpose_a},
                                     std::int64_t{s.transpose_b}, std::int64_t{s.accumulate}})
            h = (h ^ static_cast<std::size_t>(v)) * 0x9E3779B97F4A7C15ull;
        return h ^ (h >> 29);
    }
};

dnnl::engine& engine() {
    static dnnl::engine the_engine(dnnl::engine::kind::cpu, 0);
    return the_engine;
}

// A prepared product with its memory handles; one set per thread, so handles can be reused.
struct Prepared {
    dnnl::matmul primitive;
    dnnl::memory a, b, c;
};

// oneDNN writes its code to the null page where it gets no memory for it. So it starts only with room enough,
// and without it the failure is one that callers know.
void require_room_for_code() {
    constexpr std::size_t kRoom = std::size_t{8} << 20;  // its code and tables take less than 2 MiB
    void* room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    ::munmap(room, kRoom);
}

Prepared prepare(const Key& key) {
    require_room_for_code();
    using dnnl::memory;
    const Gemm& s = key.shape;
    const auto type = key.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::dims a_strides = s.transpose_a ? memory::dims{1, s.lda} : memory::dims{s.lda, 1};
    const memory::dims b_strides = s.transpose_b ? memory::dims{1, s.ldb} : memory::dims{s.ldb, 1};
    const memory::desc a({s.m, s.k}, type, a_strides), b({s.k, s.n}, type, b_strides);
    const memory::desc c({s.m, s.n}, memory::data_type::f32, memory::dims{s.ldc, 1});
    dnnl::primitive_attr attributes;
    if (s.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0f);
        attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
    return {dnnl::matmul(description), memory(a, engine(), nullptr), memory(b, engine(), nullptr),
            memory(c, engine(), nullptr)};
}

// oneDNN would use its own threads when called outside a parallel region.
class OneThread {
  public:
    OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
    ~OneThread() { omp_set_num_threads(before_); }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

  private:
    int before_;
};

void run(const Gemm& shape, bool bf16, const void* a, const void* b, float* c) {
    if (shape.m == 0 || shape.n == 0) return;
    const OneThread one_thread;
    thread_local std::unordered_map<Key, Prepared, KeyHash> prepared;
    thread_local dnnl::stream stream(engine());
    try {
        constexpr std::size_t kMostPrepared = 512;  // shapes of a run are few; a bound all the same
        if (prepared.size() > kMostPrepared) prepared.clear();
        const Key key{shape, bf16};
        auto found = prepared.find(key);
        if (found == prepared.end()) found = prepared.emplace(key, prepare(key)).first;
        Prepared& p = found->second;
        p.a.set_data_handle(const_cast<void*>(a));
        p.b.set_data_handle(const_cast<void*>(b));
        p.c.set_data_handle(c);
        p.primitive.execute(stream, {{DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_DST, p.c}});
        stream.wait();
    } catch (const dnnl::error& e) {
        throw DeviceError(
            fmt::format("oneDNN could not multiply {}x{}x{}: {}", shape.m, shape.n, shape.k, e.message));
    }
}

}  // namespace

void gemm(const Gemm& shape, const float* a, const float* b, float* c) {
    run(shape, false, a, b, c);
}
void gemm(const Gemm& shape, const Bf16* a, const Bf16* b, float* c) {
    run(shape, true, a, b, c);
}

}  // namespace elmo::cpu
