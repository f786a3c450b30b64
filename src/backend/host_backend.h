// What the backends that compute in host memory share: ops have ended when they return.
#pragma once

#include <array>
#include <chrono>

#include "backend/backend.h"
#include "base/process_memory.h"

namespace elmo {

class HostBackend : public Backend {
  public:
    std::unique_ptr<MemoryBlock> allocate(std::int64_t bytes) override { return allocate_host_block(bytes); }
    std::int64_t free_bytes() const override { return available_memory_bytes(); }
    std::int64_t taken_bytes() const override { return peak_resident_bytes(); }
    void mark(int mark) override { marks_.at(static_cast<std::size_t>(mark)) = Clock::now(); }
    double elapsed_ms(int from, int to) override {
        return std::chrono::duration<double, std::milli>(marks_.at(static_cast<std::size_t>(to)) -
                                                         marks_.at(static_cast<std::size_t>(from)))
            .count();
    }

  private:
    using Clock = std::chrono::steady_clock;
    std::array<Clock::time_point, kMarks> marks_{};
};

}  // namespace elmo
