// The processes of one run. `mpirun -n 4 elmo train ...` starts four ranks, which share the labels of the
// head and the texts of each batch; results do not depend on their number (docs/numerics.md). A rank only
// moves bytes: sums are elmo's own, in one order. A program may bring another implementation of Ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"

namespace elmo {

// Called from one thread per rank (but see any_thread). A function returns when this rank may use its memory
// again. An implementation throws Error when it cannot go on.
class ELMO_API Ranks {
  public:
    virtual ~Ranks();

    virtual int rank() const = 0;
    virtual int size() const = 0;
    // Among the ranks of this machine.
    virtual int local_rank() const { return 0; }
    virtual int local_size() const { return 1; }

    struct Outgoing {
        int to;
        std::span<const std::byte> bytes;
    };
    struct Incoming {
        int from;
        std::span<std::byte> bytes;
    };
    // Messages from one rank to another arrive in the order of both lists, and have equal lengths there. None
    // goes to the rank itself. Ranks without messages need not call it.
    virtual void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) = 0;
    // Returns when all ranks have called it.
    virtual void barrier() = 0;
    // Whether another thread may call exchange, while no other call runs: a part of a step's messages then
    // travels while this thread computes.
    virtual bool any_thread() const { return false; }

    // For messages: what this rank is doing. Read by a watching thread.
    void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
    std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
    bool is_first() const { return rank() == 0; }

  private:
    std::atomic<std::int64_t> step_{0};
};

// What a launcher (mpirun, mpiexec, srun, torchrun) says of this process in the environment.
struct LaunchedAs {
    int rank = 0, size = 1;
    std::string launcher;            // the variable that says so
    bool has_meeting_place = false;  // MASTER_ADDR and MASTER_PORT: no MPI is behind it
};
ELMO_API LaunchedAs launched_as();

// This process as one of several: opens MPI (libelmo_mpi.so) or Gloo (libelmo_gloo.so) and a lifeline, one
// idle connection from each rank to the first, by which every rank learns at once that another has ended or
// failed.
class ELMO_API Launch {
  public:
    // ConfigError when the library is missing or does not fit the launcher's MPI.
    explicit Launch(const LaunchedAs& as);
    ~Launch();

    const std::shared_ptr<Ranks>& ranks() const;
    // Seconds without a sign of life after which a rank counts as gone; 0: for ever.
    void set_timeout(double seconds);
    // This rank cannot go on: the first rank prints the message, with the rank's name, and all end with the
    // status; in silence where there is none.
    [[noreturn]] void fail(int status, std::string_view message) noexcept;
    // The work is done on all ranks.
    void finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
