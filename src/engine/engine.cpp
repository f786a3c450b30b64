#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/process_memory.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "engine/device.h"
#include "engine/precision.h"
#include "engine/recompute.h"

namespace elmo {

namespace {

// What libraries take once they run: oneDNN's generated code and packed operands, thread stacks, the
// tokenizer, batches and log buffers.
constexpr std::int64_t kLibraryBytes = std::int64_t{48} << 20;
// Of a plan for several ranks: what the library that joins them takes in each (8 to 9 MiB of Open MPI).
constexpr std::int64_t kRanksBytes = std::int64_t{10} << 20;

}  // namespace

std::unique_ptr<Backend> make_backend(const Context& context, const EngineOptions& options) {
    const DeviceChoice device =
        options.device == DeviceChoice::kAuto ? choose_device(context).device : options.device;
    if (device == DeviceChoice::kCuda) return make_cuda_backend(context);
    if (device == DeviceChoice::kReference) return make_reference_backend();
    return make_cpu_backend(context, options.cpu_products);
}

void require_device(const Context& context, const EngineOptions& options) {
    if (options.device == DeviceChoice::kCuda) make_backend(context, options)->allocate(1);
}

std::int64_t compensated_labels(const HeadOptions& options, std::int64_t labels) {
    const double share = parse_share(choose_head_kahan(options));
    if (share == 0) return 0;
    return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(labels)), 1, labels);
}

HeadSpec trained_head(const HeadOptions& options, std::int64_t labels, std::int64_t width) {
    HeadSpec spec = plain_head(options, labels, width);
    spec.extras.compensated_rows = compensated_labels(options, labels);
    spec.extras.weight_dropout = static_cast<float>(options.weight_dropout);
    if (options.precision == "renee")
        spec.extras.renee = {static_cast<float>(options.loss_scale), static_cast<float>(options.momentum)};
    return spec;
}

EngineParts training_parts(const HeadOptions& options, const EncoderSpec& encoder, std::int64_t labels,
                           const RankShare& share) {
    require_loss_scale(options, encoder.fp16);
    EngineParts parts{encoder, trained_head(options, labels, encoder.width), true};
    if (!share.is_alone()) {
        const ShareRange own = share.own_labels(labels);
        parts.head->layout = LabelLayout::range(own.first, own.last);
        parts.head->is_part = true;
        parts.head->extras.compensated_rows =
            (parts.head->extras.compensated_rows * own.size() + labels - 1) / labels;
    }
    // Gradients of several shards are added before any of them is used.
    if (share.ranks > 1 || share.shards > 1) parts.encoder->consume_gradients = false;
    return parts;
}

Engine::Engine(const Context& context, const EngineOptions& options, const EngineParts& parts,
               const RunShape& shape)
    : context_(context),
      shape_(shape),
      max_bytes_(options.max_bytes),
      chunks_(options.chunks),
      backend_(make_backend(context, options)) {
    plan_.fixed_model = !parts.is_new;
    plan_.fixed_width = parts.encoder && !parts.encoder->is_bag();
    if (parts.encoder) encoder_ = make_encoder(*parts.encoder, *backend_);
    if (parts.head) {
        HeadSpec spec = *parts.head;
        spec.in_host = options.head_memory == HeadMemory::kHost && !backend_->host_memory();
        if (spec.in_host) workload_.head_row_bytes = spec.format.row_bytes(spec.width);
        head_ = std::make_unique<Head>(spec, *backend_);
        maps_head_ = parts.head->in_files && backend_->host_memory();
        if (maps_head_) shape_.mapped_bytes += parts.head->bytes();
    }
    describe_workload();
    share_step(options);

    EngineOptions choices = options;
    if (workload_.renee) {  // it has everything at once, and stores what its backward reads
        chunks_ = 1;
        if (options.recompute == RecomputeChoice::kAuto) choices.recompute = RecomputeChoice::kNone;
    }
    if (!encoder_) {
        plan_chunks({});
        return;
    }
    // The least recomputation with which it fits, or the smallest plan.
    std::vector<Recompute> smallest;
    std::int64_t smallest_bytes = 0;
    for (const auto& layers :
         recompute_choices(choices, encoder_->spec(), workload_, backend_->host_memory())) {
        plan_chunks(layers);
        if (max_bytes_ == 0 || plan_.total_bytes() <= max_bytes_) return;
        if (!smallest.empty() && plan_.total_bytes() >= smallest_bytes) continue;
        smallest = layers;
        smallest_bytes = plan_.total_bytes();
    }
    plan_chunks(smallest);
}

void Engine::share_step(const EngineOptions& options) {
    exchange_ = std::make_unique<ViewExchange>(ranks_of(context_), *backend_, options.exchange);
    if (shape_.share.is_whole() || !shape_.training || !head_) return;
    if (!backend_->host_memory() && workload_.width % 8 != 0)
        throw ConfigError(fmt::format(
            "width: expected a multiple of 8 for batch_shards and label_groups on a GPU, found {}",
            workload_.width));
    SharedStep::Sizes sizes;
    sizes.labels = shape_.labels;
    sizes.width = workload_.width;
    sizes.texts = shape_.texts;
    sizes.rank_texts = shape_.rank_texts;
    sizes.input_gradient = shape_.input_gradient;
    sizes.encoder_learns = encoder_ && !encoder_->spec().frozen;
    sizes.accumulate = encoder_ ? encoder_->spec().accumulate : 1;
    if (sizes.encoder_learns)
        encoder_->share_state(static_cast<int>(shape_.share.rank), static_cast<int>(shape_.share.ranks));
    shared_ = std::make_unique<SharedStep>(shape_.share, sizes, ranks_of(context_), *backend_, *exchange_);
}

Workload Engine::encoder_workload() const {
    Workload workload = workload_;
    workload.batch = shape_.batch;
    return workload;
}

void Engine::describe_workload() {
    workload_.batch = std::max(shape_.batch, shape_.texts);
    workload_.tokens = shape_.tokens;
    workload_.longest = shape_.longest;
    workload_.positives = shape_.positives;
    workload_.weighted = shape_.weighted;
    workload_.top_k = shape_.top_k;
    workload_.training = shape_.training;
    if (head_) {
        workload_.labels = head_->labels();
        workload_.width = head_->width();
        workload_.head_dtype = head_->dtype();
        workload_.head_row_exponents = head_->format().grid.row_scaled;
        workload_.head_packed = head_->format().is_packed();
        workload_.renee = head_->renee() != nullptr;
        workload_.compensated = head_->compensation().rows();
    }
    if (encoder_) encoder_->describe_workload(workload_);
}

std::int64_t Engine::usual_chunks() const {
    return chunks_ > 0 ? chunks_ : backend_->preferred_chunks(workload_);
}

void Engine::plan_chunks(const std::vector<Recompute>& layers) {
    if (encoder_) encoder_->set_recompute(layers);
    plan_.recompute = describe_recompute(layers);
    dry_run(usual_chunks());
    if (chunks_ > 0 || max_bytes_ == 0) return;
    // More chunks, less memory, until it fits or more do not help.
    while (plan_.total_bytes() > max_bytes_ && workload_.chunks < workload_.labels) {
        const std::int64_t before = plan_.total_bytes();
        dry_run(std::min(workload_.chunks * 2, workload_.labels));
        if (plan_.total_bytes() >= before) break;
    }
}

void Engine::plan_labels(LabelLayout layout) {
    head_->set_layout(std::move(layout));
    workload_.labels = head_->labels();
    dry_run(usual_chunks());
}

void Engine::dry_run(std::int64_t chunks) {
    workload_.chunks = chunks;
    if (head_) head_->set_chunks(chunks);
    Arena arena, host;
    lay_out(arena, host);
    plan_.segments = arena.segments();
    plan_.phases = arena.phases();
    plan_.arena_bytes = arena.peak_bytes();
    plan_.host_bytes = host.peak_bytes();
    plan_.max_bytes = max_bytes_;
    plan_.device = std::string(backend_->name());
    if (backend_->host_memory()) {  // a GPU holds the arena and nothing else
        plan_.mapped_bytes = shape_.mapped_bytes;
        plan_.program_bytes = context_.start_bytes() + kLibraryBytes + shape_.table_bytes;
        if (share().ranks > 1 && ranks_of(context_).size() == 1) plan_.program_bytes += kRanksBytes;
    }
    plan_.chunks = chunks;
}

void Engine::lay_out(Arena& arena, Arena& host) {
    const Workload encoder_work = encoder_workload();
    if (encoder_) encoder_->allocate(arena, encoder_work);
    if (shared_) shared_->allocate(arena, encoder_.get());
    if (head_ && !maps_head_) head_->allocate(arena, workload_, &host);
    backend_->reserve(arena, workload_);
    arena.end_phase("start");
    if (encoder_) {
        encoder_->allocate_activations(arena, encoder_work);
        if (shape_.training)
            embed_grad_BD_ =
                encoder_->spec().fp16
                    ? arena.allocate("step/grad_embed_scaled", DType::kF32, shape_.batch, workload_.width)
                    : arena.allocate("step/grad_embed_bf16", DType::kBf16,
                                     std::max(shape_.batch, shape_.rank_texts), workload_.width);
        if (shared_) shared_->allocate_vectors(arena);
        const Arena::Scope forward_phase(arena);
        encoder_->allocate_forward(arena, encoder_work);
        arena.end_phase("encoder forward");
    } else {
        text_vectors_BD_ = arena.allocate("step/text_vectors", DType::kBf16, shape_.batch, workload_.width);
    }
    if (!shape_.share.is_alone() && shape_.top_k > 0)
        ranked_vectors_BD_ =
            arena.allocate("exchange/text_vectors", DType::kBf16, shape_.batch, workload_.width);
    if (head_) {
        const Arena::Scope head_phase(arena);
        backend_->reserve_head(arena, workload_);
        if (shared_)
            shared_->allocate_head(arena);
        else if (shape_.training && shape_.input_gradient)
            head_grad_BD_ = arena.allocate("step/grad_embed_f32", DType::kF32, shape_.batch, workload_.width);
        head_->allocate_step(arena);
    }
    if (encoder_ && shape_.training) {
        const Arena::Scope backward_phase(arena);
        encoder_->allocate_backward(arena, encoder_work);
        if (shared_) shared_->allocate_backward(arena);
        arena.end_phase("encoder backward");
    }
}

std::int64_t Engine::given_room() const {
    return max_bytes_ - (plan_.total_bytes() - plan_.arena_bytes);
}

std::int64_t Engine::free_room() const {
    // Resident memory is not requested again, and the kernel can drop mapped pages.
    return backend_->free_bytes() - (backend_->host_memory() ? kLibraryBytes : 0);
}

bool Engine::hold(std::int64_t bytes) {
    const bool host = backend_->host_memory();
    const std::int64_t room =
        host ? free_room() - plan_.arena_bytes : available_memory_bytes() - plan_.host_bytes;
    if (bytes > room || (host && max_bytes_ > 0 && plan_.total_bytes() + bytes > max_bytes_)) return false;
    shape_.table_bytes += bytes;
    if (host) plan_.program_bytes += bytes;
    return true;
}

bool Engine::fits() const {
    return (max_bytes_ == 0 || plan_.arena_bytes <= given_room()) && plan_.arena_bytes <= free_room();
}

void require_room(const MemoryReport& plan, std::int64_t room_bytes, const std::string& whose) {
    std::int64_t used = 0;
    for (const Segment& segment : plan.segments) {
        used += segment.at_peak ? segment.bytes : 0;
        if (used <= room_bytes) continue;
        throw OutOfMemory(fmt::format(
            "out of memory: {} ({}) does not fit: model and step need {}, and {} has {} for them; {}{}. The "
            "plan:\n{}",
            segment.name, human_bytes(segment.bytes), human_bytes(plan.arena_bytes), whose,
            human_bytes(std::max<std::int64_t>(room_bytes, 0)), plan.advice(),
            plan.device == "cuda" && plan.host_bytes == 0
                ? ", or keep the head in the host's memory (head_memory host)"
                : "",
            plan.describe()));
    }
}

void Engine::allocate() {
    if (max_bytes_ > 0)
        require_room(plan_, given_room(),
                     fmt::format("max_memory of {} less program and mapped files", human_bytes(max_bytes_)));
    require_room(plan_, free_room(), backend_->host_memory() ? "this machine" : "the GPU");
    if (const std::int64_t room = available_memory_bytes(); plan_.host_bytes > room)
        throw OutOfMemory(fmt::format(
            "out of memory: a head in the host's memory needs {}, and {} are free; store it in fewer bits "
            "(precision), or share it among more ranks. The plan:\n{}",
            human_bytes(plan_.host_bytes), human_bytes(room), plan_.describe()));
    arena_ = std::make_unique<Arena>(backend_->allocate(plan_.arena_bytes));
    host_arena_ = plan_.host_bytes > 0 ? std::make_unique<Arena>(backend_->allocate_in_host(plan_.host_bytes))
                                       : std::make_unique<Arena>();
    lay_out(*arena_, *host_arena_);
    if (!shape_.share.is_alone()) exchange_->join();
}

void Engine::initialise(std::uint64_t seed) {
    if (encoder_) encoder_->initialise(seed);
    if (head_) head_->initialise(seed);
}

void Engine::load(const InputFolder& folder) {
    if (encoder_) encoder_->load_weights(folder);
    if (maps_head_)
        head_ = std::make_unique<Head>(Head::map(folder, *backend_));
    else if (head_)
        head_->load(folder);
}

}  // namespace elmo
