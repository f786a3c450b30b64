#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text_util.h"
#include "elmo/error.h"
#include "engine/precision.h"
#include "engine/recompute.h"

namespace elmo {

std::int64_t compensated_labels(const Config& config, std::int64_t labels) {
    const double share = parse_share(choose_head_kahan(config));
    if (share == 0) return 0;
    return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(labels)), 1, labels);
}

std::unique_ptr<Backend> make_backend(const Context& context, const Config& config) {
    if (config.device == "cpu") return make_cpu_backend(context, config.cpu_products);
    if (config.device == "cuda") return make_cuda_backend(context);
    if (config.device == "reference") return make_reference_backend();
    throw ConfigError(
        fmt::format("device: expected cpu, cuda or reference, found '{}'", quoted(config.device)));
}

Session::Session(const Context& context, const Config& config, const EncoderSpec& spec, const RunShape& shape)
    : context_(context),
      shape_(shape),
      max_bytes_(config.max_memory.empty() ? 0 : parse_bytes(config.max_memory)) {
    backend_ = make_backend(context, config);
    encoder_ = make_encoder(spec, *backend_);
    if (!shape.head_folder.empty()) {
        head_ = std::make_unique<Head>(Head::map(shape.head_folder, *backend_));
        shape_.labels = head_->labels();
        if (backend_->host_memory()) shape_.mapped_bytes += head_->mapped_bytes();
    }
    if (shape.training)
        head_extras_ = {compensated_labels(config, shape_.labels), static_cast<float>(config.weight_dropout)};
    workload_.batch = shape.batch;
    workload_.tokens = shape.tokens;
    workload_.longest = shape.longest;
    workload_.labels = shape_.labels;
    head_format_ = head_ ? head_->format() : head_format(head_options(config));
    workload_.head_dtype = head_format_.dtype;
    workload_.head_row_exponents = head_format_.grid.row_scaled;
    workload_.head_packed = head_format_.is_packed();
    workload_.positives = shape.positives;
    workload_.top_k = shape.top_k;
    workload_.training = shape.training;
    encoder_->describe_workload(workload_);

    Config baseline = config;
    if (config.precision == "renee" && shape.training) {
        renee_ = std::make_unique<ReneeHead>(shape_.labels, workload_.width, shape.batch, *backend_);
        workload_.renee = true;
        renee_->set_start(static_cast<float>(config.loss_scale), static_cast<float>(config.head_momentum));
        baseline.chunks = 1;
        if (config.recompute == "auto") baseline.recompute = "none";  // it stores what its backward reads
    }

    // The least recomputation with which it fits, or the smallest plan.
    std::vector<Recompute> smallest;
    std::int64_t smallest_bytes = 0;
    for (const auto& layers : recompute_choices(baseline, spec, workload_, backend_->host_memory())) {
        plan_chunks(baseline, layers);
        if (max_bytes_ == 0 || plan_.total_bytes() <= max_bytes_) return;
        if (!smallest.empty() && plan_.total_bytes() >= smallest_bytes) continue;
        smallest = layers;
        smallest_bytes = plan_.total_bytes();
    }
    plan_chunks(baseline, smallest);
}

void Session::plan_chunks(const Config& config, const std::vector<Recompute>& layers) {
    encoder_->set_recompute(layers);
    plan_.recompute = describe_recompute(layers);
    dry_run(config.chunks > 0 ? config.chunks : backend_->preferred_chunks(workload_));
    if (config.chunks > 0 || max_bytes_ == 0) return;
    // More chunks, less memory, until it fits or more do not help.
    while (plan_.total_bytes() > max_bytes_ && workload_.chunks < shape_.labels) {
        const std::int64_t before = plan_.total_bytes();
        dry_run(std::min(workload_.chunks * 2, shape_.labels));
        if (plan_.total_bytes() >= before) break;
    }
}

void Session::lay_out(Arena& arena) {
    encoder_->allocate(arena, workload_);
    if (!maps_head()) head_->allocate(arena);
    if (renee_) renee_->allocate(arena);
    backend_->reserve(arena, workload_);
    arena.end_phase("start");
    encoder_->allocate_activations(arena, workload_);
    if (shape_.training)
        embed_grad_BD_ = arena.allocate("step/grad_embed_bf16", DType::kBf16, shape_.batch, workload_.width);
    {
        const Arena::Scope forward_phase(arena);
        encoder_->allocate_forward(arena, workload_);
        arena.end_phase("encoder forward");
    }
    {
        const Arena::Scope head_phase(arena);
        backend_->reserve_head(arena, workload_);
        if (shape_.training)
            head_grad_BD_ = arena.allocate("step/grad_embed_f32", DType::kF32, shape_.batch, workload_.width);
        if (renee_)
            renee_->allocate_step(arena);
        else
            arena.end_phase("head");
    }
    if (shape_.training) {
        const Arena::Scope backward_phase(arena);
        encoder_->allocate_backward(arena, workload_);
        arena.end_phase("encoder backward");
    }
}

HeadStepResult Session::head_step(View x_BD, std::span<const Positive> positives, float lr,
                                  float weight_decay, std::uint64_t seed, std::uint64_t step, bool want_loss,
                                  View dx_BD) {
    if (!renee_) return head_->step(x_BD, positives, lr, weight_decay, seed, step, want_loss, dx_BD);
    const ReneeStepResult done =
        renee_->step(head_->weights(), x_BD, positives, lr, weight_decay, step, want_loss, dx_BD);
    HeadStepResult result;
    result.loss_sum = done.loss_sum;
    result.skipped = done.skipped;
    return result;
}

void Session::dry_run(std::int64_t chunks) {
    workload_.chunks = chunks;
    if (!maps_head())
        head_ = std::make_unique<Head>(shape_.labels, workload_.width, head_format_, chunks, *backend_,
                                       head_extras_);
    Arena arena;
    lay_out(arena);
    plan_.segments = arena.segments();
    plan_.phases = arena.phases();
    plan_.arena_bytes = arena.peak_bytes();
    plan_.max_bytes = max_bytes_;
    plan_.device = std::string(backend_->name());
    if (backend_->host_memory()) {  // a GPU holds the arena and nothing else
        plan_.mapped_bytes = shape_.mapped_bytes;
        plan_.program_bytes = context_.start_bytes() + kLibraryBytes + shape_.table_bytes;
    }
    plan_.chunks = chunks;
}

void require_room(const MemoryReport& plan, std::int64_t room_bytes, const std::string& whose) {
    std::int64_t used = 0;
    for (const Segment& segment : plan.segments) {
        used += segment.at_peak ? segment.bytes : 0;
        if (used <= room_bytes) continue;
        throw OutOfMemory(fmt::format(
            "out of memory: {} ({}) does not fit: model and step need {}, and {} has {} for them; lower "
            "batch_size, max_length or width, or store the head in fewer bits (precision). The plan:\n{}",
            segment.name, human_bytes(segment.bytes), human_bytes(plan.arena_bytes), whose,
            human_bytes(std::max<std::int64_t>(room_bytes, 0)), plan.describe()));
    }
}

void require_free_memory(const MemoryReport& plan, const Backend& backend) {
    // What is resident already is not asked for again, and the kernel can drop mapped pages.
    const std::int64_t libraries = backend.host_memory() ? kLibraryBytes : 0;
    require_room(plan, backend.free_bytes() - libraries, backend.host_memory() ? "this machine" : "the GPU");
}

void Session::allocate() {
    if (max_bytes_ > 0)
        require_room(plan_, max_bytes_ - (plan_.total_bytes() - plan_.arena_bytes),
                     fmt::format("max_memory of {} less program and mapped files", human_bytes(max_bytes_)));
    require_free_memory(plan_, *backend_);
    arena_ = std::make_unique<Arena>(backend_->allocate(plan_.arena_bytes));
    lay_out(*arena_);
    if (!shape_.head_folder.empty() && !maps_head()) head_->load(shape_.head_folder);
}

}  // namespace elmo
