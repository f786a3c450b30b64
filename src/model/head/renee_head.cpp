#include "model/head/renee_head.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "model/tensor_transfer.h"

namespace elmo {
namespace {

constexpr const char* kTensor = "momentum";
constexpr float kLeastScale = 0x1p-24f;

template <class Number>
Number number_of(const SafeTensors& file, const char* key) {
    const auto found = file.metadata().find(key);
    Number value{};
    if (found != file.metadata().end()) {
        const std::string& text = found->second;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && stop == text.data() + text.size() && value >= 0 &&
            static_cast<double>(value) <= 0x1p62)
            return value;
    }
    throw DataError(fmt::format("{}: metadata \"{}\": expected a number, found {}", file.file(), key,
                                found == file.metadata().end() ? "nothing" : quoted(found->second)));
}

}  // namespace

void ReneeHead::allocate(Arena& arena, std::int64_t batch) {
    momentum_LD_ = arena.allocate("head/momentum", DType::kF32, labels_, width_);
    w16_LD_ = arena.allocate("head/weights_fp16", DType::kF16, labels_, width_);
    g16_LP_ = arena.allocate("head/logits_fp16", DType::kF16, labels_, renee_columns(batch));
}

void ReneeHead::allocate_step(Arena& arena) {
    arena.end_phase("head forward");
    dw16_LD_ = arena.allocate("head/gradient_fp16", DType::kF16, labels_, width_);
    arena.end_phase("head backward");
    dw32_LD_ = arena.allocate("head/gradient_fp32", DType::kF32, labels_, width_);
    arena.end_phase("head update");
}

ReneeStepResult ReneeHead::step(View w_LD, const HeadInput& in) {
    View g16_LP = g16_LP_;
    g16_LP.cols = renee_columns(in.x_BD.rows);  // a smaller batch uses less of it
    const ReneeStepResult result =
        backend_.renee_step({in.x_BD, w_LD, momentum_LD_, w16_LD_, g16_LP, dw16_LD_, dw32_LD_, in.positives,
                             in.lr, in.weight_decay, beta_, scale_, in.dx_BD, in.want_loss, in.keeps_scale});
    if (!in.keeps_scale) end_step(result.skipped, in.step);
    return result;
}

void ReneeHead::end_step(bool skipped, std::uint64_t step) {
    if (skipped) {
        ++skipped_;
        good_steps_ = 0;
        scale_ /= 2;
        if (scale_ < kLeastScale)
            throw NumericError(
                fmt::format("step {}: the gradient that the head gives the encoder, or one that the encoder "
                            "makes of it, is beyond FP16 at every loss scale down to 2^-24; lower head_lr or "
                            "encoder_lr, or use another precision",
                            step));
    } else if (++good_steps_ >= kGrowthSteps) {
        good_steps_ = 0;
        scale_ *= 2;
    }
}

void ReneeHead::save(const std::filesystem::path& file) const {
    SafeTensorsWriter writer(file, {{kTensor, "F32", {labels_, width_}}},
                             {{"loss_scale", fmt::format("{}", scale_)},
                              {"good_steps", std::to_string(good_steps_)},
                              {"skipped_steps", std::to_string(skipped_)}});
    write_view(writer, kTensor, backend_, momentum_LD_);
    writer.commit();
}

void ReneeHead::load(MappedFile mapped) {
    const SafeTensors file = SafeTensors::open(std::move(mapped));
    upload_exact(backend_, momentum_LD_, file, kTensor);
    scale_ = number_of<float>(file, "loss_scale");
    good_steps_ = number_of<std::int64_t>(file, "good_steps");
    skipped_ = number_of<std::int64_t>(file, "skipped_steps");
    if (!(scale_ >= kLeastScale))
        throw DataError(fmt::format("{}: metadata \"loss_scale\": expected at least 2^-24, found {}",
                                    file.file(), scale_));
}

}  // namespace elmo
