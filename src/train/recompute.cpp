#include "train/recompute.h"

#include <fmt/format.h>

#include <algorithm>

namespace elmo {

std::vector<std::vector<Recompute>> recompute_choices(const Config& config, const EncoderSpec& spec,
                                                      bool training, bool host_memory) {
    const auto all = [&](Recompute mode) {
        return std::vector<Recompute>(static_cast<std::size_t>(spec.layers), mode);
    };
    if (!training || spec.frozen || spec.layers == 0 || config.recompute == "none")
        return {all(Recompute::kNone)};
    if (config.recompute == "cheap") return {all(Recompute::kCheap)};
    if (config.recompute == "layers") return {all(Recompute::kLayer)};
    if (config.max_memory.empty()) return {all(host_memory ? Recompute::kNone : Recompute::kCheap)};
    std::vector<std::vector<Recompute>> choices = {all(Recompute::kNone), all(Recompute::kCheap)};
    for (std::int64_t n = 1; n <= spec.layers; ++n) {
        choices.push_back(all(Recompute::kCheap));
        std::fill_n(choices.back().begin(), n, Recompute::kLayer);
    }
    return choices;
}

std::string describe_recompute(const std::vector<Recompute>& layers) {
    const auto count = [&](Recompute mode) { return std::count(layers.begin(), layers.end(), mode); };
    const auto whole = count(Recompute::kLayer);
    if (whole == 0) return count(Recompute::kCheap) > 0 ? "cheap" : "none";
    if (whole == static_cast<std::ptrdiff_t>(layers.size())) return "layers";
    return fmt::format("layers for the first {} of {}, cheap for the others", whole, layers.size());
}

}  // namespace elmo
