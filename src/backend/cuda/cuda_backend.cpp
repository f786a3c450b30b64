// The device itself: errors, memory, the stream, times.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/architectures.h"
#include "backend/cuda/head/hopper.h"
#include "backend/cuda/linear/products.h"
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

// DeviceError that says why, where there is no GPU to use.
void require_gpu() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return;
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

}  // namespace

CudaBackend::CudaBackend(const Context& context) : log_(context) {}

void CudaBackend::start() {
    if (stream_ != nullptr) return;
    require_gpu();
    check(cudaSetDevice(device_), "choosing the GPU");
    check(cudaGetDeviceProperties(&properties_, device_), "reading the GPU's properties");
    if (properties_.major < 8)
        throw DeviceError(
            fmt::format("device cuda: {} has compute capability {}.{}, expected 8.0 or newer (BF16 "
                        "products); use --device "
                        "cpu",
                        properties_.name, properties_.major, properties_.minor));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    report_kernels();
    check(cublasLtCreate(&lt_), "starting cuBLASLt");
    products_ = std::make_unique<Products>(lt_, stream_, log_);
    marks_.resize(kMarks);
    for (cudaEvent_t& event : marks_) check(cudaEventCreate(&event), "making an event");
    free_at_start_ = free_bytes();
    for (Pinned& piece : pinned_)
        check(cudaEventCreateWithFlags(&piece.sent, cudaEventDisableTiming), "making an event");
}

void CudaBackend::report_kernels() {
    static std::atomic<bool> reported = false;  // once, however many backends there are
    const bool first = !reported.exchange(true), hopper = properties_.major == 9;
    if (first && !has_machine_code(ELMO_CUDA_ARCHITECTURES, properties_.major, properties_.minor))
        log_.info(fmt::format(
            "compiling kernels for this card: compute {}.{} is not among those of this elmo ({}); this takes "
            "minutes once, the driver keeps the result",
            properties_.major, properties_.minor, ELMO_CUDA_ARCHITECTURES));
    has_hopper_code_ = hopper && hopper::has_code(stream_);
    if (first && hopper && !has_hopper_code_)
        log_.warning(fmt::format(
            "GPU: this elmo has no code for sm_90a ({}): the head takes the kernels of other cards, at about "
            "half the speed; build it with CMAKE_CUDA_ARCHITECTURES=90a-real",
            ELMO_CUDA_ARCHITECTURES));
}

CudaBackend::~CudaBackend() {
    if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_);
    products_.reset();
    for (cudaEvent_t event : marks_) (void)cudaEventDestroy(event);
    for (Pinned& piece : pinned_) {
        (void)cudaFreeHost(piece.data);
        if (piece.sent != nullptr) (void)cudaEventDestroy(piece.sent);
    }
    if (lt_ != nullptr) (void)cublasLtDestroy(lt_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

std::string CudaBackend::describe() const {
    if (stream_ == nullptr) return "an NVIDIA GPU";
    return fmt::format("{} (compute {}.{}, {})", properties_.name, properties_.major, properties_.minor,
                       human_bytes(static_cast<std::int64_t>(properties_.totalGlobalMem)));
}

bool CudaBackend::has_fp8_products() const {
    return stream_ == nullptr || properties_.major > 8 || (properties_.major == 8 && properties_.minor >= 9);
}

std::unique_ptr<MemoryBlock> CudaBackend::allocate(std::int64_t bytes) {
    start();
    auto block = std::make_unique<DeviceBlock>(bytes, held_);
    most_held_ = std::max(most_held_, *held_);
    return block;
}

std::int64_t CudaBackend::free_bytes() const {
    require_gpu();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<std::int64_t>(free);
}

std::int64_t CudaBackend::taken_bytes() const {
    // Other programs move what is free: never less than was allocated here.
    return std::max(free_at_start_ - free_bytes(), most_held_);
}

void CudaBackend::reserve(Arena& arena, const Workload& w) {
    const std::int64_t tokens = std::max<std::int64_t>(w.tokens, 1),
                       batch = std::max<std::int64_t>(w.batch, 1);
    workspace_ = arena.allocate("scratch/cublaslt_workspace", DType::kU8, 1, Products::kWorkspaceBytes);
    // A batch of B texts may also be given as B rows of one entry each.
    const std::int64_t entries = std::max(tokens, batch);
    tokens_1T_ = arena.allocate("scratch/tokens", DType::kI32, 1, entries);
    offsets_1B_ = arena.allocate("scratch/offsets", DType::kI32, 1, entries + 1);
    flags_ = arena.allocate("scratch/flags", DType::kI32, 1, 64);
    if (w.training) {
        sort_in_2T_ = arena.allocate("scratch/sort_in", DType::kI32, 2, entries);
        sort_out_2T_ = arena.allocate("scratch/sort_out", DType::kI32, 2, entries);
        if (!arena.dry()) check_sort_temp(entries);
        sort_temp_ = arena.allocate("scratch/sort_temp", DType::kU8, 1, sort_temp_bytes(entries));
        const std::int64_t columns = std::max({3 * w.width, w.widest, std::int64_t{8}});
        column_partials_ =
            arena.allocate("scratch/column_partials", DType::kF32, kColumnPartials, (columns + 7) / 8 * 8);
        optimizer_table_ = arena.allocate("scratch/optimizer_table", DType::kU8, 1, kOptimizerTableBytes);
        if (w.heads > 0)
            attention_delta_TH_ = arena.allocate("scratch/attention_delta", DType::kF32, tokens, w.heads);
    }
    if (w.fp8_widths > 0) reserve_fp8(arena, entries, w);
    if (w.training && w.labels > 0) reserve_head_report(arena);
    batch_tokens_ = {};
    batch_offsets_ = {};
    tables_.clear();
    tables_used_ = 0;
}

void CudaBackend::send(void* to, const void* from, std::int64_t bytes) {
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

void CudaBackend::upload(View to, const void* from) {
    if (to.empty()) return;
    check(
        cudaMemcpyAsync(to.data, from, static_cast<std::size_t>(to.bytes()), cudaMemcpyHostToDevice, stream_),
        "upload");
    wait();
}

void CudaBackend::download(void* to, View from) {
    if (from.empty()) return;
    check(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()), cudaMemcpyDeviceToHost,
                          stream_),
          "download");
    wait();
}

void CudaBackend::clear(void* to, std::int64_t bytes, const char* op) {
    if (bytes > 0) check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_), op);
}

void CudaBackend::fill_zero(View view) {
    if (!view.empty()) clear(view.data, view.bytes(), "fill with zeros");
}

void CudaBackend::wait() {
    check(cudaStreamSynchronize(stream_), "waiting for the GPU");
}

void CudaBackend::mark(int mark) {
    check(cudaEventRecord(marks_.at(static_cast<std::size_t>(mark)), stream_), "marking a time");
}

double CudaBackend::elapsed_ms(int from, int to) {
    float ms = 0;
    const cudaEvent_t begin = marks_.at(static_cast<std::size_t>(from)),
                      end = marks_.at(static_cast<std::size_t>(to));
    check(cudaEventSynchronize(end), "waiting for a mark");
    check(cudaEventElapsedTime(&ms, begin, end), "reading a time");
    return ms;
}

void CudaBackend::send_texts(std::span<const std::int32_t> tokens, Offsets offsets) {
    if (static_cast<std::int64_t>(tokens.size()) > tokens_1T_.size() ||
        static_cast<std::int64_t>(offsets.size()) > offsets_1B_.size())
        throw DeviceError(fmt::format("a batch of {} texts and {} tokens was not planned for", offsets.size(),
                                      tokens.size()));
    send(tokens_1T_.data, tokens.data(), static_cast<std::int64_t>(tokens.size_bytes()));
    send(offsets_1B_.data, offsets.data(), static_cast<std::int64_t>(offsets.size_bytes()));
    batch_.tokens = tokens_1T_.as<std::int32_t>();
    batch_.offsets = offsets_1B_.as<std::int32_t>();
    batch_.num_texts = std::max<std::int64_t>(static_cast<std::int64_t>(offsets.size()) - 1, 0);
    batch_.num_tokens = offsets.empty() ? 0 : offsets.back();
    batch_.longest = 0;
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
        batch_.longest = std::max<std::int64_t>(batch_.longest, offsets[b + 1] - offsets[b]);
}

void CudaBackend::begin_batch(std::span<const std::int32_t> tokens, Offsets offsets) {
    send_texts(tokens, offsets);
    batch_tokens_ = tokens;
    batch_offsets_ = offsets;
}

DeviceTexts CudaBackend::texts(std::span<const std::int32_t> tokens, Offsets offsets) {
    const bool same_offsets =
        offsets.data() == batch_offsets_.data() && offsets.size() == batch_offsets_.size();
    const bool same_tokens =
        tokens.empty() || (tokens.data() == batch_tokens_.data() && tokens.size() == batch_tokens_.size());
    if (same_offsets && same_tokens && !batch_offsets_.empty()) return batch_;
    send_texts(tokens, offsets);  // what was announced is overwritten: it is sent again when asked for
    batch_tokens_ = {};
    batch_offsets_ = {};
    return batch_;
}

}  // namespace elmo::cuda
