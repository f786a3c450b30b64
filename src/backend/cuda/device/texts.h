// The texts of a batch on the device: uploaded once, when they are announced, and found again by the ops.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

struct DeviceTexts {
    const std::int32_t* tokens = nullptr;   // [T]
    const std::int32_t* offsets = nullptr;  // [B + 1]
    std::int64_t num_tokens = 0, num_texts = 0;
    std::int64_t longest = 0;  // tokens of the longest text
};

class BatchTexts {
  public:
    explicit BatchTexts(CudaContext& context) : context_(context) {}

    // Tokens that a batch of this workload may have: B texts may also be given as B rows of one entry each.
    static std::int64_t entries(const Workload& workload) {
        return std::max({workload.tokens, workload.batch, std::int64_t{1}});
    }
    void reserve(Arena& arena, const Workload& workload);

    // Uploads the texts that ops will get until the next call.
    void begin(std::span<const std::int32_t> tokens, Offsets offsets);
    // The announced texts if the spans are the same, else these, uploaded now.
    DeviceTexts get(std::span<const std::int32_t> tokens, Offsets offsets);
    DeviceTexts get(Offsets offsets) { return get({}, offsets); }  // tokens not needed

  private:
    void send(std::span<const std::int32_t> tokens, Offsets offsets);

    CudaContext& context_;
    View tokens_1T_, offsets_1B_;
    std::span<const std::int32_t> announced_tokens_;
    Offsets announced_offsets_;
    DeviceTexts texts_;  // what is on the device
};

}  // namespace elmo::cuda
