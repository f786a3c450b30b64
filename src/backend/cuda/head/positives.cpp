#include "backend/cuda/head/positives.h"

#include <algorithm>

#include "elmo/error.h"

namespace elmo::cuda {

void DevicePositives::reserve(Arena& arena, const Workload& w) {
    const std::int64_t most = std::max<std::int64_t>(w.positives, 1);
    labels_ = arena.allocate("scratch/positive_labels", DType::kI64, 1, most);
    samples_ = arena.allocate("scratch/positive_samples", DType::kI32, 1, most);
}

void DevicePositives::send(std::span<const Positive> positives) {
    const auto count = static_cast<std::int64_t>(positives.size());
    if (count > labels_.size()) throw DeviceError("head: more positives in a batch than were planned for");
    host_labels_.resize(positives.size());
    host_samples_.resize(positives.size());
    for (std::size_t i = 0; i < positives.size(); ++i) {
        host_labels_[i] = positives[i].label;
        host_samples_[i] = positives[i].sample;
    }
    context_.send(labels_.data, host_labels_.data(), count * 8);
    context_.send(samples_.data, host_samples_.data(), count * 4);
}

}  // namespace elmo::cuda
