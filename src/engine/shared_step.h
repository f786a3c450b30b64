// A step whose labels are in several groups or whose batch has several shards, on one rank or on many: what a
// rank computes by itself, what the ranks exchange, and in which order the parts are added
// (docs/numerics.md). x is gathered, dx and the encoder's gradients are exchanged as parts and added by the
// one tree. Each rank has the optimiser state of a part of every group of parameters (a layer, the
// embeddings), adds the gradients of that part, updates it and gives the new weights to all, so every rank
// has the same encoder after each step. The gradients of a group, and then its weights, travel while the
// backward goes on with the groups before it.
//
// A rank with several shards keeps the activations of one: it encodes all of them for x, and each again just
// before its backward.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/view_exchange.h"
#include "memory/arena.h"
#include "model/encoder/encoder.h"
#include "model/head/head.h"
#include "ranks/rank_share.h"
#include "ranks/sum_tree.h"

namespace elmo {

// The seed of a shard's dropout: its texts and tokens are counted from its own beginning.
std::uint64_t shard_seed(std::uint64_t seed, std::int64_t shard);

class SharedStep {
  public:
    struct Sizes {
        std::int64_t labels = 0;      // of the run
        std::int64_t width = 0;       // of a text vector
        std::int64_t texts = 0;       // of the largest batch
        std::int64_t rank_texts = 0;  // of the shards of a rank, at most
        bool input_gradient = true;   // the head's step gives dx
        bool encoder_learns = true;
        std::int64_t accumulate = 1;
    };
    SharedStep(const RankShare& share, const Sizes& sizes, Ranks& ranks, Backend& backend,
               ViewExchange& exchange);

    // Whether the batch is cut (or shared) too, not only the labels.
    bool cuts_batch() const { return share_.shards > 1 || share_.ranks > 1; }

    // Plans or takes: what lives as long as the encoder's weights; what lives from the forward to the head;
    // and, in scopes of the head and of the backward, what only these need.
    void allocate(Arena& arena, Encoder* encoder);
    void allocate_vectors(Arena& arena);
    void allocate_head(Arena& arena);
    void allocate_backward(Arena& arena);

    // The vectors of the whole batch, in its order.
    View encode(Encoder& encoder, const TextBatch& batch, std::uint64_t seed, std::uint64_t step);
    // One step of the rank's groups; loss, saturations and the first NaN are those of all ranks where the
    // loss is wanted.
    HeadStepResult step_head(Head& head, const HeadInput& in);
    // The rank's rows of dx, complete, into `to_BD` (rows of its own texts).
    void reduce_dx(View to_BD);
    // Texts of this rank in the batch that was encoded.
    std::int64_t own_texts() const;
    // The gradients of the whole batch in the encoder's totals: the rank's part of them. dx_BD: of its texts.
    // `summed` is called for each group, in the same order on all ranks, once its totals are there and its
    // weights are not read any more. Afterwards all that travels has arrived.
    void backward(Encoder& encoder, View dx_BD, bool adds, const Encoder::GroupDone& summed);
    // For `summed`, after the update of a group: what each rank has updated goes to all others.
    void spread_weights(const Encoder& encoder, std::size_t group);

  private:
    // Texts [first, last) of the batch, as a batch.
    struct Shard {
        std::int64_t number = 0, first = 0, last = 0;
        std::vector<std::int32_t> offsets;
        std::span<const std::int32_t> tokens;
        TextBatch texts() const { return {tokens, offsets}; }
        bool empty() const { return first == last; }
    };
    struct Part {
        SumNode node;
        View view;
    };
    void cut(const TextBatch& batch);
    ShareRange texts_of(std::int64_t rank) const;
    std::vector<SumNode> nodes_of(std::int64_t rank, bool groups) const;
    View dx_place(std::size_t place) const;
    View sum_place(std::size_t place) const;
    // Adds the parts, which cover all leaves in order; the sum is where the first part was.
    void add_parts(std::span<const Part> parts);
    void go_back(Encoder& encoder, View dx_BD, bool adds, const Encoder::GroupDone& summed);
    // A group's elements of such a row of sums, and the rank's own of them in place 0.
    View group_of(View row, std::size_t group) const;
    View own_sums(std::size_t group) const;
    // A piece of the gradients of a group: from `begin` on in each rank's part of it.
    struct Piece {
        std::size_t group = 0;
        std::int64_t begin = 0;
        std::int64_t number = 0;  // its exchange
        std::vector<Part> parts;  // where the parts of the rank's own sums come
        bool is_last = false;     // of its group
    };
    View piece_of(const View& row, const Piece& piece, std::int64_t rank) const;
    // Lets a group's gradients travel, once older pieces have left the memory for what comes.
    void send_gradients(std::size_t group, bool adds, const Encoder::GroupDone& summed);
    void receive_oldest(bool adds, const Encoder::GroupDone& summed);
    // The rank's part of a group is complete in place 0.
    void complete(std::size_t group, bool adds, const Encoder::GroupDone& summed);
    void exchange_losses(HeadStepResult& result);

    RankShare share_;
    Sizes sizes_;
    Ranks& ranks_;
    Backend& backend_;
    ViewExchange& exchange_;

    View x_BD_, dx_KBD_, received_dx_, sums_KP_, received_sums_;
    std::vector<View> totals_;  // by group: where the rank's sums of several steps are added
    std::int64_t sums_size_ = 0;
    // By group: where each rank's part of the sums begins, and the end.
    std::vector<std::vector<std::int64_t>> sum_cuts_;
    std::int64_t piece_ = 0;        // elements of each part that are exchanged at a time
    std::int64_t parts_ = 0;        // of a sum, on all ranks
    std::int64_t pieces_sent_ = 0;  // chooses the memory for what comes
    std::deque<Piece> travelling_;  // the oldest first

    // Of the running step.
    std::vector<std::int64_t> cuts_;
    std::vector<Shard> shards_;
    std::size_t forwarded_ = 0;  // the shard whose activations are there
    std::int64_t batch_ = 0;
    std::uint64_t seed_ = 0, step_ = 0;
    SumFold groups_;
    std::vector<double> losses_;
    std::int64_t saturations_ = 0;  // not yet reported
    std::int64_t non_finite_ = -1;
};

}  // namespace elmo
