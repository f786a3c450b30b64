// The positives of a batch on the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class DevicePositives {
  public:
    explicit DevicePositives(CudaContext& context) : context_(context) {}
    void reserve(Arena& arena, const Workload& workload);

    // DeviceError where they are more than were planned for.
    void send(std::span<const Positive> positives);
    const std::int64_t* labels() const { return labels_.as<std::int64_t>(); }
    const std::int32_t* samples() const { return samples_.as<std::int32_t>(); }

  private:
    CudaContext& context_;
    View labels_, samples_;
    std::vector<std::int64_t> host_labels_;
    std::vector<std::int32_t> host_samples_;
};

}  // namespace elmo::cuda
