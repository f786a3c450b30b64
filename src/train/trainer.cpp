#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/parallel.h"
#include "base/text_util.h"
#include "batches/batch_shards.h"
#include "config/resolve.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "engine/full_length.h"
#include "engine/precision.h"
#include "numerics/bf16.h"
#include "rank/scoring.h"
#include "ranks/scatter.h"
#include "run/resolve.h"
#include "train/label_weights.h"
#include "train/same_run.h"

namespace elmo {
namespace {

const std::vector<std::int64_t> kValidationKs = {1, 3, kRankedInTraining};
// Saving last/ after a validation may take this share of the time since it was saved: on a GPU an epoch of a
// small set takes less time than a save does.
constexpr double kShareOfSaving = 0.05;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The first rank imports the data; the others then find it.
RunData open_in_turn(const Context& context, const Config& config, const Checkpoint* checkpoint) {
    const FirstRankFirst in_turn(ranks_of(context));
    return RunData(context, config, checkpoint);
}

}  // namespace

Trainer::Trainer(const Context& context, RunFolder& folder, const Config& config)
    : context_(context),
      ranks_(ranks_of(context)),
      folder_(folder),
      data_(open_in_turn(context, config, folder.checkpoint())),
      config_(data_.config()),
      labels_(ranks_.is_first() ? data_.labels() : LabelTable()),
      schedule_(make_schedule(config_, data_.total_steps())),
      engine_(context, engine_options(), parts_of_same_run(), data_.shape(context, kRankedInTraining)),
      meter_(engine_) {
    if (const std::string& chosen = engine_.plan().recompute;
        config_.recompute == "auto" && (chosen == "compressed" || chosen == "compact"))
        data_.store_recompute(chosen);
    if (ranks_.is_first()) trained_texts_ = data_.trained_texts();
    if (folder.checkpoint() == nullptr)
        share_label_weights([&] { return label_weights(config_, labels_, state_.train_rows); });
    if (const std::int64_t bytes = data_.kept_vector_bytes();
        bytes > 0 && engine_.share().is_whole() && engine_.hold(bytes))
        kept_.emplace(bytes, data_.encoder_spec().width);
    try {
        engine_.allocate();
    } catch (const OutOfMemory&) {  // what was chosen has a part in it
        for (const std::string& note : choice_notes(config_)) context_.info(note);
        throw;
    }
    if (folder.checkpoint() != nullptr) {
        restore(*folder.checkpoint());
        folder.close_checkpoint();
    } else {
        engine_.initialise(config_.seed);
        if (!config_.init.empty()) {
            taken_ = take_over_labels(config_, ranks_.is_first() ? labels_ : data_.labels(), engine_.head());
            if (ranks_.is_first()) {
                const Checkpoint init(config_.init, "best", Checkpoint::Check::kAllButHead);
                const TrainedTexts of_init = TrainedTexts::load(init.content());
                warn_of_validation(of_init, !init.config().init.empty());
                trained_texts_.add(of_init);
            }
        }
        const auto compensated = data_.own_compensated(context);
        if (!compensated.empty()) engine_.head().compensation().start(compensated);
    }
    if (ranks_.is_first()) blind_loss_ = blind_loss(labels_.counts, state_.train_rows, label_weights_);
    broadcast(ranks_, std::as_writable_bytes(std::span(&blind_loss_, 1)));
}

// A run that began without codes goes on without.
EngineOptions Trainer::engine_options() const {
    EngineOptions options(config_);
    options.may_compress = folder_.checkpoint() == nullptr;
    return options;
}

// Ranks that train different runs would not understand each other in what follows.
EngineParts Trainer::parts_of_same_run() {
    data_.describe(state_);
    require_same_run(ranks_, config_, state_);
    return data_.parts(context_);
}

void Trainer::share_label_weights(const std::function<std::vector<float>()>& all) {
    if (!weighs_positives(config_)) return;
    if (ranks_.is_first()) label_weights_ = all();
    if (ranks_.size() == 1) return;
    std::vector<float> own = scatter<float>(ranks_, [&](int rank) {
        const ShareRange labels = engine_.share().own_labels(state_.labels, rank);
        return std::span<const float>(label_weights_)
            .subspan(static_cast<std::size_t>(labels.first), static_cast<std::size_t>(labels.size()));
    });
    if (!ranks_.is_first()) label_weights_ = std::move(own);  // the first saves all of them
}

void Trainer::restore(const Checkpoint& checkpoint) {
    const RunState& was = checkpoint.state();
    data_.require_data_of(was, state_, folder_.path());
    if (was.total_steps != state_.total_steps)
        throw ConfigError(
            fmt::format("resume: the run has {} steps, found {}", was.total_steps, state_.total_steps));
    state_ = was;
    saved_step_ = was.step;
    if (ranks_.is_first()) trained_texts_.add(TrainedTexts::load(checkpoint.content()));
    engine_.load(checkpoint.content());
    HeadCompensation& compensation = engine_.head().compensation();
    if (compensation.rows() > 0)
        compensation.load(checkpoint.content().map(kHeadCompensationFile), state_.labels);
    if (ReneeHead* renee = engine_.head().renee()) renee->load(checkpoint.content().map(kMomentumFile));
    share_label_weights(
        [&] { return read_label_weights(checkpoint.content().map(kLabelWeightsFile), state_.labels); });
    if (config_.freeze_encoder) return;
    if (!checkpoint.has_optimizer())
        throw DataError(
            fmt::format("{}: expected optimizer.safetensors, found none", checkpoint.folder().string()));
    engine_.encoder().load_state(checkpoint.content().map("optimizer.safetensors"));
}

void Trainer::keep_best(const RunState& found) {
    if (found.best_step <= state_.best_step) return;
    state_.best_score = found.best_score;
    state_.best_step = found.best_step;
    state_.top_score = found.top_score;
}

double Trainer::step_on(const Batch& batch, bool want_loss) {
    StepInput in;
    in.texts = {batch.tokens, batch.offsets};
    in.positives = batch.positives;
    in.seed = config_.seed;
    in.step = static_cast<std::uint64_t>(state_.step);
    in.head_lr = static_cast<float>(config_.head_lr * schedule_.factor(state_.step));
    in.head_weight_decay = static_cast<float>(config_.head_weight_decay);
    in.new_head = state_.step == 1 && config_.init.empty();
    in.want_loss = want_loss;
    in.encoder = encoder_update(want_loss);
    if (probe_ != nullptr && probe_->wants(state_.step))
        in.before_head = [&](View x_BD) {
            probe_->look(state_.step, engine_.backend(), x_BD, engine_.head().weights(), batch.positives);
        };
    in.after_head = [&](const HeadStepResult& head) {
        if (head.non_finite >= 0) non_finite(head.non_finite, "the head's gradient of the text vectors has");
    };

    ranks_.set_step(state_.step);
    const bool encodes = !kept_ || !kept_->has(batch);
    meter_.begin_step();
    if (kept_) in.x_BD = kept_->vectors(engine_, batch, in.seed, in.step);
    const StepResult done = train_step(engine_, in);
    meter_.end_step(batch, encodes);
    state_.updates += done.updated ? 1 : 0;
    state_.saturations += done.head.saturations;
    return done.head.loss_sum / static_cast<double>(batch.size());
}

EncoderUpdate Trainer::encoder_update(bool check) const {
    EncoderUpdate update;
    update.adamw.lr = static_cast<float>(config_.encoder_lr * schedule_.factor(state_.step));
    update.adamw.beta1 = static_cast<float>(config_.beta1);
    update.adamw.beta2 = static_cast<float>(config_.beta2);
    update.adamw.epsilon = static_cast<float>(config_.epsilon);
    update.adamw.weight_decay = static_cast<float>(config_.encoder_weight_decay);
    update.adamw.t = state_.updates + 1;
    update.adamw.seed = config_.seed;
    update.adds = (state_.step - 1) % config_.accumulate != 0;
    update.updates = state_.step % config_.accumulate == 0 || state_.step == state_.total_steps;
    if (check) update.check = [this](const Parameter& parameter) { check_gradient(parameter); };
    return update;
}

void Trainer::non_finite(std::int64_t step, const std::string& what) const {
    throw NumericError(
        fmt::format("step {}: {} a NaN or Inf; nothing was saved over the last checkpoint; lower head_lr or "
                    "encoder_lr, or lengthen warmup_steps, and train again",
                    step, what));
}

void Trainer::check_gradient(const Parameter& parameter) const {
    if (parameter.gradient().size() > 0 && engine_.backend().has_non_finite(parameter.gradient()))
        non_finite(state_.step, fmt::format("encoder gradient '{}' has", parameter.name));
}

void Trainer::collapsed(const std::optional<std::string>& what) const {
    if (what && config_.on_collapse != "ignore") throw Collapse(*what);
}

void Trainer::look_at_vectors() {
    if (config_.freeze_encoder || config_.on_collapse == "ignore") return;
    // Of the first batch, for the last one of an epoch may hold few, and a resumed run has to look at the
    // same; of its first shard, which fits in the memory of every rank.
    Batch batch;
    data_.train().fill(0, batch);
    const std::vector<std::int64_t> cuts = cut_shards(batch.offsets, engine_.share().shards);
    const ProbeTexts probe =
        choose_probe(batch.tokens, std::span(batch.offsets).first(static_cast<std::size_t>(cuts[1]) + 1));
    if (probe.size() == 0) return;
    const View x_BD = engine_.encoder().forward({probe.tokens, probe.offsets}, false, config_.seed, 0);
    std::vector<Bf16> stored(static_cast<std::size_t>(x_BD.size()));
    engine_.backend().download(stored.data(), x_BD);
    std::vector<float> x;
    for (const Bf16 value : stored) x.push_back(to_float(value));
    collapsed(judge_vectors(x, probe.size()));
}

void Trainer::event(const std::string& kind, nlohmann::ordered_json fields) {
    if (log_) log_->event(kind, state_.step, std::move(fields));
}

void Trainer::log_step(double loss, std::int64_t texts) {
    if (!std::isfinite(loss))
        throw NumericError(
            fmt::format("step {}: the loss is {}; nothing was saved over the last checkpoint; lower head_lr",
                        state_.step, loss));
    // The last batch of an epoch may hold a text or two, whose loss is no measure.
    if (state_.step % kLossEvery == 0 &&
        2 * texts >= std::min<std::int64_t>(config_.batch_size, data_.train().num_rows()))
        collapsed(judge_loss(state_, loss, blind_loss_));
    state_.last_loss = loss;
    const double seconds = seconds_ - logged_seconds_;
    const auto steps = static_cast<double>(state_.step - logged_step_);
    StepLog line;
    line.step = state_.step;
    line.epoch = epoch();
    line.loss = loss;
    line.loss_per_label = loss / static_cast<double>(state_.labels);
    line.encoder_lr = config_.freeze_encoder ? 0 : config_.encoder_lr * schedule_.factor(state_.step);
    line.head_lr = config_.head_lr * schedule_.factor(state_.step);
    line.step_ms = 1e3 * seconds / steps;
    line.texts_per_second = static_cast<double>(logged_texts_) / seconds;
    line.tokens_per_second = static_cast<double>(logged_tokens_) / seconds;
    line.saturations = state_.saturations;
    if (const ReneeHead* renee = engine_.head().renee())
        line.scaling = {renee->scale(), renee->skipped_steps()};
    if (meter_.on()) line.device = meter_.take();
    if (log_) log_->step(line);
    logged_seconds_ = seconds_;
    logged_step_ = state_.step;
    logged_texts_ = logged_tokens_ = 0;
}

// Which rows validate depends on their places, so rows of the earlier run may. Those of two runs have no
// order in which all keep theirs.
void Trainer::warn_of_validation(const TrainedTexts& of_init, bool of_several) const {
    if (!data_.has_validation()) return;
    const std::vector<std::int64_t>& rows = data_.validation().rows();
    const std::int64_t trained = of_init.count(data_.validation_split().tokens, rows);
    if (static_cast<double>(trained) > kManyTrained * static_cast<double>(rows.size()))
        context_.warning(fmt::format(
            "{} of {} validation texts trained {}: their scores are too high, and choose best/; {}",
            with_commas(trained), with_commas(std::ssize(rows)), config_.init,
            of_several ? "validate on rows that are new to it and to what it started from (--validation FILE)"
            : validation_share(config_) > 0
                ? "give the rows of that run first and the new ones after them, with as many held out for "
                  "testing as there (its test rows again, or --test-share 0, if they were given), or "
                  "--validation FILE"
                : "validate on rows that are new to it"));
}

void Trainer::save(const std::filesystem::path& folder, bool to_continue) {
    const auto began = std::chrono::steady_clock::now();
    save_checkpoint(folder,
                    {config_, engine_.encoder(), engine_.head(), data_.tokenizer(), data_.max_length(),
                     labels_, &ranks_, &trained_texts_, label_weights_},
                    state_, to_continue);
    if (to_continue) {
        saved_at_ = std::chrono::steady_clock::now();
        save_seconds_ = seconds_since(began);
        saved_step_ = state_.step;
    }
    event("checkpoint", {{"folder", folder.filename().string()}});
}

// All ranks rank; the first, which has the counts of the labels, scores and tells the others.
double Trainer::validate() {
    std::optional<Scorer> scorer;
    if (ranks_.is_first())
        scorer.emplace(config_, kValidationKs, state_.labels, labels_.counts, state_.train_rows);
    const Split& split = data_.validation_split();
    TopLabels top;
    const auto frequent = static_cast<std::uint32_t>(
        std::max_element(labels_.counts.begin(), labels_.counts.end()) - labels_.counts.begin());
    rank_rows(context_, engine_, data_.validation(), split, kValidationKs.back(), "validating",
              [&](std::int64_t row, std::vector<ScoredLabel>& ranked) {
                  if (!scorer) return;
                  scorer->add(ranked, split.labels.row(row));
                  if (ranked.empty()) return;
                  const auto has = [&](std::uint32_t label) {
                      return std::ranges::binary_search(split.labels.row(row), label);
                  };
                  const ScoredLabel& best = ranked.front();
                  top.add(best.label, best.score, has(static_cast<std::uint32_t>(best.label)), has(frequent));
              });
    const Evaluation scores = scorer ? scorer->result() : Evaluation();
    double score = scorer ? scores.get(config_.select) : 0;
    std::string collapse;
    if (scorer && state_.step >= kFirstLook) collapse = top.judge(scores.get("P@1")).value_or("");
    const auto bytes = std::as_bytes(std::span(collapse));
    std::vector<std::byte> said(bytes.begin(), bytes.end());
    broadcast(ranks_, std::as_writable_bytes(std::span(&score, 1)));
    broadcast(ranks_, said);
    if (!said.empty()) collapsed(std::string(reinterpret_cast<const char*>(said.data()), said.size()));
    if (log_) log_->validation(state_.step, epoch(), scores);
    if (scorer)
        context_.info(fmt::format(
            "epoch {:.2f}, step {}: P@1 {:.2f}  P@3 {:.2f}  P@5 {:.2f}{} on {}{}", epoch(), state_.step,
            scores.get("P@1"), scores.get("P@3"), scores.get("P@5"),
            config_.select.starts_with("P@") ? "" : fmt::format("  {} {:.2f}", config_.select, score),
            counted(scores.num_samples, "validation text"),
            score >= state_.top_score                 ? ", the best yet"
            : score >= state_.top_score - near_best() ? ", kept as the best"
                                                      : ""));
    return score;
}

// The highest of many scores on few texts is an early lucky one. Where the rates fall, the last one within
// its standard error is better on texts that nobody has seen (docs/defaults.md).
double Trainer::near_best() const {
    if (schedule_.decay == Decay::kConstant || config_.patience > 0) return 0;
    return score_noise(state_.top_score, data_.validation().num_rows());
}

// Validates, keeps the best, then saves the last: a crash between the two, or before the last is saved again,
// only repeats what follows it.
void Trainer::validate_and_save(bool saves_last) {
    if (data_.has_validation()) {
        const double score = validate();
        const bool best = score >= state_.top_score - near_best();  // equal: the one that was trained longer
        state_.top_score = std::max(state_.top_score, score);
        if (best) {
            state_.best_score = score;
            state_.best_step = state_.step;
            save(folder_.best(), false);
        }
    }
    if (saves_last) save(folder_.last(), true);
}

std::uint32_t Trainer::agree(bool stop, bool save) const {
    return any_bits(ranks_, (stop ? kStop : 0u) | (save && ranks_.is_first() ? kSave : 0u));
}

std::int64_t Trainer::eval_steps() const {
    return std::max<std::int64_t>(
        1, std::llround(config_.eval_every * static_cast<double>(data_.train().steps_per_epoch())));
}

// Follows from the state, so that a run that has ended this way stays ended when it is continued.
bool Trainer::out_of_patience() const {
    return config_.patience > 0 && state_.best_step > 0 &&
           state_.step - state_.best_step >= config_.patience * eval_steps();
}

void Trainer::loop() {
    if (out_of_patience()) return;
    logged_step_ = state_.step;
    const LabelLayout& layout = engine_.head().layout();
    std::span<const float> weights = label_weights_;
    if (!weights.empty() && layout.rows() > 0 && ranks_.is_first())
        weights = weights.subspan(static_cast<std::size_t>(layout.label(0)),
                                  static_cast<std::size_t>(layout.rows()));
    BatchReader reader(
        data_.train(), state_.step, state_.total_steps, [&](std::int64_t label) { return layout.row(label); },
        weights);
    bool stopping = (agree(context_.stop_requested(), false) & kStop) != 0;
    while (!stopping) {
        const auto start = std::chrono::steady_clock::now();
        const Batch* batch = reader.next();
        if (batch == nullptr) return;
        // A device may be behind: if the loss is wanted, wait for the step and check its numbers. This must
        // happen before anything is saved.
        ++state_.step;
        const bool last = state_.step == state_.total_steps;
        const bool validates = last || state_.step % eval_steps() == 0;
        const bool logs = state_.step % config_.log_every == 0;
        // By the clock only at a step that validates or is logged anyway: when a run saves changes nothing
        // that it learns.
        const double unsaved = seconds_since(saved_at_);
        const bool due = (validates && save_seconds_ <= kShareOfSaving * unsaved) ||
                         (logs && config_.save_minutes > 0 && unsaved >= 60 * config_.save_minutes);
        const std::uint32_t wishes = agree(context_.stop_requested(), due);
        stopping = (wishes & kStop) != 0;
        const bool saves =
            (config_.save_every > 0 && state_.step % config_.save_every == 0) || (wishes & kSave) != 0;
        const bool want_loss =
            validates || saves || stopping || logs || state_.step == 1 || state_.step % kLossEvery == 0;
        const double loss = step_on(*batch, want_loss);
        seconds_ += seconds_since(start);
        texts_ += batch->size();
        logged_texts_ += batch->size();
        logged_tokens_ += static_cast<std::int64_t>(batch->tokens.size());
        if (want_loss) log_step(loss, batch->size());
        // Before every save too: a run must not go back to what has collapsed already.
        if (validates || saves || (state_.step >= kFirstLook && state_.step % kLookEvery == 0))
            look_at_vectors();
        if (log_) log_->tick(state_.step, epoch());
        if (validates) {
            validate_and_save(saves);
            if (out_of_patience()) return;
        } else if (saves)
            save(folder_.last(), true);
    }
}

void Trainer::announce() const {
    const DataSummary& data = data_.summary();
    const std::int64_t extra = data_.augmentation().rows().rows();
    const std::string label_texts = extra > 0 ? " + " + counted(extra, "label text") : std::string();
    context_.info(fmt::format("{}{} ({} more for validation), {}, {:.1f} tokens per text; {}",
                              counted(data_.train().num_rows() - extra, "training text"), label_texts,
                              with_commas(data_.has_validation() ? data_.validation().num_rows() : 0),
                              counted(state_.labels, "label"), data.tokens_per_row,
                              counted(state_.total_steps, "step")));
    if (taken_) context_.info(taken_->describe(config_.init));
    const std::int64_t cut_rows = data.cut_rows + data_.augmentation().cut_rows();
    if (cut_rows > 0)
        context_.info(fmt::format("{} cut at {}{} tokens (max_length)", counted(cut_rows, "text"),
                                  config_.windows > 1 ? fmt::format("{} windows of ", config_.windows) : "",
                                  data_.max_length()));
    for (const std::string& note : choice_notes(config_)) context_.info(note);
    for (const std::string& line : explain_precision(config_, config_, engine_.backend()))
        context_.info(line);
    if (const std::int64_t rows = compensated_labels(config_, state_.labels); rows > 0)
        context_.info(fmt::format("compensated labels: {} of {}, the most frequent (head_kahan {})",
                                  with_commas(rows), with_commas(state_.labels), config_.head_kahan));
    if (kept_)
        context_.info(
            fmt::format("text vectors are kept in main memory ({}): the first epoch runs the encoder",
                        human_bytes(data_.kept_vector_bytes())));
    if (const RankShare& share = engine_.share(); !share.is_alone())
        context_.info(fmt::format("{} ranks share {} and {}", share.ranks,
                                  counted(share.num_groups(state_.labels), "label group"),
                                  counted(share.shards, "batch shard")));
    context_.info(fmt::format("{}; {} of memory planned", engine_.backend().describe(),
                              human_bytes(engine_.plan().total_bytes())));
}

TrainResult Trainer::run() {
    announce();
    folder_.prepare();
    if (ranks_.is_first()) log_.emplace(context_, folder_.path(), state_.step, state_.total_steps);
    event(state_.step > 0 ? "resume" : "start",
          {{"total_steps", state_.total_steps},
           {"labels", state_.labels},
           {"train_rows", data_.train().num_rows()},
           {"augmented_rows", data_.augmentation().rows().rows()},
           {"validation_rows", data_.has_validation() ? data_.validation().num_rows() : 0},
           {"planned_bytes", engine_.plan().total_bytes()},
           {"backend", engine_.backend().describe()},
           {"precision", config_.precision},
           {"choices", choice_notes(config_)},
           {"config", values_json(config_)},
           {"reasons", reasons_json(config_)}});
    if (taken_)
        event("init", {{"from", config_.init},
                       {"labels", taken_->labels},
                       {"taken_over", taken_->taken},
                       {"left_behind", taken_->left_behind}});
    try {
        loop();
    } catch (const Collapse& error) {
        event("collapse", {{"message", error.what()}});
        throw Collapse(fmt::format("step {}: training has collapsed: {}", state_.step, error.what()));
    } catch (const NumericError& error) {
        event("error", {{"message", error.what()}});
        throw;
    }
    if (out_of_patience())
        context_.info(fmt::format("{} was below its best in {} validations: ended after step {} of {}",
                                  config_.select, static_cast<std::int64_t>(config_.patience), state_.step,
                                  state_.total_steps));
    const bool interrupted = state_.step < state_.total_steps && !out_of_patience();
    if (interrupted)
        context_.info(fmt::format("stopped after step {}; --resume continues {}", state_.step,
                                  folder_.path().string()));
    if (saved_step_ != state_.step) save(folder_.last(), true);
    if (state_.best_step == 0) save(folder_.best(), false);  // nothing was validated: the best is the last
    if (log_) log_->finish();
    const TrainResult result = summary(interrupted);
    event("end", {{"interrupted", interrupted},
                  {"train_seconds", result.train_seconds},
                  {"best_score", result.best_score},
                  {"best_step", result.best_step},
                  {"skipped_steps", result.skipped_steps},
                  {"measured_peak_bytes", result.measured_peak_bytes}});
    return result;
}

std::int64_t Trainer::skipped_steps() const {
    const ReneeHead* renee = engine_.head().renee();
    return renee == nullptr ? 0 : renee->skipped_steps();
}

TrainResult Trainer::summary(bool interrupted) const {
    TrainResult result;
    result.run = config_.out;
    result.steps = state_.step;
    result.epochs = epoch();
    result.interrupted = interrupted;
    result.train_seconds = seconds_;
    result.texts_per_second = seconds_ > 0 ? static_cast<double>(texts_) / seconds_ : 0;
    if (state_.last_loss != 0) {
        result.last_loss = state_.last_loss;
        result.last_loss_per_label = state_.last_loss / static_cast<double>(state_.labels);
    }
    result.select = state_.best_step > 0 ? config_.select : "last";
    if (state_.best_score >= 0) result.best_score = state_.best_score;
    result.best_step = state_.best_step > 0 ? state_.best_step : state_.step;
    result.planned = engine_.plan();
    result.measured_peak_bytes = engine_.taken_bytes();
    result.saturations = state_.saturations;
    result.skipped_steps = skipped_steps();
    return result;
}

}  // namespace elmo
