// elmo refine: two stages, each with its own arena. Text vectors go to a RowStore; then the head's rows,
// subset by subset, to another. Both are in OUT/refine until the run is complete.
#include "elmo/refine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/parallel.h"
#include "base/text_util.h"
#include "config/resolve.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "engine/engine.h"
#include "engine/precision.h"
#include "formats/json_lines.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/links.h"
#include "revise/head_refiner.h"
#include "revise/text_vectors.h"
#include "run/resolve.h"
#include "run/run_data.h"
#include "run/run_folder.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr double kEpochs = 2, kShareOfHeadLr = 0.1;
constexpr const char* kRecipe = "recipe.toml";

// Options of refine that do not start from the run's values.
constexpr OptionKey kNotOfRun[] = {"out",    "resume",       "overwrite", "threads", "max_memory",
                                   "device", "cpu_products", "chunks",    "steps",   "warmup_steps"};

// The options of refine are the caller's; every other one is the run's.
bool is_asked(const OptionInfo& option) {
    return option.verbs.find('r') != std::string_view::npos;
}

// Those of them that affect the result.
bool decides(const OptionInfo& option) {
    return is_asked(option) && option.role == OptionRole::kResult;
}

// What a refinement of `from` starts from.
Config defaults_of(const Checkpoint& from, const std::string& checkpoint) {
    const Config run = with_usual_numbers(from.config());
    Config config = run;
    for (const OptionKey key : kNotOfRun) copy_option(config, Config(), key);
    config.checkpoint = checkpoint;
    choose_option<std::string>(config, "precision", &Config::precision, "bf16", "what refine makes");
    choose_option(config, "epochs", &Config::epochs, Auto<double>(kEpochs), "what refine takes");
    choose_option(config, "head_lr", &Config::head_lr, Auto<double>(kShareOfHeadLr * run.head_lr),
                  "a tenth of the run's");
    if (!read_encoder_spec(from.content()).is_bag())  // measured: docs/paper.md
        choose_option(config, "dropout", &Config::dropout, Auto<double>(0.0), "none for a transformer");
    return with_plain_head(config);
}

fs::path begun_recipe(const Config& config) {
    return fs::path(config.out) / kRefineWork / kRecipe;
}

Config config_of(const Checkpoint& from, const Config& asked) {
    Config config = defaults_of(from, asked.checkpoint);
    std::error_code error;
    if (asked.resume && fs::is_regular_file(fs::symlink_status(begun_recipe(asked), error))) {
        refuse_links(asked.out);
        const Config begun = read_run_recipe(begun_recipe(asked));
        for (const OptionInfo& option : options())
            if ((decides(option) || option.role == OptionRole::kReading || option.key == "data") &&
                begun.sources.contains(option.key))
                copy_option(config, begun, option.key);
    }
    for (const OptionInfo& option : options())
        if (is_asked(option) && given(asked, option.key)) copy_option(config, asked, option.key);
    config.freeze_encoder = true;
    config.accumulate = 1;
    config = with_plain_head(with_cache_of_run(config, from.config(), asked));
    return with_usual_numbers(with_head_noise(std::move(config)));
}

DType refined_dtype(const std::string& precision) {
    if (precision != "bf16" && precision != "fp32")
        throw ConfigError(
            fmt::format("precision: a head is refined in bf16 or fp32, found '{}'", quoted(precision)));
    return head_format(precision).dtype;
}

// Where the rows of a refinement come from: an unfinished one continues only its own rows.
std::string identity_of(const Checkpoint& from, const RunState& data, const Config& config) {
    Hash64 hash;
    hash.update(from.manifest_hash() + data.data_hash);
    for (const OptionInfo& option : options())
        if (decides(option)) hash.update(get_option(config, option.key) + "\n");
    return "refinement " + hash_text(hash.digest());
}

// OUT/refine: the work of an unfinished refinement.
class Work {
  public:
    Work(const Context& context, const Config& config) : out_(config.out), resume_(config.resume) {
        if (config.out.empty())
            throw ConfigError("out: expected a folder for the refined run, found none; give --out RUN");
        std::error_code error;
        if (!resume_) {
            folder_.emplace(context, config);
            return;
        }
        refuse_links(out_);
        if (!fs::exists(path() / kRecipe, error) && fs::exists(path(), error) && !fs::exists(best(), error)) {
            context.info(fmt::format("{} has no vectors yet: starting from the beginning", out_.string()));
            return;
        }
        if (!fs::exists(path() / kRecipe, error))
            throw ConfigError(fmt::format("resume: {} {}; start it without --resume", out_.string(),
                                          fs::exists(out_ / "best", error)
                                              ? "holds a run and no unfinished refinement"
                                              : "holds no refinement"));
        refuse_link(path() / kRecipe);
        Config was;
        load_recipe(was, path() / kRecipe);
        for (const OptionInfo& option : options())
            if (const std::string value = get_option(was, option.key), now = get_option(config, option.key);
                decides(option) && value != now)
                throw ConfigError(
                    fmt::format("resume: the refinement has {} = {}, found {}; give the options it was "
                                "started with, or start a new one",
                                option.key, value, now));
    }
    fs::path path() const { return out_ / kRefineWork; }
    fs::path best() const { return out_ / "best"; }
    fs::path log() const { return out_ / "log.jsonl"; }

    void prepare(const Config& config) {
        if (resume_)
            lock_.emplace(out_);
        else
            folder_->prepare();
        if (resume_ && fs::exists(path() / kRecipe)) return;
        std::error_code error;
        fs::create_directories(path(), error);
        if (error)
            throw DataError(fmt::format("{}: cannot be created: {}", path().string(), error.message()));
        write_file_atomically(path() / kRecipe, stored_recipe(config));
    }
    // Its recipe first, so that the rest of an interrupted removal cannot be continued.
    void remove(const Context& context) {
        std::error_code error;
        fs::remove(path() / kRecipe, error);
        fs::remove_all(path(), error);
        if (error)
            context.warning(fmt::format("{}: cannot be removed: {}", path().string(), error.message()));
    }

  private:
    fs::path out_;
    bool resume_;
    std::optional<RunFolder> folder_;
    std::optional<FolderLock> lock_;  // of a refinement that is continued
};

// Whether a refinement has ended there: a best checkpoint, none to continue from and no work.
bool is_refined(const fs::path& out) {
    std::error_code error;
    return fs::exists(out / "best", error) && !fs::exists(out / "last", error) &&
           !fs::exists(out / kRefineWork / kRecipe, error);
}

RefineResult already_refined(const Context& context, const Checkpoint& from, const fs::path& out) {
    const FolderLock lock(out);
    std::error_code error;
    fs::remove_all(out / kRefineWork, error);  // what a kill may have left of it
    const Checkpoint refined(out, "best", Checkpoint::Check::kAllButHead);
    context.info(
        fmt::format("{} is complete already and stays as it is; --overwrite refines again", out.string()));
    RefineResult result;
    result.run = out.string();
    result.from_precision = precision_of(stored_head(from.content()).format);
    result.precision = refined.config().precision;
    result.steps = refined.state().total_steps;
    result.labels = result.labels_done = result.labels_resumed = refined.state().labels;
    return result;
}

// The training rows without their tokens, in the run's batches.
struct HeadBatches {
    Split rows, extra;
    std::optional<BatchPlan> plan;

    explicit HeadBatches(const RunData& data)
        : rows(data.dataset().train()), extra(data.augmentation().rows()) {
        const Config& config = data.config();
        RowLists lists = split_validation(config, rows.rows(), rows.tokens);
        rows.tokens = extra.tokens = {};
        plan.emplace(rows, std::move(lists.train), config.batch_size, config.seed);
        plan->append(extra);
    }
};

RunState refined_state(const Checkpoint& from, const RunData& data) {
    RunState state;
    data.describe(state);
    state.step = state.total_steps;
    state.updates = from.state().updates;
    return state;
}

void check_data(const Context& context, const Checkpoint& from, const RunState& data, const std::string& run,
                const Config& config) {
    const RunState& was = from.state();
    if (was.labels != data.labels || was.names_hash != data.names_hash)
        throw DataError(
            fmt::format("{}: these are not the labels of the run in {}: expected {}, found {}{}; {}",
                        config.data, run, with_commas(was.labels), with_commas(data.labels),
                        was.labels == data.labels ? " of other names" : "",
                        config.data == from.config().data
                            ? "labels were added to the run or removed: give data that has the same ones"
                            : "give data with exactly the labels of the run"));
    if (was.data_hash != data.data_hash)
        context.warning(fmt::format("{}: other training texts or labels than the run in {} was trained on",
                                    config.data, run));
}

}  // namespace

Config refinement_defaults(const std::string& run, const std::string& checkpoint) {
    const Checkpoint from(run, checkpoint, Checkpoint::Check::kAllButHead);
    refuse_linear(from, "refine");
    return defaults_of(from, checkpoint);
}

RefineResult refine(const Context& given_context, const std::string& run, const Config& asked) {
    const auto start = std::chrono::steady_clock::now();
    validate(asked);
    require_other_folder(run, asked.out);
    const Context context = given_context.with_threads(asked.threads);
    const Checkpoint from(run, asked.checkpoint);
    refuse_linear(from, "refine");
    if (asked.resume && is_refined(asked.out)) return already_refined(context, from, asked.out);
    const Config config = config_of(from, asked);
    validate(config);  // a folder's recipe may have been changed
    const DType storage = refined_dtype(config.precision);
    const HeadFormat stored = stored_head(from.content()).format;
    if (size_of(stored.dtype) > size_of(storage))
        throw ConfigError(
            fmt::format("precision: the run's head is {}; expected at least that to refine it in, found {}",
                        precision_of(stored), config.precision));
    require_device(context, config);
    Work work(context, config);

    Config training = config;
    training.split = "train";  // a file that validated the run need not be there
    const RunData data(context, training, &from);
    const RunState state = refined_state(from, data);
    check_data(context, from, state, run, config);
    const EncoderSpec spec = read_encoder_spec(from.content());
    BatchPlan texts(data.dataset().train(), all_rows(data.dataset().train().rows()), config.batch_size);
    texts.append(data.augmentation().rows());
    const HeadBatches batches(data);
    const std::int64_t mapped = data.dataset().mapped_bytes() + data.augmentation().mapped_bytes();
    TextVectors encoding(context, config, spec, texts, mapped);
    std::optional<HeadRefiner> refiner(std::in_place, context, config, *batches.plan, state.total_steps,
                                       storage, state.labels, encoding.width(), mapped);

    RefineResult result;
    result.run = config.out;
    result.from_precision = precision_of(stored);
    result.precision = config.precision;
    result.texts = texts.num_rows();
    result.labels = state.labels;
    result.steps = state.total_steps;
    result.subset_labels = refiner->subset_labels();
    result.encoding_plan = encoding.plan();
    result.head_plan = refiner->plan();
    result.vector_bytes = texts.num_rows() * encoding.width() * size_of(DType::kBf16);
    context.info(fmt::format("first the vectors of {} texts: {} of memory planned, {} on the disk in {}",
                             with_commas(result.texts), human_bytes(result.encoding_plan.total_bytes()),
                             human_bytes(result.vector_bytes), work.path().string()));
    context.info(fmt::format(
        "then the head from {} to {}: {} labels, {} at a time (subsets: {}), {} steps each, {} of memory "
        "planned",
        result.from_precision, result.precision, with_commas(state.labels), with_commas(result.subset_labels),
        (state.labels + result.subset_labels - 1) / result.subset_labels, with_commas(state.total_steps),
        human_bytes(result.head_plan.total_bytes())));

    work.prepare(config);
    const std::string identity = identity_of(from, state, config);
    RowStore vectors(work.path(), "vectors", DType::kBf16, texts.num_rows(), encoding.width(), identity);
    RowStore rows(work.path(), "rows", storage, state.labels, encoding.width(), identity);
    result.labels_resumed = rows.rows_done();
    JsonLinesWriter log(work.log());
    log.write(
        {{"event", config.resume ? "refine, continued" : "refine"},
         {"from", from.folder().string()},
         {"precision", result.precision},
         {"texts", result.texts},
         {"labels", result.labels},
         {"steps", result.steps},
         {"head_lr", static_cast<double>(config.head_lr)},
         {"dropout", static_cast<double>(config.dropout)},
         {"subset_labels", result.subset_labels},
         {"labels_done", result.labels_resumed},
         {"planned_bytes", std::max(result.encoding_plan.total_bytes(), result.head_plan.total_bytes())}});
    result.interrupted = !encoding.write(vectors);
    result.measured_peak_bytes = encoding.taken_bytes();
    encoding.release();
    while (!result.interrupted && !rows.complete()) {
        HeadRefiner::Subset done;
        result.interrupted = !refiner->refine_next(from.content(), vectors, rows, done);
        if (result.interrupted) break;
        ++result.subsets;
        result.first_loss += done.first_loss;
        result.last_loss += done.last_loss;
        log.write({{"event", "subset"},
                   {"first_label", done.first},
                   {"last_label", done.last - 1},
                   {"first_loss", done.first_loss},
                   {"last_loss", done.last_loss}});
    }
    result.labels_done = rows.rows_done();
    result.measured_peak_bytes = std::max(result.measured_peak_bytes, refiner->taken_bytes());
    refiner.reset();
    if (result.interrupted) {
        context.info(fmt::format("stopped with {} of {} labels refined; --resume continues",
                                 with_commas(result.labels_done), with_commas(result.labels)));
    } else {
        const LabelTable labels = data.labels();
        TrainedTexts trained = TrainedTexts::load(from.content());
        trained.add(data.trained_texts());
        derive_checkpoint(
            work.best(), from, labels, state,
            [&](const fs::path& folder) {
                write_head(folder, storage, state.labels, rows.cols(),
                           [&](std::int64_t row) { return rows.rows_from(row); });
            },
            &config, &trained);
        log.write({{"event", "end"}, {"labels", result.labels}, {"last_loss", result.last_loss}});
        work.remove(context);
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

}  // namespace elmo
