// The head's step and ranking: chunks of labels through three products (logits and g, dx, update), on tensor
// cores where the shape allows (hopper.cuh on Hopper, else tiles.cuh), else plainly
// (simple.cuh).
//
// dx: tile t of 128 labels adds to slice t % slices, each slice in the order of its tiles, the slices in
// order: the sum depends only on the shape, not on the chunks.
#include <algorithm>
#include <atomic>
#include <limits>
#include <ranges>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/head/chunk.h"
#include "backend/cuda/head/head.h"
#include "backend/cuda/head/hopper/hopper.h"
#include "backend/cuda/head/packed.h"
#include "backend/cuda/head/rows.h"
#include "backend/cuda/head/storage.cuh"
#include "backend/cuda/linear/plain_product.cuh"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// Of g: about what the backward of a usual encoder takes in the same place, so that more would be memory for
// nothing; every chunk costs three launches.
constexpr std::int64_t kChunkBytes = std::int64_t{100} << 20;
constexpr int kLossBlocks = 64;  // which add parts of the loss
constexpr long long kNever = std::numeric_limits<long long>::max();

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

bool on_tiles(const View& x, const View& w) {
    return x.dtype == DType::kBf16 && w.dtype != DType::kF32 && w.cols % kTileStep == 0;
}

// x as the products take it, padded with zeros: as it is for the update; through E4M3 for the logits of E4M3
// weights, and with its columns in the order in which 8-bit codes are decoded.
template <class In, bool Tiles>
__global__ void stage_batch_kernel(const In* x, std::int64_t batch, std::int64_t padded, std::int64_t width,
                                   bool through_e4m3, bool permute, void* update, void* logit) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= padded * width) return;
    const std::int64_t b = i / width, d = i % width;
    const auto value = [&](std::int64_t column) {
        return b < batch ? load_float(x, b * width + column) : 0.0f;
    };
    // Place s of 16 takes column 4 (s / 2 % 4) + s % 2, plus 2 in the upper half.
    const std::int64_t s = d % 16, from = permute ? d - s + s % 8 / 2 * 4 + s % 2 + s / 8 * 2 : d;
    float z = value(from);
    if (through_e4m3) z = nearest_e4m3(z);
    if constexpr (Tiles) {
        static_cast<bf16*>(logit)[i] = __float2bfloat16_rn(z);
        if (update != nullptr) static_cast<bf16*>(update)[i] = __float2bfloat16_rn(value(d));
    } else {
        static_cast<float*>(logit)[i] = z;
        if (update != nullptr) static_cast<float*>(update)[i] = value(d);
    }
}

// starts[t] = the first positive whose label is not before tile t.
__global__ void tile_starts_kernel(const std::int64_t* labels, std::int32_t count, std::int64_t tiles,
                                   std::int32_t* starts) {
    const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (t > tiles) return;
    std::int32_t low = 0, high = count;
    while (low < high) {
        const std::int32_t middle = (low + high) / 2;
        if (labels[middle] < t * kLabelTile)
            low = middle + 1;
        else
            high = middle;
    }
    starts[t] = low;
}

__global__ void reset_report_kernel(HeadReport* report) {
    *report = {0, 0, kNever};
}

// dx = the slices' sum; notes the step where it is not finite.
__global__ void add_slices_kernel(const float* slices, std::int64_t num_slices, std::int64_t count, float* dx,
                                  long long step, HeadReport* report) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (std::int64_t s = 0; s < num_slices; ++s) sum += slices[s * count + i];
    dx[i] = sum;
    if (!isfinite(sum)) atomicMin(&report->non_finite, step);
}

// Sets sums[block] to the block's share of the parts, in an order that only their number decides.
__global__ void add_losses_kernel(const double* parts, std::int64_t count, double* sums) {
    __shared__ double warps[kThreads / 32];
    double sum = 0;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
         i += static_cast<std::int64_t>(gridDim.x) * kThreads)
        sum += parts[i];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();  // all warps' sums are in shared memory
    if (threadIdx.x != 0) return;
    double total = 0;
    for (const double part : warps) total += part;
    sums[blockIdx.x] = total;
}

// The report's loss; with `to` also the report itself: loss of a text (NaN where dx was not finite) and
// saturations.
__global__ void report_loss_kernel(const double* sums, HeadReport* report, std::int64_t batch, float* to) {
    double total = 0;
    for (int i = 0; i < kLossBlocks; ++i) total += sums[i];
    report->loss_sum = total;
    if (to == nullptr) return;
    to[0] = report->non_finite == kNever ? static_cast<float>(total / static_cast<double>(batch)) : nanf("");
    to[1] = static_cast<float>(report->saturations);
}

// What leads to row `first` of a matrix by its number, where the rows from there on lie at `at`.
void* leads_to(const View& at, std::int64_t first) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(at.data) -
                                   static_cast<std::uintptr_t>(first * at.cols * size_of(at.dtype)));
}

// The rows of compensation that belong to labels before `row` of W.
std::int64_t compensated_before(const HeadStep& op, std::int64_t row) {
    return std::ranges::lower_bound(op.compensated_labels, op.first_label + row) -
           op.compensated_labels.begin();
}

// body(a storage) for the storage of W.
template <class Body>
void with_storage(DType dtype, const Body& body) {
    switch (dtype) {
        case DType::kF32:
            return body(StorageF32{});
        case DType::kBf16:
            return body(StorageBf16{});
        case DType::kE4M3:
            return body(StorageE4M3{});
        case DType::kE3M4:
            return body(StorageE3M4{});
        case DType::kU8:
            return body(StorageRowE2M5{});
        default:
            throw DeviceError("head: a GPU holds f32, bf16, e4m3 and e3m4 weights");
    }
}

// The same with a grid, where the weights lie on one.
template <class Body>
void with_storage(DType dtype, const WeightGrid& grid, const Body& body) {
    if (grid.used() && dtype == DType::kBf16) return body(StorageGrid16{});
    if (grid.used() && dtype == DType::kF32) return body(StorageGrid32{});
    with_storage(dtype, body);
}

// Compensated labels of a chunk whose sums fit: those of usual chunks, where labels of all kinds are mixed,
// and of many a share that costs a few chunks more.
std::int64_t compensated_rows(std::int64_t all) {
    return std::min(all, std::max<std::int64_t>(all / 12, 4096));
}

// Whether rows of W are expanded or aligned for the kernels; not known is whether the card has those that
// need it.
bool expands(const Workload& w) {
    return w.head_packed || ((w.training || w.top_k > 0) && w.head_dtype != DType::kF32 && !w.renee &&
                             aligned_columns(w.head_dtype, w.head_packed, w.width) != w.width);
}

}  // namespace

std::int64_t HeadOps::preferred_chunks(const Workload& w) const {
    std::int64_t labels = std::max<std::int64_t>(
        round_up(kChunkBytes / (2 * round_up(std::max<std::int64_t>(w.batch, 1), kBatchTile)), kLabelTile),
        kLabelTile);
    if (expands(w) && aligned_columns(w.head_dtype, w.head_packed, w.width) != w.width)
        labels = std::min(labels, 2 * expanded_labels(w.width));
    if (w.head_row_bytes > 0) labels = HeadStream::slot_rows(w, labels);
    return std::max<std::int64_t>((w.labels + labels - 1) / labels, 1);
}

void HeadOps::reserve_report(Arena& arena, const Workload& w) {
    if (!w.training || w.labels == 0) return;
    report_ = arena.allocate("scratch/head_report", DType::kU8, 1, sizeof(HeadReport));
    if (arena.dry()) return;
    reset_report_kernel<<<1, 1, 0, context_.stream()>>>(static_cast<HeadReport*>(report_.data));
    check_launch("head, report");
}

void HeadOps::reserve(Arena& arena, const Workload& w) {
    const std::int64_t padded = round_up(std::max<std::int64_t>(w.batch, 1), kBatchTile);
    const std::int64_t tiles = tiles_of(w.labels);
    const std::int64_t chunks = std::clamp<std::int64_t>(w.chunks, 1, tiles);
    // F32, or BF16 of the padded width.
    const std::int64_t x_columns = std::max(w.width, hopper::padded_width(w.width) / 2);
    x_logit_ = arena.allocate("scratch/head_logit_input", DType::kF32, padded, x_columns);
    if (expands(w))
        expanded_ =
            arena.allocate("scratch/head_expanded_weights", DType::kBf16,
                           std::min((tiles + chunks - 1) / chunks * kLabelTile, expanded_labels(w.width)),
                           aligned_columns(w.head_dtype, w.head_packed, w.width));
    if (w.top_k > 0) reserve_ranking(arena, w);
    if (!w.training) return;
    positives_.reserve(arena, w);
    if (w.renee) return;
    x_update_ = arena.allocate("scratch/head_update_input", DType::kF32, padded, x_columns);
    g_ = arena.allocate("scratch/head_logit_gradient", DType::kBf16,
                        (tiles + chunks - 1) / chunks * kLabelTile, padded);
    dx_slices_ = arena.allocate(
        "scratch/head_input_gradient_slices", DType::kF32,
        std::max(slices_for(w.labels, padded, w.width),
                 hopper::slices_for(w.head_dtype, w.labels, padded, w.width, hopper::kMultiprocessors)),
        std::max<std::int64_t>(w.batch, 1) * w.width);
    tile_starts_ = arena.allocate("scratch/positive_starts", DType::kI32, 1, tiles + 1);
    losses_ = arena.allocate(
        "scratch/head_losses", DType::kF64, 1,
        tiles * hopper::loss_parts(w.head_dtype, hopper::padded_width(w.width), padded / hopper::kBlock) +
            kLossBlocks);
    if (w.compensated > 0 && size_of(w.head_dtype) == 1)
        compensated_sums_ = arena.allocate("scratch/head_compensated_sums", DType::kF32,
                                           compensated_rows(w.compensated), w.width);
    if (w.head_row_exponents) row_flags_ = arena.allocate("scratch/head_row_flags", DType::kU8, 1, w.labels);
}

void HeadOps::start() {
    static std::atomic<bool> warned = false;  // once, for any number of backends
    if (context_.properties().major != 9) return;
    has_hopper_code_ = hopper::has_code(context_.stream());
    if (!has_hopper_code_ && !warned.exchange(true))
        context_.run().warning(
            "GPU: this elmo has no code for sm_90a: the head takes the kernels of other cards, at about half "
            "the speed; build it with CMAKE_CUDA_ARCHITECTURES=90a-real");
}

bool HeadOps::on_hopper(const HeadStep& op) const {
    return has_hopper_code_ && hopper::takes(op);
}

bool HeadOps::on_hopper(const HeadTopK& op) const {
    return has_hopper_code_ && hopper::takes(op) && (takes_rows_as_stored(op) || !expanded_.empty());
}

void HeadOps::explain_slow_step(const HeadStep& op) {
    if (!has_hopper_code_ || explained_ || op.w_LD.dtype == DType::kF32) return;
    explained_ = true;
    const char* why = op.drops_weights()              ? "with weight dropout"
                      : op.x_BD.dtype != DType::kBf16 ? "from an FP32 encoder"
                      : !hopper::fits(op.x_BD.cols)   ? "of more than 1536 columns"
                      : op.compensates()              ? "with this precision and --head-kahan"
                                                      : "with this precision and noise";
    context_.run().info(std::string("GPU: a head ") + why +
                        " takes the kernels of other cards, at about half the speed");
}

HeadArgs HeadOps::stage(const View& x, const View& w, bool to_e4m3, bool for_update, bool on_hopper,
                        bool drop) {
    HeadArgs a;
    a.labels = w.rows;
    a.batch = x.rows;
    a.padded_batch = round_up(std::max<std::int64_t>(x.rows, 1), kBatchTile);
    a.width = w.cols;
    a.padded_width = hopper::padded_width(a.width);
    a.stride = a.width;
    a.w_LD = w.data;
    a.x_logit = x_logit_.data;
    a.x_update = for_update ? x_update_.data : nullptr;
    const bool tiled = on_tiles(x, w), codes = size_of(w.dtype) == 1;
    const std::int64_t rows = tiled ? a.padded_batch : a.batch;
    if (a.padded_batch > x_logit_.rows) throw DeviceError("head: a batch larger than was planned for");
    if (on_hopper) {
        hopper::stage(x, w.dtype, to_e4m3, a, context_.stream());
        return a;
    }
    with_type(x, [&](auto* in) {
        using In = std::remove_pointer_t<decltype(in)>;
        const auto launch = [&](auto kernel) {
            kernel<<<blocks_for(rows * a.width, kThreads), kThreads, 0, context_.stream()>>>(
                static_cast<const In*>(in), a.batch, rows, a.width, to_e4m3, tiled && codes && !drop,
                const_cast<void*>(a.x_update), x_logit_.data);
        };
        tiled ? launch(stage_batch_kernel<In, true>) : launch(stage_batch_kernel<In, false>);
    });
    check_launch("head, staging");
    return a;
}

std::int64_t HeadOps::expanded_tiles(std::int64_t width) const {
    const std::int64_t tiles = expanded_.size() / width / kLabelTile;
    if (tiles == 0) throw DeviceError("head: expanded weights were not planned for");
    return tiles;
}

View HeadOps::expand_chunk(const View& w, const View& exponents, const WeightGrid& grid, HeadArgs& a) {
    const std::int64_t first = a.first_tile * kLabelTile, last = std::min(a.labels, a.last_tile * kLabelTile);
    const View expanded{expanded_.data, DType::kBf16, last - first, a.width};
    expand_rows(w.slice(first, last), exponents.slice(first, last), grid, expanded, context_.stream());
    a.w_LD = leads_to(expanded, first);  // kernels find the row of a label by its number
    return expanded;
}

View HeadOps::align_chunk(const View& w, std::int64_t row_bytes, HeadArgs& a) {
    const std::int64_t first = a.first_tile * kLabelTile, last = std::min(a.labels, a.last_tile * kLabelTile);
    const View aligned{expanded_.data, w.dtype, last - first, row_bytes / size_of(w.dtype)};
    align_rows(w.slice(first, last), aligned, context_.stream());
    a.w_LD = leads_to(aligned, first);
    return aligned;
}

HeadStep HeadOps::fetch_chunk(const HeadStep& op, HeadArgs& a) {
    const std::int64_t first = a.first_tile * kLabelTile, last = std::min(a.labels, a.last_tile * kLabelTile);
    HeadStep here = op;
    View compensation;
    std::int64_t first_compensated = 0;
    if (op.compensates()) {
        first_compensated = compensated_before(op, first);
        compensation = op.compensation_KD.slice(first_compensated, compensated_before(op, last));
    }
    const HeadStream::Rows rows = stream_.fetch(op.w_LD.slice(first, last), compensation);
    a.w_LD = here.w_LD.data = leads_to(rows.weights, first);
    if (op.compensates()) {
        here.compensation_KD.data = leads_to(rows.compensation, first_compensated);
        a.compensation = static_cast<std::uint16_t*>(here.compensation_KD.data);
    }
    return here;
}

HeadTopK HeadOps::fetch_chunk(const HeadTopK& op, HeadArgs& a) {
    const std::int64_t first = a.first_tile * kLabelTile, last = std::min(a.labels, a.last_tile * kLabelTile);
    HeadTopK here = op;
    a.w_LD = here.w_LD.data = leads_to(stream_.fetch(op.w_LD.slice(first, last), {}).weights, first);
    return here;
}

void HeadOps::fill_packed(const FillNormal& op) {
    const std::int64_t rows = expanded_tiles(op.width()) * kLabelTile;
    for (std::int64_t first = 0; first < op.w.rows; first += rows) {
        const std::int64_t last = std::min(op.w.rows, first + rows);
        FillNormal part = op;
        part.w = {expanded_.data, DType::kBf16, last - first, op.width()};
        part.first_row = op.first_row + first;
        part.row_exponents = op.row_exponents.slice(first, last);
        fill_normal_on_grid(part, context_.stream());
        pack_rows(part.w, part.row_exponents, op.grid, op.w.slice(first, last), context_.stream());
    }
}

HeadArgs HeadOps::prepare(const HeadStep& op, const View& w, bool on_hopper) {
    const std::int64_t labels = op.w_LD.rows, tiles = tiles_of(labels);
    HeadArgs a = stage(op.x_BD, w, casts_to_e4m3(op), true, on_hopper, op.drops_weights());
    positives_.send(op.positives);
    tile_starts_kernel<<<blocks_for(tiles + 1, kThreads), kThreads, 0, context_.stream()>>>(
        positives_.labels(), static_cast<std::int32_t>(op.positives.size()), tiles,
        tile_starts_.as<std::int32_t>());
    check_launch("head, positives");
    a.g_CB = static_cast<std::uint16_t*>(g_.data);
    a.text_blocks = hopper::gradient_blocks(op.w_LD.dtype, a.batch, a.padded_batch, a.width);
    a.dx_slices = op.dx_BD.empty() ? nullptr : dx_slices_.as<float>();
    a.num_slices = on_hopper ? hopper::slices_for(op.w_LD.dtype, labels, a.padded_batch, a.width,
                                                  context_.properties().multiProcessorCount)
                             : slices_for(labels, a.padded_batch, a.width);
    a.positive_labels = positives_.labels();
    a.positive_samples = positives_.samples();
    a.positive_weights = positives_.weights();
    a.tile_starts = tile_starts_.as<std::int32_t>();
    a.losses = op.want_loss ? losses_.as<double>() : nullptr;
    a.report = static_cast<HeadReport*>(report_.data);
    a.lr = op.lr;
    a.keep = 1.0f - op.lr * op.weight_decay;
    a.rounding = op.rounding;
    a.rounding_keys = philox_keys(op.rounding.seed);
    a.first_label = op.first_label;
    if (op.drops_weights() || op.compensates()) {
        a.weight_dropout = dropout_args(op.weight_dropout);
        a.decay = op.lr * op.weight_decay;
        a.marks = static_cast<const std::uint32_t*>(op.compensated_R2.data);
        a.compensation = static_cast<std::uint16_t*>(op.compensation_KD.data);
        a.compensated_sums = static_cast<float*>(compensated_sums_.data);
    }
    a.noise = op.noise;
    a.grid = op.grid;
    if (op.grid.row_scaled) {
        if (row_flags_.size() < labels) throw DeviceError("head: exponents of rows were not planned for");
        a.row_exponents = op.row_exponents_L1.codes();
        a.row_flags = row_flags_.codes();
        context_.fill_zero(row_flags_);
    }
    return a;
}

std::int64_t HeadOps::last_tile(const HeadStep& op, std::int64_t first, std::int64_t last) const {
    const std::int64_t most = compensated_before(op, first * kLabelTile) + compensated_sums_.rows;
    const auto fits = [&](std::int64_t tile) { return compensated_before(op, tile * kLabelTile) <= most; };
    if (fits(last)) return last;
    const std::int64_t fitting =
        *std::ranges::partition_point(std::views::iota(first + 1, last + 1), fits) - 1;
    if (fitting == first) throw DeviceError("head: more compensated labels than were planned for");
    return fitting;
}

void HeadOps::run_chunk_on_hopper(const HeadStep& op, HeadArgs& a) {
    const cudaStream_t stream = context_.stream();
    if (op.compensates()) a.first_compensated = compensated_before(op, a.first_tile * kLabelTile);
    const bool as_stored = takes_rows_as_stored(op);
    const View aligned = as_stored ? View{} : align_chunk(op.w_LD, aligned_row_bytes(op), a);
    hopper::run_chunk(a, op.w_LD.dtype, context_.properties().multiProcessorCount, !as_stored, stream);
    if (op.grid.row_scaled) move_exponents(a, op.w_LD.dtype, op.rescaling, stream);
    if (as_stored) return;
    const std::int64_t first = a.first_tile * kLabelTile, last = first + aligned.rows;
    store_rows(aligned, op.w_LD.slice(first, last), stream);
}

void HeadOps::run_chunk(const HeadStep& op, const View& w, HeadArgs& a, bool on_hopper) {
    if (on_hopper) return run_chunk_on_hopper(op, a);
    const cudaStream_t stream = context_.stream();
    const bool packed = is_packed(op);
    const View expanded = packed ? expand_chunk(op.w_LD, op.row_exponents_L1, op.grid, a) : View{};
    with_storage(w.dtype, op.grid,
                 [&](auto storage) { cuda::run_chunk<decltype(storage)>(a, on_tiles(op.x_BD, w), stream); });
    if (op.grid.row_scaled) move_exponents(a, w.dtype, op.rescaling, stream);
    if (!packed) return;
    const std::int64_t first = a.first_tile * kLabelTile, last = first + expanded.rows;
    pack_rows(expanded, op.row_exponents_L1.slice(first, last), op.grid, op.w_LD.slice(first, last), stream);
}

HeadStepResult HeadOps::step(const HeadStep& op) {
    const bool on_hopper = this->on_hopper(op);
    const View w = on_hopper ? View{op.w_LD.data, op.w_LD.dtype, op.w_LD.rows, op.x_BD.cols} : weights_of(op);
    const bool tiled = on_tiles(op.x_BD, w);
    if (!on_hopper) explain_slow_step(op);
    const std::int64_t tiles = tiles_of(op.w_LD.rows);
    HeadArgs a = prepare(op, w, on_hopper);
    const std::int64_t columns_of_g = on_hopper ? a.text_blocks * hopper::kBlock : a.padded_batch;
    std::int64_t room = g_.size() / columns_of_g / kLabelTile;  // tiles of the planned chunk
    if (on_hopper && !takes_rows_as_stored(op)) {
        a.stride = aligned_columns(op);
        room = std::min(room, expanded_tiles(aligned_row_bytes(op) / 2));
    } else if (!on_hopper && is_packed(op)) {
        room = std::min(room, expanded_tiles(a.width));
    }
    if (op.in_host) room = std::min(room, stream_.rows() / kLabelTile);
    if (tiles > 0 && room == 0) throw DeviceError("head: weights in the host's memory were not planned for");
    std::int64_t chunks = std::clamp<std::int64_t>(op.num_chunks, 1, std::max<std::int64_t>(tiles, 1));
    if (tiles > 0) chunks = std::max(chunks, (tiles + room - 1) / room);
    const auto run = [&] {
        if (!op.in_host) return run_chunk(op, w, a, on_hopper);
        run_chunk(fetch_chunk(op, a), w, a, on_hopper);
        stream_.store();
    };
    for (std::int64_t chunk = 0; chunk < chunks && tiles > 0; ++chunk) {
        const std::int64_t end = tiles * (chunk + 1) / chunks;
        for (a.first_tile = tiles * chunk / chunks; a.first_tile < end; a.first_tile = a.last_tile) {
            a.last_tile = on_hopper && op.compensates() ? last_tile(op, a.first_tile, end) : end;
            run();
        }
    }
    if (const std::int64_t elements = op.dx_BD.size(); a.dx_slices != nullptr) {
        add_slices_kernel<<<blocks_for(elements, kThreads), kThreads, 0, context_.stream()>>>(
            a.dx_slices, std::min(a.num_slices, tiles), elements, op.dx_BD.as<float>(),
            static_cast<long long>(op.rounding.step), a.report);
        check_launch("head, input gradient");
    }
    if (!op.want_loss) return {};
    const std::int64_t parts = on_hopper
                                   ? tiles * hopper::loss_parts(op.w_LD.dtype, a.padded_width, a.text_blocks)
                               : tiled ? tiles * (a.padded_batch / kBatchTile)
                                       : tiles * 2 * (a.padded_batch / plain::kEdge);
    double* const sums = a.losses + losses_.size() - kLossBlocks;
    add_losses_kernel<<<kLossBlocks, kThreads, 0, context_.stream()>>>(a.losses, parts, sums);
    report_loss_kernel<<<1, 1, 0, context_.stream()>>>(sums, a.report, a.batch,
                                                       static_cast<float*>(op.report_to.data));
    check_launch("head, loss");
    HeadReport report{};
    if (op.report_to.empty()) context_.download(&report, report_);
    reset_report_kernel<<<1, 1, 0, context_.stream()>>>(a.report);
    check_launch("head, report");
    if (!op.report_to.empty()) return {};
    HeadStepResult result;
    result.loss_sum = report.loss_sum;
    result.saturations = static_cast<std::int64_t>(report.saturations);
    if (report.non_finite != kNever) result.non_finite = report.non_finite;
    return result;
}

void HeadOps::rank_tiles(const HeadArgs& staged, const HeadTopK& op, bool on_hopper) {
    if (!op.in_host) return rank_resident(staged, op, on_hopper);
    const std::int64_t room = stream_.rows() / kLabelTile;
    if (room == 0) throw DeviceError("head: weights in the host's memory were not planned for");
    HeadArgs a = staged;
    for (a.first_tile = staged.first_tile; a.first_tile < staged.last_tile; a.first_tile = a.last_tile) {
        a.last_tile = std::min(staged.last_tile, a.first_tile + room);
        const HeadTopK here = fetch_chunk(op, a);
        rank_resident(a, here, on_hopper);
        stream_.release();
    }
}

void HeadOps::rank_resident(HeadArgs a, const HeadTopK& op, bool on_hopper) {
    a.grid = op.grid;
    if (op.grid.row_scaled) a.row_exponents = op.row_exponents_L1.codes();
    const View w = weights_of(op);
    const bool as_stored = on_hopper ? takes_rows_as_stored(op) : !is_packed(op);
    const auto rank = [&] {
        if (on_hopper)
            return hopper::rank(a, op.w_LD.dtype, context_.properties().multiProcessorCount,
                                as_stored && !op.in_host, context_.stream());
        with_storage(w.dtype, [&](auto storage) {
            run_rank<decltype(storage)>(a, on_tiles(op.x_BD, w), context_.stream());
        });
    };
    if (as_stored) return rank();
    const std::int64_t last = a.last_tile;
    if (on_hopper) a.stride = aligned_columns(op);
    const std::int64_t room = expanded_tiles(on_hopper ? aligned_row_bytes(op) / 2 : a.width);
    for (; a.first_tile < last; a.first_tile = a.last_tile) {
        a.last_tile = std::min(last, a.first_tile + room);
        if (on_hopper)
            align_chunk(op.w_LD, aligned_row_bytes(op), a);
        else
            expand_chunk(op.w_LD, op.row_exponents_L1, op.grid, a);
        rank();
    }
}

}  // namespace elmo::cuda
