// What the baseline `renee` keeps beside the FP32 weights of a head, and its dynamic loss scale: momentum, an
// FP16 copy, FP16 logits and gradients of all labels at once. See backend/ops/renee.h for the step.
//
// The scale multiplies only dx. It starts at 4096 or what is given, is halved when dx, or a gradient that an
// encoder with FP16 products makes of it, is beyond FP16 (the encoder's step is then skipped, never the
// head's) and doubled after 2000 steps in a row without that.
#pragma once

#include <filesystem>

#include "backend/backend.h"
#include "io/mmap_file.h"
#include "model/head/head_input.h"

namespace elmo {

struct ReneeStart {
    float loss_scale = 4096, momentum = 0.9f;
};

class ReneeHead {
  public:
    static constexpr std::int64_t kGrowthSteps = 2000;

    ReneeHead(std::int64_t labels, std::int64_t width, const ReneeStart& start, Backend& backend)
        : labels_(labels),
          width_(width),
          backend_(backend),
          scale_(start.loss_scale),
          beta_(start.momentum) {}

    // What lives as long as the run: momentum, the FP16 copy, the logits of the largest batch.
    void allocate(Arena& arena, std::int64_t batch);
    // The phases of the head's step, and what lives only in them: gradients in FP16, then in FP32.
    void allocate_step(Arena& arena);

    // One step on `w_LD`, the FP32 weights. If the encoder's is skipped, dx is not set and the scale falls.
    // Where in.keeps_scale is set, dx has the scale, and so will the encoder's gradients: then the caller
    // ends the step when it knows whether those are finite.
    ReneeStepResult step(View w_LD, const HeadInput& in);
    // The scale for the next step. NumericError when none is small enough.
    void end_step(bool skipped, std::uint64_t step);

    float scale() const { return scale_; }
    std::int64_t skipped_steps() const { return skipped_; }
    View momentum() const { return momentum_LD_; }

    // Momentum and the state of the scale, exactly. DataError names what does not fit.
    void save(const std::filesystem::path& file) const;
    void load(MappedFile file);

  private:
    std::int64_t labels_, width_;
    Backend& backend_;
    View momentum_LD_, w16_LD_, g16_LP_, dw16_LD_, dw32_LD_;
    float scale_, beta_;
    std::int64_t good_steps_ = 0;  // since the scale last changed
    std::int64_t skipped_ = 0;
};

}  // namespace elmo
