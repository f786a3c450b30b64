#include "tensor/topk.h"

#include <algorithm>

namespace elmo {
namespace {
constexpr std::size_t kBlock = 128;
constexpr std::int64_t kUsual = 16;  // labels, whose memory is taken at once
}  // namespace

// ranks_before as "less" makes the heap's front the one that ranks last.
void TopK::push(ScoredLabel candidate) {
    if (heap_.capacity() == 0) heap_.reserve(static_cast<std::size_t>(std::min(k_, kUsual)));
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), ranks_before);
}

void TopK::replace_worst(ScoredLabel candidate) {
    std::pop_heap(heap_.begin(), heap_.end(), ranks_before);
    heap_.back() = candidate;
    std::push_heap(heap_.begin(), heap_.end(), ranks_before);
}

void TopK::offer_block(std::span<const float> scores, std::int64_t first_label) {
    if (k_ == 0) return;
    std::size_t i = 0;
    while (i < scores.size() && size() < k_) {
        offer(scores[i], first_label + static_cast<std::int64_t>(i));
        ++i;
    }
    while (i < scores.size()) {
        const std::size_t end = std::min(scores.size(), i + kBlock);
        // Almost no block holds a score above the worst kept one: one pass without branches checks that.
        const float threshold = heap_.front().score;
        int any = 0;
#pragma omp simd reduction(| : any)
        for (std::size_t j = i; j < end; ++j) any |= scores[j] >= threshold ? 1 : 0;
        if (any != 0)
            for (std::size_t j = i; j < end; ++j)
                offer(scores[j], first_label + static_cast<std::int64_t>(j));
        i = end;
    }
}

void TopK::merge(const TopK& other) {
    for (const auto& [score, label] : other.heap_) offer(score, label);
}

std::vector<ScoredLabel> TopK::sorted() const {
    std::vector<ScoredLabel> result = heap_;
    std::sort(result.begin(), result.end(), ranks_before);
    return result;
}

}  // namespace elmo
