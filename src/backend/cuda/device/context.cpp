#include "backend/cuda/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/cuda/device/architectures.h"
#include "base/parallel.h"
#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

class DeviceBlock : public MemoryBlock {
  public:
    // Adds itself to `held` while it lives.
    DeviceBlock(std::int64_t bytes, std::shared_ptr<std::int64_t> held)
        : bytes_(std::max<std::int64_t>(bytes, 1)), held_(std::move(held)) {
        const cudaError_t status = cudaMalloc(&data_, static_cast<std::size_t>(bytes_));
        if (status != cudaSuccess) {
            (void)cudaGetLastError();
            std::size_t free = 0, total = 0;
            (void)cudaMemGetInfo(&free, &total);
            throw OutOfMemory(fmt::format("the GPU refused {} of memory ({}): {} of its {} are free",
                                          human_bytes(bytes), cudaGetErrorString(status),
                                          human_bytes(static_cast<std::int64_t>(free)),
                                          human_bytes(static_cast<std::int64_t>(total))));
        }
        check(cudaMemset(data_, 0, static_cast<std::size_t>(bytes_)), "clearing the arena");
        check(cudaDeviceSynchronize(), "clearing the arena");
        *held_ += bytes_;
    }
    ~DeviceBlock() override {
        (void)cudaFree(data_);
        *held_ -= bytes_;
    }
    DeviceBlock(const DeviceBlock&) = delete;
    DeviceBlock& operator=(const DeviceBlock&) = delete;
    void* data() override { return data_; }
    std::int64_t bytes() const override { return bytes_; }

  private:
    void* data_ = nullptr;
    std::int64_t bytes_;
    std::shared_ptr<std::int64_t> held_;
};

class PinnedBlock : public MemoryBlock {
  public:
    using Ranges = std::vector<std::pair<const char*, const char*>>;
    // Adds itself to `ranges` while it lives. Ordinary memory in large pages, touched by all threads and then
    // pinned: half the time of memory that CUDA allocates (measured: 0.3 s per GiB).
    PinnedBlock(std::int64_t bytes, std::shared_ptr<Ranges> ranges, const Context& run)
        : block_(allocate_host_block(bytes)), ranges_(std::move(ranges)) {
        constexpr std::int64_t kTouched = std::int64_t{2} << 20;
        char* const begin = static_cast<char*>(block_->data());
        run.threads().parallel_ranges(
            (bytes + kTouched - 1) / kTouched, 1, [&](std::int64_t first, std::int64_t last) {
                for (std::int64_t at = first * kTouched; at < std::min(bytes, last * kTouched); at += 4096)
                    static_cast<volatile char*>(begin)[at] = 0;
            });
        const cudaError_t status =
            cudaHostRegister(begin, static_cast<std::size_t>(bytes), cudaHostRegisterPortable);
        if (status != cudaSuccess) {
            (void)cudaGetLastError();
            throw OutOfMemory(
                fmt::format("the system refused {} of pinned memory ({}); limits of the "
                            "container or `ulimit -l` may be the reason",
                            human_bytes(bytes), cudaGetErrorString(status)));
        }
        ranges_->emplace_back(begin, begin + bytes);
    }
    ~PinnedBlock() override {
        (void)cudaDeviceSynchronize();  // nothing is on its way
        std::erase_if(*ranges_, [&](const auto& range) { return range.first == block_->data(); });
        (void)cudaHostUnregister(block_->data());
    }
    PinnedBlock(const PinnedBlock&) = delete;
    PinnedBlock& operator=(const PinnedBlock&) = delete;
    void* data() override { return block_->data(); }
    std::int64_t bytes() const override { return block_->bytes(); }

  private:
    std::unique_ptr<MemoryBlock> block_;
    std::shared_ptr<Ranges> ranges_;
};

// The context's GPU. The ranks of a machine count from 0 and take the GPUs that each of them sees in turn: a
// launcher may show them all, or a rank only its own.
int device_of(const Context& run) {
    int count = 0;
    if (run.ranks() == nullptr || cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return run.device();
    return run.device() % count;
}

// DeviceError with the reason if there is no usable GPU of this number.
void require_gpu(int device) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) {
        if (device < count) return;
        throw DeviceError(
            fmt::format("device cuda: expected a GPU from 0 to {}, found number {}", count - 1, device));
    }
    (void)cudaGetLastError();
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver > 0 && driver < runtime / 1000 * 1000)
        throw DeviceError(fmt::format(
            "device cuda: the driver serves CUDA {}.{}, this elmo needs {}.0; update the driver, or "
            "use --device cpu",
            driver / 1000, driver % 1000 / 10, runtime / 1000));
    throw DeviceError(fmt::format("device cuda: no GPU found ({}); use --device cpu",
                                  driver == 0             ? "there is no NVIDIA driver"
                                  : status == cudaSuccess ? "the driver sees none"
                                                          : cudaGetErrorString(status)));
}

// Reports that the driver has to compile the kernels: once, for any number of backends.
void announce_compiling(const cudaDeviceProp& card, const Context& run) {
    static std::atomic<bool> announced = false;
    if (has_machine_code(ELMO_CUDA_ARCHITECTURES, card.major, card.minor) || announced.exchange(true)) return;
    run.info(fmt::format(
        "compiling kernels for this card: compute {}.{} is not among those of this elmo ({}); this "
        "takes minutes once, the driver keeps the result",
        card.major, card.minor, ELMO_CUDA_ARCHITECTURES));
}

}  // namespace

bool CudaContext::start() {
    if (started()) return false;
    const int device = device_of(run_);
    require_gpu(device);
    check(cudaSetDevice(device), "choosing the GPU");
    check(cudaGetDeviceProperties(&properties_, device), "reading the GPU's properties");
    if (properties_.major < 8)
        throw DeviceError(
            fmt::format("device cuda: {} has compute capability {}.{}, expected 8.0 or newer (BF16 "
                        "products); use --device "
                        "cpu",
                        properties_.name, properties_.major, properties_.minor));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    announce_compiling(properties_, run_);
    check(cublasLtCreate(&lt_), "starting cuBLASLt");
    marks_.resize(Backend::kMarks);
    for (cudaEvent_t& event : marks_) check(cudaEventCreate(&event), "making an event");
    check(cudaEventCreateWithFlags(&met_, cudaEventDisableTiming), "making an event");
    free_at_start_ = free_bytes();
    for (Pinned& piece : pinned_)
        check(cudaEventCreateWithFlags(&piece.sent, cudaEventDisableTiming), "making an event");
    return true;
}

CudaContext::~CudaContext() {
    if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_);
    for (cudaEvent_t event : marks_) (void)cudaEventDestroy(event);
    if (met_ != nullptr) (void)cudaEventDestroy(met_);
    for (Pinned& piece : pinned_) {
        (void)cudaFreeHost(piece.data);
        if (piece.sent != nullptr) (void)cudaEventDestroy(piece.sent);
    }
    if (lt_ != nullptr) (void)cublasLtDestroy(lt_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

bool CudaContext::starts_early() const {
    return properties_.major == 9 && has_machine_code(ELMO_CUDA_ARCHITECTURES, 9, 0);
}

std::string CudaContext::describe() const {
    if (stream_ == nullptr) return "an NVIDIA GPU";
    return fmt::format("{} (compute {}.{}, {})", properties_.name, properties_.major, properties_.minor,
                       human_bytes(static_cast<std::int64_t>(properties_.totalGlobalMem)));
}

std::unique_ptr<MemoryBlock> CudaContext::allocate(std::int64_t bytes) {
    auto block = std::make_unique<DeviceBlock>(bytes, held_);
    most_held_ = std::max(most_held_, *held_);
    return block;
}

std::unique_ptr<MemoryBlock> CudaContext::allocate_in_host(std::int64_t bytes) {
    return std::make_unique<PinnedBlock>(bytes, in_host_, run_);
}

bool CudaContext::is_in_host(const View& view) const {
    const auto* data = static_cast<const char*>(view.data);
    return std::ranges::any_of(*in_host_,
                               [&](const auto& range) { return range.first <= data && data < range.second; });
}

std::int64_t CudaContext::free_bytes() const {
    const int device = device_of(run_);
    require_gpu(device);
    check(cudaSetDevice(device), "choosing the GPU");
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<std::int64_t>(free);
}

std::int64_t CudaContext::taken_bytes() const {
    // Other programs change the free memory: never report less than was allocated here.
    return std::max(free_at_start_ - free_bytes(), most_held_);
}

void CudaContext::reserve(Arena& arena) {
    flags_ = arena.allocate("scratch/flags", DType::kI32, 1, 64);
}

void CudaContext::send(void* to, const void* from, std::int64_t bytes) {
    if (bytes == 0) return;
    Pinned& piece = pinned_[next_pinned_];
    next_pinned_ = (next_pinned_ + 1) % kPinned;
    check(cudaEventSynchronize(piece.sent), "waiting for a transfer");
    if (piece.bytes < bytes) {
        (void)cudaFreeHost(piece.data);
        piece.data = nullptr;
        piece.bytes = 0;
        const std::int64_t rounded = (bytes + (1 << 16) - 1) >> 16 << 16;
        check(cudaMallocHost(&piece.data, static_cast<std::size_t>(rounded)), "taking pinned memory");
        piece.bytes = rounded;
    }
    std::memcpy(piece.data, from, static_cast<std::size_t>(bytes));
    check(cudaMemcpyAsync(to, piece.data, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_),
          "sending to the GPU");
    check(cudaEventRecord(piece.sent, stream_), "sending to the GPU");
}

void CudaContext::upload(const View& to, const void* from) {
    if (to.empty()) return;
    check(
        cudaMemcpyAsync(to.data, from, static_cast<std::size_t>(to.bytes()), cudaMemcpyHostToDevice, stream_),
        "upload");
    wait();
}

void CudaContext::download(void* to, const View& from) {
    if (from.empty()) return;
    check(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()), cudaMemcpyDeviceToHost,
                          stream_),
          "download");
    wait();
}

void CudaContext::clear(void* to, std::int64_t bytes, const char* op) {
    if (bytes > 0) check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_), op);
}

void CudaContext::fill_zero(const View& view) {
    if (!view.empty()) clear(view.data, view.bytes(), "fill with zeros");
}

void CudaContext::wait() {
    check(cudaStreamSynchronize(stream_), "waiting for the GPU");
}

void CudaContext::wait_for(cudaStream_t other) {
    check(cudaEventRecord(met_, other), "waiting for another stream");
    check(cudaStreamWaitEvent(stream_, met_), "waiting for another stream");
}

void CudaContext::make_wait(cudaStream_t other) {
    check(cudaEventRecord(met_, stream_), "making another stream wait");
    check(cudaStreamWaitEvent(other, met_), "making another stream wait");
}

void CudaContext::copy_out(void* to, const View& from) {
    check(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()), cudaMemcpyDeviceToDevice,
                          stream_),
          "copy");
}

void CudaContext::mark(int mark) {
    check(cudaEventRecord(marks_.at(static_cast<std::size_t>(mark)), stream_), "marking a time");
}

double CudaContext::elapsed_ms(int from, int to) {
    float ms = 0;
    const cudaEvent_t begin = marks_.at(static_cast<std::size_t>(from)),
                      end = marks_.at(static_cast<std::size_t>(to));
    check(cudaEventSynchronize(end), "waiting for a mark");
    check(cudaEventElapsedTime(&ms, begin, end), "reading a time");
    return ms;
}

}  // namespace elmo::cuda
