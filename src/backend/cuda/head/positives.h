// The positives of a batch on the device.
#pragma once

#include <cstdint>

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class DevicePositives {
  public:
    explicit DevicePositives(CudaContext& context) : context_(context) {}
    void reserve(Arena& arena, const Workload& workload);

    // DeviceError if there are more than planned, or weights that were not planned.
    void send(const Positives& positives);
    const std::int64_t* labels() const { return labels_.as<std::int64_t>(); }
    const std::int32_t* samples() const { return samples_.as<std::int32_t>(); }
    // Null where those of the last send have none.
    const float* weights() const { return weighted_ ? weights_.as<float>() : nullptr; }

  private:
    CudaContext& context_;
    View labels_, samples_, weights_;
    bool weighted_ = false;
};

}  // namespace elmo::cuda
