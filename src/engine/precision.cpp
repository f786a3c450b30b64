#include "engine/precision.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/head/head.h"

namespace elmo {

std::string choose_head_kahan(const HeadOptions& options) {
    if (options.kahan != "auto") return options.kahan;
    const bool usual_noise = options.noise == HeadNoise::kAuto || options.noise == HeadNoise::kSharedSteps;
    return options.precision == "e2m5" && usual_noise ? kAutoHeadKahan : "0";
}

void require_loss_scale(const HeadOptions& head, bool fp16_encoder) {
    if (fp16_encoder && head.precision != "renee")
        throw ConfigError(
            fmt::format("encoder_precision: expected bf16, fp8 or fp32 with precision {}, found fp16, whose "
                        "gradients need the loss scale of precision renee",
                        head.precision));
}

std::vector<std::string> explain_precision(const HeadOptions& head, const EncoderOptions& encoder,
                                           const Backend& backend) {
    std::vector<std::string> lines;
    if (encoder.precision == EncoderPrecision::kFp16 && !encoder.frozen)
        lines.emplace_back(
            "the encoder's products are rounded to FP16 and stored in FP32: numbers are those of mixed "
            "precision with FP32 weights, memory of activations is that of --encoder-precision fp32");
    if (backend.has_fp8_products()) return lines;
    if (!backend.host_memory() &&
        (head.precision == "fp8" || head.precision == "e3m4" || head.precision == "e2m5"))
        lines.push_back(fmt::format(
            "this card has no 8-bit float instructions: {} weights are decoded on chip to BF16, which holds "
            "them exactly; results and memory are the same as on newer cards",
            head.precision));
    if (encoder.precision == EncoderPrecision::kFp8)
        lines.emplace_back(
            "this device has no FP8 products: the encoder's are simulated, rounded to FP8 and multiplied "
            "in a wider format; that saves memory, but is slower, on a GPU many times: there "
            "--encoder-precision bf16 is better");
    return lines;
}

}  // namespace elmo
