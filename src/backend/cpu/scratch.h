// Cutting a piece of scratch into typed parts.
#pragma once

#include <cassert>
#include <cstdint>

namespace elmo::cpu {

class ScratchCutter {
  public:
    explicit ScratchCutter(void* base) : next_(static_cast<char*>(base)), base_(next_) {}
    template <class T>
    T* take(std::int64_t count) {
        T* piece = reinterpret_cast<T*>(next_);
        next_ += padded(count * static_cast<std::int64_t>(sizeof(T)));
        return piece;
    }
    std::int64_t used() const { return next_ - base_; }
    static constexpr std::int64_t padded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  private:
    char* next_;
    char* base_;
};

}  // namespace elmo::cpu
