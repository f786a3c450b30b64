#include "model/encoder/encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/error.h"
#include "model/encoder/bag_encoder.h"
#include "model/encoder/bert_encoder.h"
#include "model/streams.h"
#include "model/tensor_transfer.h"

namespace elmo {
namespace {

View take_like(Arena& arena, const char* kind, const Parameter& p, DType dtype, bool own = false) {
    return arena.allocate(fmt::format("encoder/{}/{}", kind, p.name), dtype, own ? p.own.size() : p.w.rows,
                          p.w.cols);
}

}  // namespace

std::unique_ptr<Encoder> make_encoder(const EncoderSpec& spec, Backend& backend) {
    if (spec.is_bag()) return std::make_unique<BagEncoder>(spec, backend);
    return std::make_unique<BertEncoder>(spec, backend);
}

std::size_t Encoder::add_matrix(std::string name, std::int64_t rows, std::int64_t cols, float sigma) {
    Parameter p;
    p.name = name;
    p.w = {nullptr, spec_.dtype, rows, cols};
    p.sigma = sigma;
    p.stored = {{std::move(name), {rows, cols}}};
    parameters_.push_back(std::move(p));
    return parameters_.size() - 1;
}

std::size_t Encoder::add_vector(std::string name, std::int64_t cols, float constant) {
    Parameter p;
    p.name = name;
    p.w = {nullptr, spec_.dtype, 1, cols};
    p.constant = constant;
    p.decays = false;
    p.stored = {{std::move(name), {cols}}};
    parameters_.push_back(std::move(p));
    return parameters_.size() - 1;
}

void Encoder::end_group() {
    group_ends_.push_back(parameters_.size());
}

void Encoder::describe_workload(Workload& workload) const {
    workload.width = spec_.width;
    workload.vocab = spec_.vocab;
    workload.heads = spec_.family == "bag" ? 0 : spec_.heads;
    workload.encoder_dtype = spec_.dtype;
    if (spec_.window > 0) workload.longest = std::min(workload.longest, spec_.window);
    describe_layers(workload);
    workload.fp8_products = keeps_codes(workload);
    workload.fp16_products = spec_.fp16 && keeps(workload);
}

void Encoder::set_recompute(std::vector<Recompute> layers) {
    if (static_cast<std::int64_t>(layers.size()) != spec_.layers)
        throw Error(
            fmt::format("encoder: recompute for {} layers, expected {}", layers.size(), spec_.layers));
    recompute_ = std::move(layers);
    if (!recompute_.empty()) recompute_.back() = std::min(recompute_.back(), Recompute::kCheap);
}

void Encoder::allocate(Arena& arena, const Workload& workload) {
    planned_batch_ = workload.batch;
    planned_tokens_ = workload.tokens;
    const auto take = [&](const char* kind, const Parameter& p, DType dtype) {
        return take_like(arena, kind, p, dtype);
    };
    for (Parameter& p : parameters_) p.w = take("weights", p, spec_.dtype);
    if (keeps(workload)) {
        if (!spec_.consume_gradients)
            for (Parameter& p : parameters_) p.grad = take("gradients", p, spec_.grad_dtype());
        for (std::size_t i = 0; i < parameters_.size(); ++i)
            parameters_[i].own = {first_row_of(i, rank_), first_row_of(i, rank_ + 1)};
        const DType dtype = spec_.has_bytes() ? DType::kU8 : spec_.dtype;
        const auto take_own = [&](const char* kind, const Parameter& p) {
            return take_like(arena, kind, p, dtype, true);
        };
        for (Parameter& p : parameters_) p.m = take_own("first_moments", p);
        for (Parameter& p : parameters_) p.v = take_own("second_moments", p);
        if (spec_.has_compensation())
            for (Parameter& p : parameters_) p.c = take_own("compensation", p);
        if (spec_.has_bytes())
            for (Parameter& p : parameters_)
                p.exponents = arena.allocate(fmt::format("encoder/moment_exponents/{}", p.name), dtype,
                                             p.own.size(), 2 * moment_blocks(p.w.cols));
    }
    if (keeps_codes(workload))
        fp8_amax_P3_ =
            arena.allocate("encoder/fp8_amax", DType::kF32, static_cast<std::int64_t>(parameters_.size()), 3);
}

void Encoder::allocate_backward(Arena& arena, const Workload& workload) {
    if (!keeps(workload)) return;
    allocate_backward_buffers(arena, workload);
    if (!spec_.consume_gradients) return;
    std::size_t i = 0;
    for (const std::size_t end : group_ends_) {
        const Arena::Scope over_one_another(arena,
                                            i == 0 ? dead_for_group_0_.value_or(arena.mark()) : arena.mark());
        for (; i < end; ++i)
            parameters_[i].grad = take_like(arena, "gradients", parameters_[i], spec_.grad_dtype());
    }
}

namespace {

std::int64_t aligned(std::int64_t elements) {
    return (elements + Encoder::kTotalsAlign - 1) / Encoder::kTotalsAlign * Encoder::kTotalsAlign;
}

}  // namespace

std::int64_t Encoder::totals_size() const {
    std::int64_t size = 0;
    for (const Parameter& p : parameters_) size += aligned(p.w.size());
    return size;
}

void Encoder::share_state(int rank, int ranks) {
    rank_ = rank;
    ranks_ = ranks;
    elements_before_.clear();
    group_elements_.clear();
    for (std::size_t g = 0; g < num_groups(); ++g) {
        std::int64_t elements = 0;
        for (const Parameter& p : group(g)) {
            elements_before_.push_back(elements);
            elements += p.w.size();
        }
        group_elements_.insert(group_elements_.end(), group(g).size(), elements);
    }
}

// The weights of each group are divided evenly, then cut at whole rows, and where rows begin at odd places at
// whole tensors.
std::int64_t Encoder::first_row_of(std::size_t parameter, int rank) const {
    const View& w = parameters_[parameter].w;
    if (ranks_ == 1) return rank == 0 ? 0 : w.rows;
    const std::int64_t unit = w.cols % 8 == 0 ? w.cols : w.size();
    const std::int64_t earlier =
        RankShare::part(group_elements_[parameter], rank, ranks_).first - elements_before_[parameter];
    return std::clamp<std::int64_t>((earlier + unit - 1) / unit, 0, w.size() / unit) * unit / w.cols;
}

std::int64_t Encoder::totals_cut(std::size_t group, int rank) const {
    std::int64_t cut = 0;
    for (std::size_t i = 0; i < group_ends_[group]; ++i) {
        const View& w = parameters_[i].w;
        const std::int64_t row = i < group_first(group) ? w.rows : first_row_of(i, rank);
        cut += row == w.rows ? aligned(w.size()) : row * w.cols;
    }
    return cut;
}

std::vector<View> Encoder::weights_of(std::size_t group, int rank) const {
    std::vector<View> parts;
    for (std::size_t i = group_first(group); i < group_ends_[group]; ++i) {
        const View rows = parameters_[i].w.slice(first_row_of(i, rank), first_row_of(i, rank + 1));
        if (rows.size() == 0) continue;
        const View bytes{rows.data, DType::kU8, 1, rows.bytes()};
        // Tensors follow one another in the arena, at its alignment; what is between them is the same on all
        // ranks.
        View* const last = parts.empty() ? nullptr : &parts.back();
        const std::int64_t gap =
            last == nullptr ? 0
                            : static_cast<char*>(bytes.data) - (static_cast<char*>(last->data) + last->cols);
        if (last != nullptr && gap >= 0 && gap < Arena::kAlignment)
            last->cols += gap + bytes.cols;
        else
            parts.push_back(bytes);
    }
    return parts;
}

void Encoder::set_totals(std::span<const View> of_groups) {
    for (std::size_t g = 0; g < num_groups(); ++g) {
        std::int64_t first = 0;
        for (std::size_t i = group_first(g); i < group_ends_[g]; ++i) {
            Parameter& p = parameters_[i];
            const std::int64_t size = p.own.size() * p.w.cols;
            p.total = elements(of_groups[g], size == 0 ? 0 : first, size);
            p.total.rows = p.own.size();
            p.total.cols = p.w.cols;
            first += p.own.last == p.w.rows && size > 0 ? aligned(p.w.size()) - p.own.first * p.w.cols : size;
        }
    }
}

void Encoder::copy_gradients(std::size_t group, View to_1P, bool zeros) const {
    if (zeros) return backend_.fill_zero(to_1P);
    std::int64_t first = 0;
    for (const Parameter& p : this->group(group)) {
        const View to = elements(to_1P, first, p.w.size());
        backend_.cast({to.data, to.dtype, p.grad.rows, p.grad.cols}, p.grad);
        first += aligned(p.w.size());
    }
}

void Encoder::initialise(std::uint64_t seed) {
    if (!spec_.weights_folder.empty()) return load_weights(spec_.weights_folder);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const Parameter& p = parameters_[i];
        const auto stream = streams::kEncoderInit + 2 * static_cast<std::uint32_t>(i);
        if (p.sigma > 0) {
            backend_.fill_normal({p.w, p.sigma, {seed, 0, stream}, {seed, 0, stream + 1}, 0});
        } else {
            upload_constant(backend_, p.w, p.constant);
        }
    }
}

View Encoder::forward(const TextBatch& batch, bool training, std::uint64_t seed, std::uint64_t step) {
    check(batch);
    seed_ = seed;
    step_ = step;
    fp8_step_ = training && !fp8_amax_P3_.empty();
    fp16_step_ = training && spec_.fp16;
    find_windows(batch);
    text_offsets_ = batch.offsets;
    const TextBatch windows = windows_of(batch);
    backend_.begin_batch(windows.tokens, windows.offsets);
    return run_forward(windows, training);
}

void Encoder::find_windows(const TextBatch& batch) {
    window_offsets_.clear();
    const std::int64_t window = spec_.window;
    const auto is_long = [&](std::int64_t b) { return batch.offsets[b + 1] - batch.offsets[b] > window; };
    std::int64_t first = 0;
    while (window > 0 && first < batch.size() && !is_long(first)) ++first;
    if (window == 0 || first == batch.size()) return;
    window_offsets_.push_back(0);
    for (std::int64_t b = 0; b < batch.size(); ++b) {
        const std::int64_t end = batch.offsets[b + 1];
        std::int64_t at = batch.offsets[b];
        do {
            at = std::min(at + window, end);
            window_offsets_.push_back(static_cast<std::int32_t>(at));
        } while (at < end);
    }
}

void Encoder::check_gradient(const TextBatch& batch, View dpooled_BD) const {
    if (parameters_.front().grad.empty())
        throw Error("encoder: backward without gradients: it was allocated for prediction, or is frozen");
    if (dpooled_BD.rows != batch.size() || dpooled_BD.cols != spec_.width)
        throw Error(fmt::format("encoder: the gradient of the pooled vectors is [{}, {}], expected [{}, {}]",
                                dpooled_BD.rows, dpooled_BD.cols, batch.size(), spec_.width));
}

void Encoder::backward(const TextBatch& batch, View dpooled_BD, bool accumulate, const GroupDone& done) {
    if (spec_.consume_gradients)
        throw Error("encoder: gradients are consumed as they appear: backward_and_update is for that");
    check_gradient(batch, dpooled_BD);
    run_backward(windows_of(batch), dpooled_BD, accumulate, [&](std::size_t index) {
        if (done) done(index);
    });
}

bool Encoder::finish_fp16_gradients() {
    for (const Parameter& p : parameters_)
        if (p.of_linear) backend_.round_fp16(p.grad);
    // They follow one another in the arena, and what is between them is zero: one look at all.
    const View &first = parameters_.front().grad, &last = parameters_.back().grad;
    const auto elements = last.as<float>() + last.size() - first.as<float>();
    return !backend_.has_non_finite({first.data, DType::kF32, 1, elements});
}

void Encoder::update(const AdamWSettings& settings) {
    update_range(0, parameters_.size(), settings);
}

void Encoder::update_group(std::size_t group, const AdamWSettings& settings) {
    update_range(group_first(group), group_ends_[group], settings);
}

void Encoder::backward_and_update(const TextBatch& batch, View dpooled_BD, const AdamWSettings& settings,
                                  const GradientCheck& check) {
    check_gradient(batch, dpooled_BD);
    run_backward(windows_of(batch), dpooled_BD, false, [&](std::size_t index) {
        if (check)
            for (const Parameter& p : group(index)) check(p);
        update_group(index, settings);
    });
}

void Encoder::update_range(std::size_t first, std::size_t last, const AdamWSettings& s) {
    std::vector<AdamWUpdate> ops;
    ops.reserve(last - first);
    for (std::size_t i = first; i < last; ++i) {
        const Parameter& p = parameters_[i];
        const auto stream = streams::kEncoderUpdate + 2 * static_cast<std::uint32_t>(i);
        AdamWUpdate op;
        op.w = p.w.slice(p.own.first, p.own.last);
        op.grad = p.gradient();
        op.m = p.m;
        op.v = p.v;
        op.c = p.c;
        op.exponents = p.exponents;
        op.lr = s.lr;
        op.beta1 = s.beta1;
        op.beta2 = s.beta2;
        op.epsilon = s.epsilon;
        op.weight_decay = p.decays ? s.weight_decay : 0.0f;
        op.grad_scale = s.grad_scale;
        op.t = s.t;
        op.key = {s.seed, static_cast<std::uint64_t>(s.t), stream};
        op.first_row = p.own.first;
        if (op.w.size() > 0) ops.push_back(op);
    }
    backend_.adamw(ops);
}

Dropout Encoder::dropout(float p, std::uint32_t stream, bool training) const {
    return {training ? p : 0.0f, {seed_, step_, stream}};
}

Dropout Encoder::pooled_dropout(std::uint64_t seed, std::uint64_t step) const {
    return {spec_.pooled_dropout, {seed, step, streams::kPooledDropout}};
}

void Encoder::check(const TextBatch& batch) const {
    if (batch.offsets.empty() || batch.offsets.front() != 0 || batch.offsets.back() != batch.num_tokens())
        throw Error("encoder: the offsets of a batch must run from 0 to its number of tokens");
    if (batch.size() > planned_batch_ || batch.num_tokens() > planned_tokens_)
        throw Error(
            fmt::format("encoder: a batch of {} texts and {} tokens, but memory was planned for {} and {}",
                        batch.size(), batch.num_tokens(), planned_batch_, planned_tokens_));
    const std::int64_t longest = spec_.longest_text();
    for (std::int64_t b = 0; b < batch.size(); ++b) {
        const std::int64_t length = std::int64_t{batch.offsets[b + 1]} - batch.offsets[b];
        if (length < 0) throw Error("encoder: the offsets of a batch must not descend");
        if (longest > 0 && length > longest && spec_.window == 0)
            throw DataError(
                fmt::format("text {} of the batch has {} tokens, but the encoder has positions for {}: "
                            "set max_length to {} or less",
                            b, length, longest, longest));
    }
    for (const std::int32_t token : batch.tokens)
        if (token < 0 || token >= spec_.vocab)
            throw DataError(
                fmt::format("token id {} is outside the encoder's vocabulary of {}: the texts were tokenized "
                            "with another tokenizer",
                            token, spec_.vocab));
}

}  // namespace elmo
