#include "backend/cuda/head/positives.h"

#include <algorithm>

#include "elmo/error.h"

namespace elmo::cuda {

void DevicePositives::reserve(Arena& arena, const Workload& w) {
    const std::int64_t most = std::max<std::int64_t>(w.positives, 1);
    labels_ = arena.allocate("scratch/positive_labels", DType::kI64, 1, most);
    samples_ = arena.allocate("scratch/positive_samples", DType::kI32, 1, most);
    if (w.weighted) weights_ = arena.allocate("scratch/positive_weights", DType::kF32, 1, most);
}

void DevicePositives::send(const Positives& positives) {
    if (positives.size() > labels_.size())
        throw DeviceError("head: more positives in a batch than were planned for");
    context_.send(labels_.data, positives.rows.data(), positives.size() * 8);
    context_.send(samples_.data, positives.samples.data(), positives.size() * 4);
    weighted_ = positives.weighted();
    if (!weighted_) return;
    if (weights_.empty()) throw DeviceError("head: weights of positives were not planned for");
    context_.send(weights_.data, positives.weights.data(), positives.size() * 4);
}

}  // namespace elmo::cuda
