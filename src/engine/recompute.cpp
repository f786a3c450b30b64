#include "engine/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/encoder/bert_encoder.h"

namespace elmo {

std::vector<std::vector<Recompute>> recompute_choices(const EngineOptions& options, const EncoderSpec& spec,
                                                      const Workload& workload, bool host_memory) {
    const std::int64_t below_last = spec.layers - 1;
    // The first n layers more than the others; the last one never more than kCheap.
    const auto mix = [&](std::int64_t n, Recompute first, Recompute others) {
        std::vector<Recompute> layers(static_cast<std::size_t>(spec.layers), others);
        std::fill_n(layers.begin(), n, first);
        if (!layers.empty()) layers.back() = std::min(layers.back(), Recompute::kCheap);
        return layers;
    };
    const auto all = [&](Recompute mode) { return mix(0, mode, mode); };
    if (!workload.training || spec.frozen || spec.layers == 0 || options.recompute == RecomputeChoice::kNone)
        return {all(Recompute::kNone)};
    if (options.recompute == RecomputeChoice::kCheap) return {all(Recompute::kCheap)};
    if (options.recompute == RecomputeChoice::kWide) return {all(Recompute::kWide)};
    if (options.recompute == RecomputeChoice::kWider) return {all(Recompute::kWider)};
    if (options.recompute == RecomputeChoice::kLayers) return {all(Recompute::kLayer)};
    // Codes, and what less memory computes again.
    const auto in_codes = [&](Recompute mode, Recompute more, Recompute most) {
        std::vector<std::vector<Recompute>> choices = {all(mode)};
        for (std::int64_t n = 1; n <= below_last && options.max_bytes > 0; ++n)
            choices.push_back(mix(n, more, mode));
        for (std::int64_t n = 1; n <= below_last && options.max_bytes > 0; ++n)
            choices.push_back(mix(n, most, more));
        return choices;
    };
    if (options.recompute == RecomputeChoice::kCompressed) {
        if (spec.fp8) return {all(Recompute::kCheap)};
        return in_codes(Recompute::kCompressed, Recompute::kCompressedWider, Recompute::kCompressedLayer);
    }
    if (options.recompute == RecomputeChoice::kCompact)
        return in_codes(Recompute::kCompact, Recompute::kCompactWide, Recompute::kCompactWider);
    if (options.max_bytes == 0) {
        if (host_memory) return {all(Recompute::kNone)};
        // What a layer keeps at most: qkv, context, two sums, two outputs; both sides of the gelu. Of the
        // last two with FP8 products a byte per element.
        const std::int64_t outputs = 2 * spec.width + 2 * spec.intermediate;
        const std::int64_t everything =
            spec.layers * workload.tokens *
            (6 * spec.width * size_of(spec.dtype) + outputs * (spec.fp8 ? 1 : size_of(spec.dtype)));
        if (everything <= kKeptActivations) return {all(Recompute::kNone)};
        // Where queries, keys and values are codes, attention of long texts would be computed again, and
        // kernels of attention with a bias do not read or write them on their way.
        const bool compact = workload.longest <= kCheapAttention && !spec.has_relative_bias();
        if (spec.fp8) {
            // The products' operands, norms, queries, keys and values, what the GELU sees; one sum as it is.
            const std::int64_t codes =
                workload.tokens *
                (below_last * (7 * spec.width + 3 * spec.heads + spec.intermediate) + spec.width);
            const std::int64_t in_layer = 2 * spec.width * (2 * spec.width + spec.intermediate);
            const bool outweighs =
                spec.layers * workload.tokens * in_layer >= workload.labels * workload.batch * spec.width;
            if (options.may_compress && compact && outweighs && codes <= kKeptFp8Codes)
                return {all(Recompute::kCompact)};
            const std::int64_t sum_bytes =
                std::max<std::int64_t>(workload.tokens * spec.width * size_of(spec.dtype), 1);
            const std::int64_t sums = (outweighs ? kKeptFp8 : kKeptFp8BesideHead) / sum_bytes;
            const std::int64_t missing = 2 * below_last - sums;
            if (missing <= 0) {  // room for queries, keys and values, and the context of long texts
                const std::int64_t each = keeps_context(Recompute::kWide, workload.longest) ? 4 : 3;
                const std::int64_t wide = std::min(-missing / each, below_last);
                return {mix(below_last - wide, Recompute::kWider, Recompute::kWide)};
            }
            const std::int64_t whole = std::min(missing, below_last);
            return {mix(whole, Recompute::kLayer, Recompute::kWider)};
        }
        const std::int64_t layer_bytes =
            std::max<std::int64_t>(workload.tokens * spec.intermediate * size_of(spec.dtype), 1);
        const std::int64_t contexts = keeps_context(Recompute::kCheap, workload.longest)
                                          ? spec.layers * workload.tokens * spec.width * size_of(spec.dtype)
                                          : 0;
        const std::int64_t kept = std::max<std::int64_t>(kKeptPreActivations - contexts, 0);
        const std::int64_t wide = std::clamp<std::int64_t>(spec.layers - kept / layer_bytes, 0, below_last);
        // As codes all take half of their bytes or little more, and no product is computed again.
        const std::int64_t pre = spec.intermediate, qkv = 3 * spec.width;  // codes; as numbers twice of it
        const std::int64_t qkv_codes = compact ? qkv + 3 * spec.heads : 2 * qkv;
        const bool fits = below_last * (pre + qkv_codes) + 2 * (pre + qkv) <=
                          (spec.layers - wide) * 2 * pre + spec.layers * 2 * qkv;
        if (options.may_compress && spec.dtype == DType::kBf16 && wide > 0 && fits)
            return {all(compact ? Recompute::kCompact : Recompute::kCompressed)};
        return {mix(wide, Recompute::kWide, Recompute::kCheap)};
    }
    std::vector<std::vector<Recompute>> choices = {all(Recompute::kNone), all(Recompute::kCheap)};
    for (std::int64_t n = 1; n <= below_last; ++n)
        choices.push_back(mix(n, Recompute::kWide, Recompute::kCheap));
    for (std::int64_t n = 1; n <= below_last; ++n)
        choices.push_back(mix(n, Recompute::kWider, Recompute::kWide));
    for (std::int64_t n = 1; n <= below_last; ++n)
        choices.push_back(mix(n, Recompute::kLayer, Recompute::kWider));
    return choices;
}

std::string describe_recompute(const std::vector<Recompute>& layers) {
    const auto count = [&](Recompute mode) { return std::count(layers.begin(), layers.end(), mode); };
    const auto below_last = static_cast<std::ptrdiff_t>(layers.size()) - 1;
    constexpr std::pair<Recompute, const char*> kNames[] = {
        {Recompute::kLayer, "layers"},
        {Recompute::kCompressedLayer, "compressed layers"},
        {Recompute::kWider, "wider"},
        {Recompute::kCompressedWider, "compressed wider"},
        {Recompute::kCompactWider, "compact wider"},
        {Recompute::kWide, "wide"},
        {Recompute::kCompactWide, "compact wide"},
        {Recompute::kCompressed, "compressed"},
        {Recompute::kCompact, "compact"}};
    std::string text;
    for (const auto& [mode, name] : kNames) {
        const auto number = count(mode);
        if (number == 0) continue;
        if (number == below_last) return name;
        text += text.empty() ? fmt::format("{} for the first {} of {}, ", name, number, layers.size())
                             : fmt::format("{} for the next {}, ", name, number);
    }
    if (text.empty()) return count(Recompute::kCheap) > 0 ? "cheap" : "none";
    return text + "cheap for the others";
}

}  // namespace elmo
