// One device and one stream, shared by the families of ops. Needs no GPU until start(), so a run can be
// planned without one.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/check.h"
#include "elmo/context.h"

namespace elmo::cuda {

class CudaContext {
  public:
    explicit CudaContext(const Context& run) : run_(run) {}
    ~CudaContext();
    CudaContext(const CudaContext&) = delete;
    CudaContext& operator=(const CudaContext&) = delete;

    // Takes the device; true the first time. DeviceError if there is no usable one. Everything below except
    // run() and free_bytes() needs it first.
    bool start();
    bool started() const { return stream_ != nullptr; }
    const Context& run() const { return run_; }  // for messages
    const cudaDeviceProp& properties() const { return properties_; }
    // Whether kernels may start while the one before them ends: on Hopper, with code for it.
    bool starts_early() const;
    cudaStream_t stream() const { return stream_; }
    cublasLtHandle_t lt() const { return lt_; }
    std::string describe() const;

    std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes);
    // Pinned memory of the host, which kernels reach too.
    std::unique_ptr<MemoryBlock> allocate_in_host(std::int64_t bytes);
    bool is_in_host(const View& view) const;
    std::int64_t free_bytes() const;   // of the device
    std::int64_t taken_bytes() const;  // of it by this process since the start, at most

    // A few counters on the device; an op that uses them must restore them.
    void reserve(Arena& arena);
    std::int32_t* flags() const { return flags_.as<std::int32_t>(); }

    // Copies from a host buffer that may be reused at once: through pinned memory, in stream order.
    void send(void* to, const void* from, std::int64_t bytes);
    // Zeroes, in stream order.
    void clear(void* to, std::int64_t bytes, const char* op);
    void fill_zero(const View& view);
    // These block. The other side is memory of the host.
    void upload(const View& to, const void* from);
    void download(void* to, const View& from);
    void wait();
    // These do not. One stream waits for what the other holds so far.
    void wait_for(cudaStream_t other);
    void make_wait(cudaStream_t other);
    void copy_out(void* to, const View& from);  // to memory of the device

    void mark(int mark);
    double elapsed_ms(int from, int to);

  private:
    Context run_;
    std::int64_t free_at_start_ = 0, most_held_ = 0;
    // Bytes of the live blocks, which may outlive this object.
    std::shared_ptr<std::int64_t> held_ = std::make_shared<std::int64_t>(0);
    // Pinned memory of the host, likewise.
    using HostRanges = std::vector<std::pair<const char*, const char*>>;
    std::shared_ptr<HostRanges> in_host_ = std::make_shared<HostRanges>();
    cudaDeviceProp properties_{};
    cudaStream_t stream_ = nullptr;
    cublasLtHandle_t lt_ = nullptr;
    std::vector<cudaEvent_t> marks_;
    cudaEvent_t met_ = nullptr;  // how far one stream had come when another had to wait for it
    View flags_;

    // Pinned memory that uploads pass through; each piece is reused once its event has passed.
    struct Pinned {
        void* data = nullptr;
        std::int64_t bytes = 0;
        cudaEvent_t sent = nullptr;
    };
    static constexpr int kPinned = 32;
    Pinned pinned_[kPinned];
    int next_pinned_ = 0;
};

}  // namespace elmo::cuda
