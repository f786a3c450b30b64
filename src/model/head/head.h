// The classifier head: W [L, D] in one of the storage formats, its step, its top-k and its files.
//
// Files: head-00001-of-000NN.safetensors, each with one tensor "weight", rows [first_row, ...) of W; the
// metadata has the first row, and the grid if the weights are on one or are its codes; "row_exponents" is
// beside it if rows have exponents. Codes of fewer than 8 bits are packed (numerics/packed_codes.h): rows are
// then bytes. In training W is in the arena; in prediction the pieces of W are the mapped files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/views.h"
#include "formats/safetensors.h"
#include "model/head/head_compensation.h"
#include "model/head/head_input.h"
#include "model/head/renee_head.h"
#include "model/streams.h"
#include "ranks/collectives.h"
#include "tensor/label_layout.h"

namespace elmo {

struct Shard;

// How the weights are stored and rounded.
struct HeadFormat {
    DType dtype = DType::kBf16;
    WeightGrid grid;  // that BF16 or F32 weights lie on, or whose codes are U8; unused: the dtype's numbers
    NoiseKind noise = NoiseKind::kIndependent;

    HeadFormat(DType stored = DType::kBf16) : dtype(stored) {}  // NOLINT: a dtype is a format
    bool is_packed() const { return dtype == DType::kU8 && grid.bits() < 8; }
    // Elements of the dtype that a row of weights takes.
    std::int64_t stored_columns(std::int64_t width) const {
        return is_packed() ? grid.packed_bytes(width) : width;
    }
    std::int64_t row_bytes(std::int64_t width) const { return stored_columns(width) * size_of(dtype); }
    // The same numbers, however they are rounded.
    bool same_numbers(const HeadFormat& other) const;
};

// ConfigError if the options contradict each other.
HeadFormat head_format(const HeadOptions& options);
// "fp32", "bf16", "fp8", "e3m4", "e2m5", "e2m3", "e2m1", "exmy:..." and back; "renee" is FP32 too;
// ConfigError for another name.
HeadFormat head_format(const std::string& precision);
std::string precision_of(const HeadFormat& format);

// Further modes of a head's training: see HeadStep.
struct HeadExtras {
    std::int64_t compensated_rows = 0;
    float weight_dropout = 0;
    std::uint32_t rounding_stream = streams::kHeadRounding;
    std::optional<ReneeStart> renee;  // the step is the baseline's (model/head/renee_head.h)
};

// A head without its memory.
struct HeadSpec {
    LabelLayout layout;
    std::int64_t width = 0;
    HeadFormat format;
    HeadExtras extras = {};
    bool in_files = false;  // prediction: W stays in its mapped files, if the backend can read them there
    bool is_part = false;   // of the run's labels, even if the first of them; it may be empty
    bool in_host = false;   // W and its compensation are in the host's memory, beside a device's

    std::int64_t bytes() const { return layout.rows() * format.row_bytes(width); }
};
// Of all labels, in the format that the options say.
HeadSpec plain_head(const HeadOptions& options, std::int64_t labels, std::int64_t width);
// The head of a checkpoint, to be used from its files. DataError as Head::map.
HeadSpec stored_head(const InputFolder& folder);

class Head {
  public:
    static constexpr std::int64_t kShardBytes = std::int64_t{2} << 30;

    // ConfigError if the format cannot hold rows of this width.
    Head(const HeadSpec& spec, Backend& backend);
    // For prediction: W stays in the mapped files, nothing is copied. DataError names the file and the
    // problem: a missing shard, rows that are not contiguous, a wrong dtype or width.
    static Head map(const InputFolder& folder, Backend& backend);

    const LabelLayout& layout() const { return layout_; }
    std::int64_t labels() const { return layout_.rows(); }  // in memory
    std::int64_t width() const { return width_; }
    DType dtype() const { return format_.dtype; }
    const HeadFormat& format() const { return format_; }
    // W as the arena holds it; empty when mapped.
    View weights() const { return mapped_.empty() ? pieces_.front().w.first(labels()) : View{}; }
    // u8 [labels, 1] where the format has an exponent per row, else empty.
    View row_exponents() const { return row_exponents_.empty() ? View{} : row_exponents_.first(labels()); }
    HeadCompensation& compensation() { return compensation_; }
    const HeadCompensation& compensation() const { return compensation_; }
    // What the baseline keeps beside W, or null for other precisions.
    ReneeHead* renee() const { return renee_.get(); }

    // Label chunks of a step; results do not depend on them. Before memory is planned.
    void set_chunks(std::int64_t chunks);
    // Other labels in the same memory: before memory is taken, or at most as many as then. load or assign
    // sets their weights. Not with a compensation or the baseline, whose state belongs to the previous
    // labels.
    void set_layout(LabelLayout layout);

    // Plans or takes W, the compensation and what else lives as long as W (of a head in the host's memory,
    // the first two from `host`); then, in a scope of the arena, the phases of the head's step and what lives
    // only in them.
    void allocate(Arena& arena, const Workload& workload, Arena* host = nullptr);
    void allocate_step(Arena& arena);
    // N(0, 0.02) by addressed noise, stochastically rounded to the format.
    void initialise(std::uint64_t seed);
    // Before the first step of such weights, which `in` is. Where rows have exponents and its update can be
    // beyond kFirstReach, rows begin at zero, with an exponent that reaches it: clipped, the update would be
    // another one, and on so coarse a grid initial weights would be mostly noise of their rounding. Blocks
    // for x.
    void make_room(const HeadInput& in);

    // One fused step over all labels: see HeadStep, or ReneeStep for the baseline.
    HeadStepResult step(const HeadInput& in);
    // The same over the rows [first, last): a label group, which begins at a multiple of 256 rows. in.dx_BD
    // is set to their part of the gradient.
    HeadStepResult step_rows(const HeadInput& in, std::int64_t first, std::int64_t last);
    // The k best labels of each row of x; k may exceed the number of labels.
    std::vector<TopK> topk(View x_BD, std::int64_t k) const;

    void save(const std::filesystem::path& folder, std::int64_t shard_bytes = kShardBytes) const;
    // The same files of a head whose rows lie on all ranks, in their order: a collective, in which the first
    // rank writes, and the others (folder: null) send.
    void save_shared(const std::filesystem::path* folder, Ranks& ranks,
                     std::int64_t shard_bytes = kShardBytes) const;
    // Into the arena: row r becomes row layout().label(r) of the stored head, and only these are read. A head
    // of labels from 0 must have all stored labels, unless it is a part. Width and format must be this
    // head's.
    void load(const InputFolder& folder);
    // The same from files that are open (model/head/head_shards.h): for callers that load rows again and
    // again.
    void load(const std::vector<Shard>& shards, const InputFolder& folder);
    // Rows from first_row on, from floats, rounded to nearest.
    void assign(std::span<const float> values_RD, std::int64_t first_row = 0);

  private:
    // Rows [first, first + count) from the host; `exponents` where the format has them.
    void upload_rows(std::int64_t first, std::int64_t count, const std::byte* weights,
                     const std::byte* exponents);

    // Rows [first_row, first_row + w.rows) of W.
    struct Piece {
        std::int64_t first_row = 0;
        View w;
        View exponents = {};  // of the rows, where the format has them
    };

    LabelLayout layout_;
    std::int64_t width_;
    HeadFormat format_;
    HeadExtras extras_;
    bool is_part_ = false, in_host_ = false;
    std::int64_t chunks_ = 1;
    PositiveList group_positives_;  // scratch of step_rows
    Backend& backend_;
    HeadCompensation compensation_;
    std::unique_ptr<ReneeHead> renee_;
    std::vector<Piece> pieces_;        // one in the arena; one per shard when mapped
    View row_exponents_;               // in the arena
    std::vector<SafeTensors> mapped_;  // what the pieces point into
};

// Rows of a stored head as floats, one after another. `rows` ascend. DataError as Head::map.
std::vector<float> read_head_rows(const InputFolder& folder, std::span<const std::int64_t> rows);

// Writes to `to` a head of the rows `kept` (ascending) of the one in `from`, bit for bit, followed by those
// of `added` (empty, or of the same format and width; in the backend's memory) with their exponents where the
// format has them.
void rewrite_head(const InputFolder& from, std::span<const std::int64_t> kept, Backend& backend, View added,
                  View added_exponents, const std::filesystem::path& to,
                  std::int64_t shard_bytes = Head::kShardBytes);

// Writes a head from rows in order: rows_from(i) gives row i followed by as many complete rows as are
// available.
void write_head(const std::filesystem::path& folder, DType dtype, std::int64_t labels, std::int64_t width,
                const std::function<std::span<const std::byte>(std::int64_t row)>& rows_from,
                std::int64_t shard_bytes = Head::kShardBytes);

}  // namespace elmo
