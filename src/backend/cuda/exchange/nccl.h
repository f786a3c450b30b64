// Exchanges between the GPUs of several ranks by NCCL, which is opened at run time: libnccl.so.2, or what
// ELMO_NCCL names. Only sends and receives: NCCL adds nothing (docs/numerics.md). They are on a stream of
// their own, and events order them with the work of the device. A peer that dies is the lifeline's matter
// (src/ranks/lifeline.h), which ends this process.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "backend/cuda/device/context.h"
#include "backend/ops/exchange.h"

namespace elmo::cuda {

struct NcclCalls;

class NcclExchange {
  public:
    explicit NcclExchange(CudaContext& context) : context_(context) {}
    ~NcclExchange();
    NcclExchange(const NcclExchange&) = delete;
    NcclExchange& operator=(const NcclExchange&) = delete;

    // Whether the library is there and new enough.
    bool is_available();
    // This rank's: an id of NCCL's that a communicator could have, and the GPU that it has.
    std::vector<std::byte> id();
    // With the ids of all ranks one after another; the first one's makes the communicator. ConfigError, the
    // same on all ranks, when two of them have the same GPU and nothing (NCCL_HOSTID) lets NCCL allow it.
    void join(std::span<const std::byte> ids, int rank, int size);
    // See Backend.
    void start(std::span<const SentView> send, std::span<const ReceivedView> receive);
    void finish();
    void exchange(std::span<const SentView> send, std::span<const ReceivedView> receive);

  private:
    void check(int status, const char* what) const;
    cudaEvent_t take_event();

    CudaContext& context_;
    const NcclCalls* calls_ = nullptr;
    bool tried_ = false;
    void* communicator_ = nullptr;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t ready_ = nullptr;      // what is sent is there, and what is received may be written
    std::deque<cudaEvent_t> started_;  // ends of exchanges that are not finished, the oldest first
    std::vector<cudaEvent_t> unused_;
};

}  // namespace elmo::cuda
