#include "model/head/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text_util.h"
#include "elmo/error.h"
#include "model/streams.h"
#include "numerics/bf16.h"
#include "numerics/packed_codes.h"
#include "numerics/row_exponents.h"

namespace elmo {
namespace {

// Text vectors.
std::vector<float> host_floats(Backend& backend, View x_BD) {
    std::vector<float> values(static_cast<std::size_t>(x_BD.size()));
    if (x_BD.dtype == DType::kF32) {
        backend.download(values.data(), x_BD);
        return values;
    }
    assert(x_BD.dtype == DType::kBf16);
    std::vector<Bf16> stored(values.size());
    backend.download(stored.data(), x_BD);
    std::ranges::transform(stored, values.begin(), [](Bf16 value) { return to_float(value); });
    return values;
}

}  // namespace

bool HeadFormat::same_numbers(const HeadFormat& other) const {
    const auto numbers = [](const HeadFormat& format) {
        WeightGrid grid = format.grid;
        grid.nearest = false;
        return format.dtype == DType::kBf16 && grid == kBf16Grid ? WeightGrid{} : grid;
    };
    return dtype == other.dtype && numbers(*this) == numbers(other);
}

HeadFormat head_format(const std::string& precision) {
    if (precision == "fp32") return DType::kF32;
    if (precision == "bf16") return DType::kBf16;
    if (precision == "fp8") return DType::kE4M3;
    if (precision == "e3m4") return DType::kE3M4;
    for (const WeightGrid& grid : {kE2M5Grid, kE2M3Grid, kE2M1Grid}) {
        HeadFormat format = DType::kU8;
        format.grid = grid;
        if (precision == precision_of(format)) return format;
    }
    if (is_grid_name(precision)) {
        HeadFormat format;
        format.grid = parse_grid(precision);
        format.dtype = format.grid.fits_bf16() ? DType::kBf16 : DType::kF32;
        return format;
    }
    if (precision == "renee") return DType::kF32;
    throw ConfigError(
        fmt::format("precision '{}': expected fp32, bf16, fp8, e3m4, e2m5, e2m3, e2m1, renee or exmy:E,M",
                    quoted(precision)));
}

HeadFormat head_format(const HeadOptions& options) {
    HeadFormat format = head_format(options.precision);
    const bool nearest = options.rounding == HeadRounding::kNearest;
    if (nearest && format.dtype != DType::kF32 && (!format.grid.used() || format.dtype == DType::kU8)) {
        if (format.dtype != DType::kBf16)
            throw ConfigError(
                fmt::format("head_rounding nearest: expected precision bf16 or exmy:E,M, found {}; fp8 is "
                            "exmy:4,3 and e3m4 is exmy:3,4,7",
                            options.precision));
        format.grid = kBf16Grid;
    }
    format.grid.nearest = nearest && format.grid.used();
    switch (options.noise) {
        case HeadNoise::kIndependent:
            break;
        case HeadNoise::kPaired:
            format.noise = NoiseKind::kPaired;
            break;
        case HeadNoise::kShared:
            format.noise = NoiseKind::kShared;
            break;
        case HeadNoise::kSteps:
            format.noise = NoiseKind::kSteps;
            break;
        case HeadNoise::kAuto:
        case HeadNoise::kSharedSteps:
            format.noise = NoiseKind::kSharedSteps;
            break;
    }
    return format;
}

std::string precision_of(const HeadFormat& format) {
    if (format.dtype == DType::kU8)
        return fmt::format("e{}m{}", format.grid.exponent_bits, format.grid.mantissa_bits);
    if (!format.same_numbers(format.dtype)) return grid_name(format.grid);
    switch (format.dtype) {
        case DType::kF32:
            return "fp32";
        case DType::kBf16:
            return "bf16";
        case DType::kE4M3:
            return "fp8";
        case DType::kE3M4:
            return "e3m4";
        default:
            return std::string(name_of(format.dtype));
    }
}

HeadSpec plain_head(const HeadOptions& options, std::int64_t labels, std::int64_t width) {
    return {LabelLayout::range(0, labels), width, head_format(options)};
}

Head::Head(const HeadSpec& spec, Backend& backend)
    : layout_(spec.layout),
      width_(spec.width),
      format_(spec.format),
      extras_(spec.extras),
      is_part_(spec.is_part),
      in_host_(spec.in_host),
      backend_(backend),
      compensation_(layout_, width_, extras_.compensated_rows, backend) {
    const HeadFormat& format = format_;
    const std::int64_t width = width_;
    if (extras_.compensated_rows > 0 && format.dtype == DType::kF32 && !format.grid.used())
        throw ConfigError(fmt::format("a compensation needs weights of fewer bits than FP32, found {}",
                                      precision_of(format)));
    if ((labels() < 1 && !is_part_) || width < 1)
        throw ConfigError(
            fmt::format("a head needs labels and width of at least 1, found {} and {}", labels(), width));
    if (format.is_packed() && width % kCodeGroup != 0)
        throw ConfigError(fmt::format(
            "width: expected a multiple of {} with precision {}, whose weights share bytes, found {}; {} has "
            "the same weights at any width",
            kCodeGroup, precision_of(format), width, grid_name(format.grid)));
    if (extras_.renee) renee_ = std::make_unique<ReneeHead>(labels(), width, *extras_.renee, backend);
    pieces_ = {{0, {nullptr, format.dtype, labels(), format.stored_columns(width)}}};
}

void Head::set_chunks(std::int64_t chunks) {
    if (chunks < 1) throw ConfigError(fmt::format("a head needs chunks of at least 1, found {}", chunks));
    chunks_ = chunks;
}

void Head::set_layout(LabelLayout layout) {
    assert(compensation_.rows() == 0 && !renee_ && layout.rows() > 0);
    assert(pieces_.front().w.data == nullptr || layout.rows() <= pieces_.front().w.rows);
    layout_ = std::move(layout);
    if (pieces_.front().w.data == nullptr) pieces_.front().w.rows = labels();
}

void Head::allocate(Arena& arena, const Workload& workload, Arena* host) {
    Arena& large = in_host_ ? *host : arena;
    pieces_ = {{0, large.allocate("head/weights", format_.dtype, labels(), format_.stored_columns(width_))}};
    if (format_.grid.row_scaled)
        pieces_.front().exponents = row_exponents_ =
            arena.allocate("head/row_exponents", DType::kU8, labels(), 1);
    compensation_.allocate(arena, large);
    if (renee_) renee_->allocate(arena, workload.batch);
    mapped_.clear();
}

void Head::allocate_step(Arena& arena) {
    if (renee_) return renee_->allocate_step(arena);
    arena.end_phase("head");
}

void Head::initialise(std::uint64_t seed) {
    assert(layout_.is_range());
    if (labels() == 0) return;
    backend_.fill_normal({weights(),
                          0.02f,
                          {seed, 0, streams::kHeadInit},
                          {seed, 0, streams::kHeadInit + 1},
                          layout_.label(0),
                          format_.grid,
                          row_exponents()});
}

void Head::make_room(const HeadInput& in) {
    if (!format_.grid.row_scaled) return;
    // The scores of new weights are near 0, so every g is near one half in size, and no sum of g x over the
    // texts is larger than half that of |x|. Kept weights of a dropout are scaled.
    std::vector<double> sums(static_cast<std::size_t>(width_));
    const std::vector<float> x = host_floats(backend_, in.x_BD);
    for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += std::abs(x[i]);
    const auto update = static_cast<float>(*std::ranges::max_element(sums) * static_cast<double>(in.lr) *
                                           0.5 / (1 - static_cast<double>(extras_.weight_dropout)));
    if (!(update > kFirstReach)) return;
    const std::int64_t block = std::min<std::int64_t>(labels(), 1 << 14);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(block * format_.row_bytes(width_)));
    const std::vector<std::byte> exponents(
        static_cast<std::size_t>(block),
        std::byte{encode_row_exponent(row_exponent_for(format_.grid, update))});
    for (std::int64_t first = 0; first < labels(); first += block)
        upload_rows(first, std::min(block, labels() - first), zeros.data(), exponents.data());
}

HeadStepResult Head::step(const HeadInput& in) {
    assert(mapped_.empty() && layout_.is_range());
    if (renee_) {
        const ReneeStepResult done = renee_->step(weights(), in);
        HeadStepResult result;
        result.loss_sum = done.loss_sum;
        result.skipped = done.skipped;
        return result;
    }
    return step_rows(in, 0, labels());
}

HeadStepResult Head::step_rows(const HeadInput& in, std::int64_t first, std::int64_t last) {
    assert(!renee_ && first % 256 == 0 && first < last);
    const bool whole = first == 0 && last == labels();
    Positives positives = in.positives;
    if (!whole) {
        const Positives those = in.positives.of_rows(first, last);
        group_positives_.clear();
        for (std::size_t i = 0; i < those.rows.size(); ++i)
            group_positives_.push_back(those.rows[i] - first, those.samples[i]);
        positives = group_positives_;
        positives.weights = those.weights;
    }
    HeadStep op;
    op.x_BD = in.x_BD;
    op.w_LD = weights().slice(first, last);
    op.positives = positives;
    op.lr = in.lr;
    op.weight_decay = in.weight_decay;
    op.rounding = {in.seed, in.step, extras_.rounding_stream};
    // As large as a chunk of all rows, for which scratch is planned.
    op.num_chunks = whole ? chunks_ : (chunks_ * (last - first) + labels() - 1) / labels();
    op.dx_BD = in.dx_BD;
    op.want_loss = in.want_loss;
    op.report_to = in.report_to;
    op.first_label = layout_.label(0) + first;
    op.compensation_KD = compensation_.values();
    op.compensated_R2 = compensation_.marks();
    if (first > 0 && op.compensates())
        op.compensated_R2 = op.compensated_R2.slice(first / 32, op.compensated_R2.rows);
    op.weight_dropout = {extras_.weight_dropout, {in.seed, in.step, streams::kWeightDropout}};
    op.noise = format_.noise;
    op.grid = format_.grid;
    op.row_exponents_L1 = row_exponents();
    if (!op.row_exponents_L1.empty()) op.row_exponents_L1 = op.row_exponents_L1.slice(first, last);
    op.rescaling = {in.seed, in.step, streams::kHeadRescaling};
    op.in_host = in_host_;
    op.compensated_labels = compensation_.chosen();
    return backend_.head_step(op);
}

std::vector<TopK> Head::topk(View x_BD, std::int64_t k) const {
    if (labels() == 0) return std::vector<TopK>(static_cast<std::size_t>(x_BD.rows), TopK(k));
    const auto found_in = [&](const Piece& piece) {
        return backend_.head_topk({x_BD, piece.w, k, format_.grid, piece.exponents, in_host_});
    };
    const std::vector<Piece> pieces =
        mapped_.empty() ? std::vector<Piece>{{0, weights(), row_exponents()}} : pieces_;
    if (pieces.size() == 1 && layout_.starts_at_0()) return found_in(pieces.front());
    std::vector<TopK> best(static_cast<std::size_t>(x_BD.rows), TopK(k));
    for (const Piece& piece : pieces) {
        const std::vector<TopK> found = found_in(piece);
        for (std::size_t b = 0; b < best.size(); ++b)
            for (const ScoredLabel& scored : found[b].sorted())
                best[b].offer(scored.score, layout_.label(piece.first_row + scored.label));
    }
    return best;
}

}  // namespace elmo
