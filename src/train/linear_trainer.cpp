#include "train/linear_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/process_memory.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "linear/train_model.h"
#include "rank/linear_ranking.h"
#include "run/linear_plan.h"
#include "run/run_data.h"
#include "sources/layout.h"
#include "train/label_weights.h"
#include "train/run_log.h"

namespace elmo {
namespace {

// Everything is one step, and that is one epoch.
void describe_steps(RunState& state) {
    state.total_steps = state.steps_per_epoch = 1;
}

TrainResult result_of(const Context& context, const Config& config, const RunState& state,
                      const RunData& data) {
    TrainResult result;
    result.run = config.out;
    result.steps = state.step;
    result.epochs = static_cast<double>(state.step);
    result.select = state.best_step > 0 ? config.select : "last";
    if (state.best_score >= 0) result.best_score = state.best_score;
    result.best_step = state.best_step > 0 ? state.best_step : state.step;
    result.planned = plan_linear(context, data);
    result.measured_peak_bytes = peak_resident_bytes();
    return result;
}

class LinearRun {
  public:
    LinearRun(const Context& context, RunFolder& folder, const Config& config)
        : context_(context),
          folder_(folder),
          data_(context, config, folder.checkpoint()),
          labels_(data_.labels()) {
        data_.describe(state_);
        describe_steps(state_);
        const Split& train = data_.dataset().train();
        rows_ = split_validation(config, train.rows(), train.tokens);
        if (data_.validation_split_is_file()) rows_.validation = all_rows(data_.validation_split().rows());
    }

    TrainResult run() {
        const Config& config = data_.config();
        if (folder_.checkpoint() != nullptr) return finished();
        announce();
        // All that may be refused, before the folder is touched.
        const Split& train = data_.dataset().train();
        LinearTraining training =
            choose_training(train, data_.tokenizer(), find_layout(config).format == DataFormat::kSparse);
        training.seed = config.seed;
        training.label_weights = label_weights(config, labels_, state_.train_rows);
        training.equal_texts_together = ReadOptions(config).equal_texts_together;
        if (!config.neighbours.is_auto()) training.neighbours = static_cast<float>(config.neighbours);
        folder_.prepare();
        RunLog log(context_, folder_.path(), 0, 0);  // the trees have their own bar
        log.event("start", 0,
                  {{"total_steps", 1},
                   {"labels", state_.labels},
                   {"train_rows", rows_.train.size()},
                   {"validation_rows", rows_.validation.size()},
                   {"encoder", config.encoder},
                   {"config", values_json(config)},
                   {"reasons", reasons_json(config)}});
        const auto start = std::chrono::steady_clock::now();
        auto model =
            train_linear_model(context_, data_.tokenizer(), train, rows_.train, state_.labels, training);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (!model) return interrupted(log);
        const LinearRanker ranker(std::move(*model), data_.tokenizer());
        state_.step = 1;
        texts_.add(train.tokens, rows_.train);
        report_neighbours(ranker.model().neighbours, log);
        if (!rows_.validation.empty()) validate(ranker, log);
        save(ranker.model(), folder_.best(), log);
        save(ranker.model(), folder_.last(), log);
        TrainResult result = result_of(context_, config, state_, data_);
        result.train_seconds = seconds;
        result.texts_per_second = static_cast<double>(rows_.train.size()) / std::max(seconds, 1e-9);
        log.event("end", 1,
                  {{"interrupted", false},
                   {"train_seconds", seconds},
                   {"best_score", result.best_score},
                   {"measured_peak_bytes", result.measured_peak_bytes}});
        return result;
    }

  private:
    void announce() const {
        context_.info(fmt::format("{} ({} more for validation), {}, {:.1f} tokens per text; linear",
                                  counted(std::ssize(rows_.train), "training text"),
                                  with_commas(std::ssize(rows_.validation)), counted(state_.labels, "label"),
                                  data_.summary().tokens_per_row));
        if (const std::int64_t cut = data_.summary().cut_rows; cut > 0)
            context_.info(
                fmt::format("{} cut at {} tokens (max_length)", counted(cut, "text"), data_.max_length()));
    }

    void report_neighbours(const Neighbours& index, RunLog& log) const {
        const double share = index.texts() > 0 ? index.votes.share : 0;
        log.event("neighbours", 1, {{"share", share}, {"power", index.votes.power}});
        if (share > 0)
            context_.info(fmt::format(
                "the nearest training texts are {:.0f} % of a label's probability; {}", 100 * share,
                data_.config().neighbours.is_auto() ? "held-out rows gain by it (--neighbours 0 does without)"
                                                    : "as neighbours asks for"));
    }

    TrainResult finished() {
        const RunState& was = folder_.checkpoint()->state();
        data_.require_data_of(was, state_, folder_.path());
        context_.info(fmt::format("{} is complete already and stays as it is", folder_.path().string()));
        return result_of(context_, data_.config(), was, data_);
    }

    TrainResult interrupted(RunLog& log) {
        log.event("end", 0, {{"interrupted", true}});
        context_.info(fmt::format(
            "stopped before the model was complete: 'elmo train --out {} --resume' trains it from the "
            "beginning with the same options",
            shell_word(folder_.path().string())));
        TrainResult result = result_of(context_, data_.config(), state_, data_);
        result.interrupted = true;
        return result;
    }

    void validate(const LinearRanker& ranker, RunLog& log) {
        const Config& config = data_.config();
        Scorer scorer(config, {1, 3, 5}, state_.labels, labels_.counts, state_.train_rows);
        const Split& split = data_.validation_split();
        rank_rows(context_, ranker, split, rows_.validation, scorer.largest_k(), "validating",
                  [&](std::int64_t row, std::vector<ScoredLabel>& ranked) {
                      scorer.add(ranked, split.labels.row(row));
                  });
        const Evaluation scores = scorer.result();
        state_.best_score = state_.top_score = scores.get(config.select);
        state_.best_step = 1;
        log.validation(1, 1, scores);
        context_.info(fmt::format("P@1 {:.2f}  P@3 {:.2f}  P@5 {:.2f} on {}", scores.get("P@1"),
                                  scores.get("P@3"), scores.get("P@5"),
                                  counted(scores.num_samples, "validation text")));
    }

    void save(const LinearModel& model, const std::filesystem::path& to, RunLog& log) {
        save_checkpoint(to, {data_.config(), model, data_.tokenizer(), data_.max_length(), labels_, &texts_},
                        state_);
        log.event("checkpoint", 1, {{"folder", to.filename().string()}});
    }

    Context context_;
    RunFolder& folder_;
    RunData data_;
    LabelTable labels_;
    RunState state_;
    RowLists rows_;
    TrainedTexts texts_;
};

}  // namespace

TrainResult train_linear(const Context& context, RunFolder& folder, const Config& config) {
    refuse_other_device(config);
    return LinearRun(context, folder, config).run();
}

}  // namespace elmo
