#include "train/run_log.h"

#include <fmt/format.h>

#include <vector>

#include "elmo/resolve.h"

namespace elmo {

nlohmann::ordered_json values_json(const Config& config) {
    nlohmann::ordered_json json;
    for (const OptionInfo& option : options())
        json[std::string(option.key)] = original_value(config, option.key);
    return json;
}

nlohmann::ordered_json reasons_json(const Config& config) {
    nlohmann::ordered_json json;
    for (const OptionReason& option : explain(config)) json[std::string(option.key)] = option.reason;
    return json;
}

RunLog::RunLog(const Context& context, const std::filesystem::path& run, std::int64_t first_step,
               std::int64_t total_steps)
    : context_(context),
      lines_(run / "log.jsonl"),
      board_(run / "tensorboard", first_step > 0 ? first_step + 1 : 0) {
    if (total_steps == 0) return;
    progress_.emplace(context, "training", total_steps, "steps");
    progress_->begin_at(first_step);
}

void RunLog::write(const nlohmann::ordered_json& line) {
    const std::string text = lines_.write(line);
    if (context_.sinks().log_line) context_.sinks().log_line(text);
}

void RunLog::event(const std::string& kind, std::int64_t step, nlohmann::ordered_json fields) {
    nlohmann::ordered_json line = {{"event", kind}, {"step", step}};
    line.update(fields);
    write(line);
}

void RunLog::step(const StepLog& s) {
    nlohmann::ordered_json line{{"event", "step"},
                                {"step", s.step},
                                {"epoch", s.epoch},
                                {"loss", s.loss},
                                {"loss_per_label", s.loss_per_label},
                                {"lr_encoder", s.encoder_lr},
                                {"lr_head", s.head_lr},
                                {"texts_per_second", s.texts_per_second},
                                {"tokens_per_second", s.tokens_per_second},
                                {"step_ms", s.step_ms},
                                {"saturations", s.saturations}};
    if (s.device)
        line.update({{"gpu_idle_percent", s.device->idle_percent}, {"sol_percent", s.device->sol_percent}});
    if (s.scaling)
        line.update({{"loss_scale", s.scaling->loss_scale}, {"skipped_steps", s.scaling->skipped_steps}});
    write(line);
    std::vector<Scalar> scalars = {Scalar{"train/loss", s.loss},
                                   Scalar{"train/loss_per_label", s.loss_per_label},
                                   Scalar{"train/lr_encoder", s.encoder_lr},
                                   Scalar{"train/lr_head", s.head_lr},
                                   Scalar{"speed/texts_per_second", s.texts_per_second},
                                   Scalar{"speed/tokens_per_second", s.tokens_per_second},
                                   Scalar{"speed/step_ms", s.step_ms},
                                   Scalar{"train/saturations", static_cast<double>(s.saturations)}};
    if (s.device) {
        scalars.push_back({"speed/gpu_idle_percent", s.device->idle_percent});
        scalars.push_back({"speed/sol_percent", s.device->sol_percent});
    }
    if (s.scaling) {
        scalars.push_back({"train/loss_scale", s.scaling->loss_scale});
        scalars.push_back({"train/skipped_steps", static_cast<double>(s.scaling->skipped_steps)});
    }
    board_.add_scalars(s.step, scalars);
    note_ = fmt::format("  loss {:.3g} per label  {:.0f} texts/s", s.loss_per_label, s.texts_per_second);
    if (s.device)
        note_ += fmt::format("  GPU idle {:.1f} %, {:.1f} % of the speed of light", s.device->idle_percent,
                             s.device->sol_percent);
    if (s.scaling) note_ += fmt::format("  {} steps skipped", s.scaling->skipped_steps);
}

void RunLog::validation(std::int64_t step, double epoch, const Evaluation& scores) {
    nlohmann::ordered_json line = {{"event", "validation"}, {"step", step}, {"epoch", epoch}};
    std::vector<std::string> tags;
    std::vector<Scalar> scalars;
    tags.reserve(scores.scores.size());
    for (const Score& score : scores.scores) {
        line[score.name] = score.percent;
        tags.push_back("validation/" + score.name);
        scalars.push_back({tags.back(), score.percent});
    }
    write(line);
    board_.add_scalars(step, scalars);
}

void RunLog::tick(std::int64_t step, double epoch) {
    shown_ = fmt::format("epoch {:.2f}{}", epoch, note_);
    if (progress_) progress_->update(step, shown_);
}

void RunLog::finish() {
    if (progress_) progress_->stop(shown_);
}

}  // namespace elmo
