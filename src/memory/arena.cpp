#include "memory/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

class HostBlock : public MemoryBlock {
  public:
    explicit HostBlock(std::int64_t bytes) : bytes_(std::max<std::int64_t>(bytes, 1)) {
        data_ = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data_ == MAP_FAILED)
            throw OutOfMemory(
                fmt::format("the system refused {} of memory: {}", human_bytes(bytes), std::strerror(errno)));
        // Fewer page faults and TLB misses; a refusal is harmless.
        (void)madvise(data_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
    }
    ~HostBlock() override { munmap(data_, static_cast<std::size_t>(bytes_)); }
    void* data() override { return data_; }
    std::int64_t bytes() const override { return bytes_; }

  private:
    void* data_ = nullptr;
    std::int64_t bytes_;
};

}  // namespace

std::unique_ptr<MemoryBlock> allocate_host_block(std::int64_t bytes) {
    return std::make_unique<HostBlock>(bytes);
}

Arena::Arena(std::unique_ptr<MemoryBlock> block) : block_(std::move(block)) {}

View Arena::allocate(std::string name, DType dtype, std::int64_t rows, std::int64_t cols) {
    std::int64_t count = 0, bytes = 0;
    if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, cols, &count) ||
        __builtin_mul_overflow(count, size_of(dtype), &bytes) ||
        bytes > std::numeric_limits<std::int64_t>::max() / 2 - used_)
        throw ConfigError(fmt::format("{}: {} x {} elements of {} are beyond any memory", name, rows, cols,
                                      name_of(dtype)));
    const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (block_ != nullptr && used_ + rounded > block_->bytes())
        throw OutOfMemory(fmt::format("out of memory at {} ({}): {} of {} are in use", name,
                                      human_bytes(bytes), human_bytes(used_), human_bytes(block_->bytes())));
    View view{block_ == nullptr ? nullptr : static_cast<char*>(block_->data()) + used_, dtype, rows, cols};
    used_ += rounded;
    all_.push_back({std::move(name), rounded, false});
    live_.push_back(all_.size() - 1);
    if (used_ > peak_) {
        peak_ = used_;
        live_at_peak_ = live_;
    }
    if (used_ > phase_.bytes) {
        phase_.bytes = used_;
        phase_.segments = live_;
    }
    return view;
}

void Arena::end_phase(std::string name) {
    if (phase_.bytes == 0) {  // nothing of its own
        phase_.bytes = used_;
        phase_.segments = live_;
    }
    phase_.name = std::move(name);
    phases_.push_back(std::move(phase_));
    phase_ = {};
}

std::vector<Segment> Arena::segments() const {
    std::vector<Segment> result = all_;
    for (const std::size_t index : live_at_peak_) result[index].at_peak = true;
    return result;
}

}  // namespace elmo
