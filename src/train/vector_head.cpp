// An engine with a head and no encoder, behind the public interface.
#include "elmo/vector_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "config/encoder_folder.h"
#include "config/views.h"
#include "elmo/error.h"
#include "engine/train_step.h"
#include "io/file_error.h"
#include "io/folder_lock.h"
#include "run/checkpoint.h"

namespace elmo {
namespace {

constexpr std::uintptr_t kAlignment = 64;  // of memory that the backends take as it lies
// Labels per vector of the largest batch that a GPU has room for, 12 bytes each.
constexpr std::int64_t kPlannedLabels = 256;

// A head by itself is on the CPU where nothing else is said.
Config with_device_named(Config config) {
    if (config.device == "auto") config.device = "cpu";
    return config;
}

EngineParts parts_of(const Config& config, const VectorHeadShape& shape) {
    validate(config);
    if (config.precision == "renee" || config.precision == "auto")
        throw ConfigError(
            fmt::format("precision: expected fp32, bf16, fp8, e3m4, e2m5, e2m3, e2m1 or exmy:E,M for a "
                        "head by itself, found '{}'",
                        config.precision));
    if (shape.labels < 1 || shape.width < 1 || shape.batch < 1 || shape.top < 1)
        throw ConfigError(
            fmt::format("expected labels, width, batch and top of at least 1, found {}, {}, {} and {}",
                        shape.labels, shape.width, shape.batch, shape.top));
    HeadSpec head = plain_head(config, shape.labels, shape.width);
    head.extras.weight_dropout = static_cast<float>(config.weight_dropout);
    return {std::nullopt, head};
}

RunShape run_shape(const VectorHeadShape& shape) {
    RunShape run;
    run.batch = shape.batch;
    run.positives = shape.batch * std::min(shape.labels, kPlannedLabels);
    run.top_k = std::min(shape.top, shape.labels);
    return run;
}

}  // namespace

struct VectorHead::Impl {
    Impl(const Context& context, const Config& given, const VectorHeadShape& wanted)
        : config(with_device_named(given)),
          shape(wanted),
          engine(context.with_threads(config.threads), config, parts_of(config, shape), run_shape(shape)) {
        engine.allocate();
        engine.initialise(config.seed);
    }

    // The vectors as they lie there, or a copy where they are not aligned or lie in other memory than the
    // head's.
    View view_of(const VectorBatch& vectors) {
        if (vectors.rows < 1 || vectors.rows > shape.batch)
            throw DataError(
                fmt::format("expected a batch of 1 to {} vectors, found {}", shape.batch, vectors.rows));
        if (vectors.on_device && engine.backend().host_memory())
            throw DataError("expected vectors in ordinary memory for a head on the CPU, found them on a GPU");
        if (vectors.on_device && reinterpret_cast<std::uintptr_t>(vectors.values) % kAlignment != 0)
            throw DataError(
                fmt::format("expected vectors on the GPU at an address that is a multiple of {}, found {}",
                            kAlignment, fmt::ptr(vectors.values)));
        if (vectors.on_device) engine.backend().wait_for(vectors.stream);
        if (vectors.on_device || (engine.backend().host_memory() &&
                                  reinterpret_cast<std::uintptr_t>(vectors.values) % kAlignment == 0))
            return {const_cast<std::uint16_t*>(vectors.values), DType::kBf16, vectors.rows, shape.width};
        const View staged = engine.text_vectors(vectors.rows);
        engine.backend().upload(staged, vectors.values);
        return staged;
    }

    void read_positives(const BatchLabels& truth, std::int64_t rows) {
        const auto& offsets = truth.offsets;
        if (static_cast<std::int64_t>(offsets.size()) != rows + 1 || offsets.front() != 0 ||
            offsets.back() != static_cast<std::int64_t>(truth.labels.size()) ||
            !std::is_sorted(offsets.begin(), offsets.end()))
            throw DataError(
                fmt::format("expected the labels of {} vectors, found offsets of {} rows that do not fit",
                            rows, std::max<std::size_t>(offsets.size(), 1) - 1));
        if (const std::int64_t most = run_shape(shape).positives;
            !engine.backend().host_memory() && offsets.back() > most)
            throw DataError(
                fmt::format("expected at most {} labels in a batch, {} per vector of the largest, found {}: "
                            "give the head a "
                            "larger batch, or this one in parts",
                            most, kPlannedLabels, offsets.back()));
        positives.clear();
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t i = offsets[static_cast<std::size_t>(row)];
                 i < offsets[static_cast<std::size_t>(row + 1)]; ++i) {
                const std::int64_t label = truth.labels[static_cast<std::size_t>(i)];
                if (label < 0 || label >= shape.labels)
                    throw DataError(fmt::format("vector {}: expected label numbers from 0 to {}, found {}",
                                                row, shape.labels - 1, label));
                positives.push_back(label, static_cast<std::int32_t>(row));
            }
        positives.sort();
    }

    Config config;
    VectorHeadShape shape;
    Engine engine;
    PositiveList positives;
    std::int64_t steps = 0;
    bool is_new = true;  // the weights: neither loaded nor stepped
};

VectorHead::VectorHead(const Context& context, const Config& config, const VectorHeadShape& shape)
    : impl_(std::make_unique<Impl>(context, config, shape)) {}
VectorHead::~VectorHead() = default;
VectorHead::VectorHead(VectorHead&&) noexcept = default;
VectorHead& VectorHead::operator=(VectorHead&&) noexcept = default;

VectorHeadStep VectorHead::step(const VectorBatch& vectors, const BatchLabels& truth, double lr,
                                double weight_decay, std::span<float> gradient, bool want_loss,
                                float* report) {
    Impl& impl = *impl_;
    if (!std::isfinite(lr) || lr < 0 || !std::isfinite(weight_decay) || weight_decay < 0)
        throw ConfigError(
            fmt::format("expected lr and weight_decay of 0 or more, found {} and {}", lr, weight_decay));
    const View x_BD = impl.view_of(vectors);
    if (static_cast<std::int64_t>(gradient.size()) != x_BD.size())
        throw DataError(fmt::format("expected room for {} numbers of the gradient, found {}", x_BD.size(),
                                    gradient.size()));
    impl.read_positives(truth, vectors.rows);
    StepInput in;
    in.x_BD = x_BD;
    in.positives = impl.positives;
    in.seed = impl.config.seed;
    in.step = static_cast<std::uint64_t>(impl.steps + 1);
    in.head_lr = static_cast<float>(lr);
    in.head_weight_decay = static_cast<float>(weight_decay);
    in.new_head = impl.is_new;
    in.want_loss = want_loss;
    if (vectors.on_device && report != nullptr) in.report_to = {report, DType::kF32, 1, 2};
    const bool waits = want_loss && in.report_to.empty();
    const HeadStepResult result = train_step(impl.engine, in).head;
    if (waits && (!std::isfinite(result.loss_sum) || result.non_finite >= 0))
        throw NumericError(
            fmt::format("step {}: the gradient of the vectors has a NaN or Inf; lower lr", in.step));
    ++impl.steps;
    impl.is_new = false;
    const View made = impl.engine.head_grad(vectors.rows);
    if (vectors.on_device) {
        impl.engine.backend().copy_out(gradient.data(), made);
        impl.engine.backend().make_wait(vectors.stream);
    } else {
        impl.engine.backend().download(gradient.data(), made);
    }
    if (!waits) return {std::numeric_limits<double>::quiet_NaN(), 0};
    return {result.loss_sum / static_cast<double>(vectors.rows), result.saturations};
}

RankedLabels VectorHead::topk(const VectorBatch& vectors, std::int64_t k) const {
    if (k < 1 || k > impl_->shape.top)
        throw ConfigError(fmt::format("expected k from 1 to {}, for which memory was planned, found {}",
                                      impl_->shape.top, k));
    RankedLabels ranked;
    ranked.rows = vectors.rows;
    ranked.k = std::min(k, impl_->shape.labels);
    for (const TopK& best : impl_->engine.head().topk(impl_->view_of(vectors), ranked.k)) {
        const auto sorted = best.sorted();
        if (static_cast<std::int64_t>(sorted.size()) < ranked.k)
            throw NumericError("the scores of the vectors have a NaN");
        for (const ScoredLabel& scored : sorted) {
            ranked.labels.push_back(scored.label);
            ranked.scores.push_back(scored.score);
        }
    }
    return ranked;
}

std::int64_t VectorHead::steps() const {
    return impl_->steps;
}
void VectorHead::set_steps(std::int64_t steps) {
    if (steps < 0) throw ConfigError(fmt::format("steps: expected 0 or more, found {}", steps));
    impl_->steps = steps;
}

void VectorHead::save(const std::string& folder) const {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error(folder, "create", error.value());
    impl_->engine.head().save(folder);
}

void VectorHead::save_run(const std::string& folder, const std::vector<std::string>& label_names) const {
    const Impl& impl = *impl_;
    if (!label_names.empty() && static_cast<std::int64_t>(label_names.size()) != impl.shape.labels)
        throw ConfigError(fmt::format("label_names: expected {} names, one per label, found {}",
                                      impl.shape.labels, label_names.size()));
    const std::filesystem::path run(folder), best = run / "best";
    std::error_code error;
    if (std::filesystem::exists(best / "manifest.json", error) &&
        !Checkpoint(run, "best", Checkpoint::Check::kAllButHead).takes_vectors())
        throw ConfigError(
            fmt::format("{}: expected a folder for the run of a head, found a run that was trained "
                        "on texts; give another folder",
                        folder));
    std::filesystem::create_directories(run, error);
    if (error) throw_file_error(folder, "create", error.value());
    const FolderLock lock(run);
    Config config = impl.config;
    set_option(config, "encoder", kVectorEncoder);
    set_option(config, "width", std::to_string(impl.shape.width));
    set_option(config, "batch_size", std::to_string(impl.shape.batch));
    config.device = "auto";
    LabelTable labels;
    labels.counts.resize(static_cast<std::size_t>(impl.shape.labels));
    for (const std::string& name : label_names) labels.names.emplace_back(name);
    RunState state;
    state.step = state.total_steps = impl.steps;
    state.labels = impl.shape.labels;
    save_checkpoint(best, VectorHeadParts{config, impl.engine.head(), labels}, state);
}

void VectorHead::load(const std::string& folder) {
    impl_->is_new = false;
    const std::filesystem::path path(folder);
    std::error_code error;
    if (!std::filesystem::exists(path / "manifest.json", error) &&
        !std::filesystem::exists(path / "best" / "manifest.json", error))
        return impl_->engine.head().load(path);
    const Checkpoint checkpoint(path, "best");
    impl_->engine.head().load(checkpoint.content());
    if (checkpoint.takes_vectors()) impl_->steps = checkpoint.state().step;
}

const VectorHeadShape& VectorHead::shape() const {
    return impl_->shape;
}
const MemoryReport& VectorHead::plan() const {
    return impl_->engine.plan();
}

}  // namespace elmo
