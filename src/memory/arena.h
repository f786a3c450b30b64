// The arena: the only owner of model and step memory. Planning and allocating are the same code: run it
// on an arena without memory and it counts, names and hands out empty views; run it on one of that size
// and it hands out the memory. So the plan is exact by construction.
//
// Allocation is a stack. What lives for the whole run is allocated first; what lives for one phase of a
// step is allocated inside a Scope, so phases overlay each other. A Scope may start at an earlier mark: over
// what was allocated since and is dead in its phase.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "elmo/memory.h"
#include "tensor/view.h"

namespace elmo {

// Zeroed memory of one device. The CPU's is an anonymous mapping.
class MemoryBlock {
  public:
    virtual ~MemoryBlock() = default;
    virtual void* data() = 0;
    virtual std::int64_t bytes() const = 0;
};
// OutOfMemory when the system refuses.
std::unique_ptr<MemoryBlock> allocate_host_block(std::int64_t bytes);

class Arena {
  public:
    static constexpr std::int64_t kAlignment = 256;

    Arena() = default;                                   // dry run
    explicit Arena(std::unique_ptr<MemoryBlock> block);  // the real thing
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    bool dry() const { return block_ == nullptr; }

    // A named matrix, zero at the start of the run and not cleared afterwards. OutOfMemory, naming it,
    // when the block is too small.
    View allocate(std::string name, DType dtype, std::int64_t rows, std::int64_t cols);

    // A place in the stack.
    struct Mark {
        std::int64_t used = 0;
        std::size_t live = 0;
    };
    Mark mark() const { return {used_, live_.size()}; }

    // What is allocated inside a scope is released with it.
    class Scope {
      public:
        explicit Scope(Arena& arena) : Scope(arena, arena.mark()) {}
        // From a mark on: nothing allocated since may be alive while the scope is used.
        Scope(Arena& arena, Mark from) : arena_(arena), used_(arena.used_), live_(arena.live_) {
            arena.used_ = from.used;
            arena.live_.resize(from.live);
        }
        ~Scope() {
            arena_.used_ = used_;
            arena_.live_ = std::move(live_);
        }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        Arena& arena_;
        std::int64_t used_;
        std::vector<std::size_t> live_;
    };

    // Ends a phase of the step: the peak since the previous phase, with what was allocated below it.
    void end_phase(std::string name);
    const std::vector<MemoryPhase>& phases() const { return phases_; }

    std::int64_t peak_bytes() const { return peak_; }
    // Every segment ever allocated, in order; those alive at the peak are marked.
    std::vector<Segment> segments() const;

  private:
    std::unique_ptr<MemoryBlock> block_;
    std::int64_t used_ = 0, peak_ = 0;
    std::vector<Segment> all_;
    std::vector<std::size_t> live_, live_at_peak_;  // indices into all_
    MemoryPhase phase_;                             // the running one
    std::vector<MemoryPhase> phases_;
};

}  // namespace elmo
