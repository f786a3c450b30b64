#include "engine/shared_step.h"

#include <algorithm>
#include <cstring>

#include "batches/batch_shards.h"
#include "model/tensor_transfer.h"

namespace elmo {
namespace {

// Elements of the gradients in one exchange, of all ranks' parts together, and exchanges that are on their
// way at a time: bound the memory of what is received. With two, one travels while another is added.
constexpr std::int64_t kPiece = std::int64_t{1} << 22;
constexpr std::int64_t kTravelling = 2;

std::int64_t places_of(ShareRange leaves) {
    return std::max<std::int64_t>(1, fold_leaves(leaves.first, leaves.last).places);
}

}  // namespace

std::uint64_t shard_seed(std::uint64_t seed, std::int64_t shard) {
    if (shard == 0) return seed;
    // SplitMix64 of the shard's number, from the seed.
    std::uint64_t z = seed + static_cast<std::uint64_t>(shard) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

SharedStep::SharedStep(const RankShare& share, const Sizes& sizes, Ranks& ranks, Backend& backend,
                       ViewExchange& exchange)
    : share_(share), sizes_(sizes), ranks_(ranks), backend_(backend), exchange_(exchange) {}

std::vector<SumNode> SharedStep::nodes_of(std::int64_t rank, bool groups) const {
    const ShareRange own = groups ? share_.own_groups(sizes_.labels, rank) : share_.own_shards(rank);
    return fold_leaves(own.first, own.last).nodes;
}

void SharedStep::allocate(Arena& arena, Encoder* encoder) {
    if (encoder == nullptr || !cuts_batch() || !sizes_.encoder_learns) return;
    sums_size_ = encoder->totals_size();
    sum_cuts_.clear();
    for (std::size_t g = 0; g < encoder->num_groups(); ++g) {
        sum_cuts_.emplace_back();
        for (int r = 0; r <= share_.ranks; ++r) sum_cuts_.back().push_back(encoder->totals_cut(g, r));
    }
    sums_KP_ =
        arena.allocate("encoder/gradient_sums", DType::kF32, places_of(share_.own_shards()), sums_size_);
    totals_.clear();
    std::int64_t own = 0;
    for (std::size_t g = 0; g < sum_cuts_.size(); ++g) own += own_sums(g).size();
    View accumulated;
    if (sizes_.accumulate > 1) accumulated = arena.allocate("encoder/accumulated", DType::kF32, 1, own);
    if (arena.dry()) return;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < sum_cuts_.size(); ++g) {
        const View sums = own_sums(g);
        totals_.push_back(sizes_.accumulate > 1 ? elements(accumulated, first, sums.size()) : sums);
        first += sums.size();
    }
    encoder->set_totals(totals_);
}

View SharedStep::group_of(View row, std::size_t group) const {
    const std::vector<std::int64_t>& cuts = sum_cuts_[group];
    return elements(row, cuts.front(), cuts.back() - cuts.front());
}

View SharedStep::own_sums(std::size_t group) const {
    const auto rank = static_cast<std::size_t>(share_.rank);
    const std::int64_t first = sum_cuts_[group][rank];
    return elements(sums_KP_.first(1), first, sum_cuts_[group][rank + 1] - first);
}

void SharedStep::allocate_vectors(Arena& arena) {
    if (cuts_batch()) x_BD_ = arena.allocate("step/text_vectors", DType::kBf16, sizes_.texts, sizes_.width);
}

void SharedStep::allocate_head(Arena& arena) {
    if (!sizes_.input_gradient) return;
    dx_KBD_ = arena.allocate("step/grad_embed_f32", DType::kF32,
                             places_of(share_.own_groups(sizes_.labels)) * sizes_.texts, sizes_.width);
    if (share_.is_alone()) return;
    std::int64_t parts = 0;
    for (std::int64_t r = 0; r < share_.ranks; ++r)
        parts += static_cast<std::int64_t>(nodes_of(r, true).size());
    received_dx_ =
        arena.allocate("exchange/grad_embed_f32", DType::kF32, parts * sizes_.rank_texts, sizes_.width);
}

void SharedStep::allocate_backward(Arena& arena) {
    if (share_.is_alone() || sums_size_ == 0) return;
    parts_ = 0;
    for (std::int64_t r = 0; r < share_.ranks; ++r)
        parts_ += static_cast<std::int64_t>(nodes_of(r, false).size());
    std::int64_t largest = 0;
    for (const std::vector<std::int64_t>& cuts : sum_cuts_)
        for (std::size_t r = 0; r + 1 < cuts.size(); ++r) largest = std::max(largest, cuts[r + 1] - cuts[r]);
    constexpr std::int64_t kAlign = Encoder::kTotalsAlign;
    piece_ = std::min((largest + kAlign - 1) / kAlign * kAlign,
                      std::max(kPiece / share_.ranks / kAlign, std::int64_t{1}) * kAlign);
    received_sums_ = arena.allocate("exchange/gradients", DType::kF32, kTravelling * parts_, piece_);
}

void SharedStep::cut(const TextBatch& batch) {
    cuts_ = cut_shards(batch.offsets, share_.shards);
    batch_ = batch.size();
    shards_.clear();
    const ShareRange own = share_.own_shards();
    for (std::int64_t m = own.first; m < own.last; ++m) {
        Shard shard;
        shard.number = m;
        shard.first = cuts_[static_cast<std::size_t>(m)];
        shard.last = cuts_[static_cast<std::size_t>(m) + 1];
        const std::int32_t begin = batch.offsets[static_cast<std::size_t>(shard.first)];
        for (std::int64_t t = shard.first; t <= shard.last; ++t)
            shard.offsets.push_back(batch.offsets[static_cast<std::size_t>(t)] - begin);
        shard.tokens = batch.tokens.subspan(static_cast<std::size_t>(begin),
                                            static_cast<std::size_t>(shard.offsets.back()));
        shards_.push_back(std::move(shard));
    }
}

ShareRange SharedStep::texts_of(std::int64_t rank) const {
    const ShareRange own = share_.own_shards(rank);
    return {cuts_[static_cast<std::size_t>(own.first)], cuts_[static_cast<std::size_t>(own.last)]};
}

std::int64_t SharedStep::own_texts() const {
    return texts_of(share_.rank).size();
}

View SharedStep::encode(Encoder& encoder, const TextBatch& batch, std::uint64_t seed, std::uint64_t step) {
    cut(batch);
    seed_ = seed;
    step_ = step;
    forwarded_ = shards_.size();
    // The first shard last: its backward comes first, and finds its activations.
    for (std::size_t i = shards_.size(); i-- > 0;) {
        const Shard& shard = shards_[i];
        if (shard.empty()) continue;
        const View x = encoder.forward(shard.texts(), true, shard_seed(seed, shard.number), step);
        backend_.cast(x_BD_.slice(shard.first, shard.last), x);
        forwarded_ = i;
    }
    std::vector<SentView> send;
    std::vector<ReceivedView> receive;
    const ShareRange mine = texts_of(share_.rank);
    for (int r = 0; r < share_.ranks; ++r) {
        if (r == share_.rank) continue;
        const ShareRange theirs = texts_of(r);
        if (mine.size() > 0) send.push_back({r, x_BD_.slice(mine.first, mine.last)});
        if (theirs.size() > 0) receive.push_back({r, x_BD_.slice(theirs.first, theirs.last)});
    }
    if (!share_.is_alone()) exchange_.exchange(send, receive);
    return x_BD_.first(batch_);
}

View SharedStep::dx_place(std::size_t place) const {
    if (!sizes_.input_gradient) return {};
    const std::int64_t first = static_cast<std::int64_t>(place) * sizes_.texts;
    return dx_KBD_.slice(first, first + batch_);
}

HeadStepResult SharedStep::step_head(Head& head, const HeadInput& in) {
    const ShareRange own = share_.own_groups(sizes_.labels);
    batch_ = in.x_BD.rows;
    groups_ = {};
    losses_.clear();
    HeadInput part = in;
    for (std::int64_t g = own.first; g < own.last; ++g) {
        const ShareRange labels = share_.group_labels(sizes_.labels, g);
        const std::int64_t first = labels.first - head.layout().label(0);
        part.dx_BD = dx_place(groups_.size());
        const HeadStepResult done = head.step_rows(part, first, first + labels.size());
        losses_.push_back(done.loss_sum);
        saturations_ += done.saturations;
        if (done.non_finite >= 0 && (non_finite_ < 0 || done.non_finite < non_finite_))
            non_finite_ = done.non_finite;
        groups_.push({g, g + 1}, [&](std::size_t i) {
            if (sizes_.input_gradient) backend_.add({dx_place(i), dx_place(i + 1)});
            losses_[i] += losses_[i + 1];
            losses_.pop_back();
        });
    }
    HeadStepResult result;
    result.non_finite = non_finite_;
    if (in.want_loss) exchange_losses(result);
    return result;
}

void SharedStep::exchange_losses(HeadStepResult& result) {
    // Losses of the rank's nodes, then two counts.
    std::vector<std::byte> mine(losses_.size() * sizeof(double) + 2 * sizeof(std::int64_t));
    std::memcpy(mine.data(), &saturations_, sizeof saturations_);
    std::memcpy(mine.data() + sizeof(std::int64_t), &non_finite_, sizeof non_finite_);
    std::memcpy(mine.data() + 2 * sizeof(std::int64_t), losses_.data(), losses_.size() * sizeof(double));
    SumFold fold;
    std::vector<double> sums;
    const auto add = [&](std::size_t i) {
        sums[i] += sums[i + 1];
        sums.pop_back();
    };
    result.non_finite = -1;
    const auto all = gather(ranks_, mine);
    for (std::size_t r = 0; r < all.size(); ++r) {
        std::int64_t counts[2];
        std::memcpy(counts, all[r].data(), sizeof counts);
        result.saturations += counts[0];
        if (counts[1] >= 0 && (result.non_finite < 0 || counts[1] < result.non_finite))
            result.non_finite = counts[1];
        const std::byte* at = all[r].data() + sizeof counts;
        for (const SumNode& node : nodes_of(static_cast<std::int64_t>(r), true)) {
            double loss;
            std::memcpy(&loss, at, sizeof loss);
            at += sizeof loss;
            sums.push_back(loss);
            fold.push(node, add);
        }
    }
    fold.finish(add);
    result.loss_sum = sums.empty() ? 0 : sums.front();
    saturations_ = 0;
    non_finite_ = -1;
}

void SharedStep::add_parts(std::span<const Part> parts) {
    SumFold fold;
    std::vector<View> places;
    const auto add = [&](std::size_t i) {
        backend_.add({places[i], places[i + 1]});
        places.pop_back();
    };
    for (const Part& part : parts) {
        places.push_back(part.view);
        fold.push(part.node, add);
    }
    fold.finish(add);
}

void SharedStep::reduce_dx(View to_BD) {
    if (share_.is_alone()) {
        groups_.finish([&](std::size_t i) { backend_.add({dx_place(i), dx_place(i + 1)}); });
        return backend_.cast(to_BD, dx_place(0));
    }
    const std::int64_t rows = own_texts();
    std::vector<SentView> send;
    std::vector<ReceivedView> receive;
    std::vector<Part> parts;
    for (int r = 0; r < share_.ranks; ++r) {
        const ShareRange theirs = texts_of(r);
        if (r != share_.rank && theirs.size() > 0)
            for (std::size_t i = 0; i < groups_.size(); ++i)
                send.push_back({r, dx_place(i).slice(theirs.first, theirs.last)});
        for (const SumNode& node : nodes_of(r, true)) {
            const std::int64_t first = static_cast<std::int64_t>(parts.size()) * rows;
            parts.push_back({node, received_dx_.slice(first, first + rows)});
            if (r != share_.rank && rows > 0) receive.push_back({r, parts.back().view});
        }
    }
    exchange_.exchange(send, receive);
    if (rows == 0) return;
    const ShareRange mine = texts_of(share_.rank);
    std::size_t place = 0;
    for (const Part& part : parts)  // the rank's own parts need no message
        if (const ShareRange own = share_.own_groups(sizes_.labels);
            part.node.first >= own.first && part.node.last <= own.last)
            backend_.cast(part.view, dx_place(place++).slice(mine.first, mine.last));
    add_parts(parts);
    backend_.cast(to_BD, parts.front().view);
}

View SharedStep::sum_place(std::size_t place) const {
    return sums_KP_.slice(static_cast<std::int64_t>(place), static_cast<std::int64_t>(place) + 1);
}

void SharedStep::backward(Encoder& encoder, View dx_BD, bool adds, const Encoder::GroupDone& summed) {
    try {
        go_back(encoder, dx_BD, adds, summed);
        while (!travelling_.empty()) receive_oldest(adds, summed);
        exchange_.finish_all();
    } catch (...) {
        exchange_.abandon();
        throw;
    }
}

void SharedStep::go_back(Encoder& encoder, View dx_BD, bool adds, const Encoder::GroupDone& summed) {
    SumFold fold;
    const std::int64_t first_text = texts_of(share_.rank).first;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        const Shard& shard = shards_[i];
        const SumNode node{shard.number, shard.number + 1};
        const auto take = [&](std::size_t group) {
            const auto add = [&](std::size_t k) {
                backend_.add({group_of(sum_place(k), group), group_of(sum_place(k + 1), group)});
            };
            encoder.copy_gradients(group, group_of(sum_place(fold.size()), group), shard.empty());
            SumFold with_this = fold;
            with_this.push(node, add);
            if (i + 1 < shards_.size()) return;
            if (!share_.is_alone()) return send_gradients(group, adds, summed);
            with_this.finish(add);
            complete(group, adds, summed);
        };
        if (!shard.empty()) {
            if (i != forwarded_) encoder.forward(shard.texts(), true, shard_seed(seed_, shard.number), step_);
            encoder.backward(shard.texts(), dx_BD.slice(shard.first - first_text, shard.last - first_text),
                             false, take);
        } else {
            for (std::size_t g = encoder.num_groups(); g-- > 0;) take(g);
        }
        fold.push(node, [](std::size_t) {});
    }
    if (shards_.empty())
        for (std::size_t g = encoder.num_groups(); g-- > 0;) send_gradients(g, adds, summed);
}

void SharedStep::complete(std::size_t group, bool adds, const Encoder::GroupDone& summed) {
    if (const View total = totals_[group]; sizes_.accumulate > 1 && total.size() > 0) {
        if (adds)
            backend_.add({total, own_sums(group)});
        else
            backend_.cast(total, own_sums(group));
    }
    summed(group);
}

View SharedStep::piece_of(const View& row, const Piece& piece, std::int64_t rank) const {
    const std::vector<std::int64_t>& cuts = sum_cuts_[piece.group];
    const std::int64_t first = cuts[static_cast<std::size_t>(rank)] + piece.begin;
    const std::int64_t left = cuts[static_cast<std::size_t>(rank) + 1] - first;
    return elements(row, left > 0 ? first : 0, std::clamp<std::int64_t>(left, 0, piece_));
}

void SharedStep::send_gradients(std::size_t group, bool adds, const Encoder::GroupDone& summed) {
    const std::vector<std::int64_t>& cuts = sum_cuts_[group];
    std::int64_t longest = 0;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r) longest = std::max(longest, cuts[r + 1] - cuts[r]);
    const std::size_t own_parts = nodes_of(share_.rank, false).size();
    for (std::int64_t begin = 0; begin < longest; begin += piece_) {
        if (static_cast<std::int64_t>(travelling_.size()) == kTravelling) receive_oldest(adds, summed);
        Piece piece{group, begin, 0, {}, begin + piece_ >= longest};
        const std::int64_t mine = piece_of(sum_place(0), piece, share_.rank).size();
        std::int64_t row = pieces_sent_++ % kTravelling * parts_;
        std::vector<SentView> send;
        std::vector<ReceivedView> receive;
        for (int r = 0; r < share_.ranks; ++r) {
            if (r != share_.rank)
                for (std::size_t k = 0; k < own_parts; ++k)
                    if (const View theirs = piece_of(sum_place(k), piece, r); theirs.size() > 0)
                        send.push_back({r, theirs});
            for (const SumNode& node : nodes_of(r, false)) {
                piece.parts.push_back({node, elements(received_sums_.slice(row, row + 1), 0, mine)});
                ++row;
                if (r != share_.rank && mine > 0) receive.push_back({r, piece.parts.back().view});
            }
        }
        piece.number = exchange_.start(send, receive);
        travelling_.push_back(std::move(piece));
    }
}

// The rank's own parts need no message. The sum of a piece is where the rank's first part was.
void SharedStep::receive_oldest(bool adds, const Encoder::GroupDone& summed) {
    const Piece piece = std::move(travelling_.front());
    travelling_.pop_front();
    exchange_.finish(piece.number);
    if (const View sum = piece_of(sum_place(0), piece, share_.rank); sum.size() > 0) {
        std::size_t place = 0;
        const ShareRange leaves = share_.own_shards();
        for (const Part& part : piece.parts)
            if (part.node.first >= leaves.first && part.node.last <= leaves.last)
                backend_.cast(part.view, piece_of(sum_place(place++), piece, share_.rank));
        add_parts(piece.parts);
        backend_.cast(sum, piece.parts.front().view);
    }
    if (piece.is_last) complete(piece.group, adds, summed);
}

void SharedStep::spread_weights(const Encoder& encoder, std::size_t group) {
    if (share_.is_alone()) return;
    std::vector<SentView> send;
    std::vector<ReceivedView> receive;
    for (const View& part : encoder.weights_of(group, static_cast<int>(share_.rank)))
        for (int r = 0; r < share_.ranks; ++r)
            if (r != share_.rank) send.push_back({r, part});
    for (int r = 0; r < share_.ranks; ++r)
        if (r != share_.rank)
            for (const View& part : encoder.weights_of(group, r)) receive.push_back({r, part});
    exchange_.start(send, receive);
}

}  // namespace elmo
