#include "backend/cuda/device/texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"

namespace elmo::cuda {

void BatchTexts::reserve(Arena& arena, const Workload& workload) {
    tokens_1T_ = arena.allocate("scratch/tokens", DType::kI32, 1, entries(workload));
    offsets_1B_ = arena.allocate("scratch/offsets", DType::kI32, 1, entries(workload) + 1);
    announced_tokens_ = {};
    announced_offsets_ = {};
}

void BatchTexts::send(std::span<const std::int32_t> tokens, Offsets offsets) {
    if (static_cast<std::int64_t>(tokens.size()) > tokens_1T_.size() ||
        static_cast<std::int64_t>(offsets.size()) > offsets_1B_.size())
        throw DeviceError(fmt::format("a batch of {} texts and {} tokens was not planned for", offsets.size(),
                                      tokens.size()));
    context_.send(tokens_1T_.data, tokens.data(), static_cast<std::int64_t>(tokens.size_bytes()));
    context_.send(offsets_1B_.data, offsets.data(), static_cast<std::int64_t>(offsets.size_bytes()));
    texts_.tokens = tokens_1T_.as<std::int32_t>();
    texts_.offsets = offsets_1B_.as<std::int32_t>();
    texts_.num_texts = std::max<std::int64_t>(static_cast<std::int64_t>(offsets.size()) - 1, 0);
    texts_.num_tokens = offsets.empty() ? 0 : offsets.back();
    texts_.longest = 0;
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b)
        texts_.longest = std::max<std::int64_t>(texts_.longest, offsets[b + 1] - offsets[b]);
}

void BatchTexts::begin(std::span<const std::int32_t> tokens, Offsets offsets) {
    send(tokens, offsets);
    announced_tokens_ = tokens;
    announced_offsets_ = offsets;
}

DeviceTexts BatchTexts::get(std::span<const std::int32_t> tokens, Offsets offsets) {
    const bool same_offsets =
        offsets.data() == announced_offsets_.data() && offsets.size() == announced_offsets_.size();
    const bool same_tokens = tokens.empty() || (tokens.data() == announced_tokens_.data() &&
                                                tokens.size() == announced_tokens_.size());
    if (same_offsets && same_tokens && !announced_offsets_.empty()) return texts_;
    send(tokens, offsets);  // the announced texts are overwritten: they are uploaded again on demand
    announced_tokens_ = {};
    announced_offsets_ = {};
    return texts_;
}

}  // namespace elmo::cuda
