#include "engine/precision.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "config/resolve.h"
#include "model/head/head.h"

namespace elmo {

std::string choose_head_kahan(const Config& config) {
    if (config.head_kahan != "auto") return config.head_kahan;
    const bool usual_noise = config.head_noise == "auto" || config.head_noise == "shared-steps";
    return config.precision == "e2m5" && usual_noise ? kAutoHeadKahan : "0";
}

Config with_plain_head(Config config) {
    constexpr OptionKey kModes[] = {"head_kahan", "weight_dropout", "head_rounding", "head_noise"};
    for (const OptionKey key : kModes) copy_option(config, Config(), key);
    return config;
}

std::vector<std::string> explain_precision(const Config& config, const Backend& backend) {
    std::vector<std::string> lines;
    if (backend.has_fp8_products()) return lines;
    if (!backend.host_memory() &&
        (config.precision == "fp8" || config.precision == "e3m4" || config.precision == "e2m5"))
        lines.push_back(fmt::format(
            "this card has no 8-bit float instructions: {} weights are decoded on chip to BF16, which holds "
            "them exactly; results and memory are the same as on newer cards",
            config.precision));
    if (config.encoder_precision == "fp8")
        lines.emplace_back(
            "this device has no FP8 products: the encoder's are simulated, rounded to FP8 and multiplied "
            "in a wider format; that studies FP8 and is not faster");
    return lines;
}

}  // namespace elmo
