#include "rank/shared_ranking.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "elmo/error.h"
#include "ranks/collectives.h"

namespace elmo {
namespace {

// Numbers and arrays one after another.
class Message {
  public:
    Message() = default;
    explicit Message(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
    std::vector<std::byte>& bytes() { return bytes_; }

    template <class T>
    void put(std::span<const T> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        append(&count, sizeof count);
        append(values.data(), values.size_bytes());
    }
    template <class T>
    std::vector<T> take() {
        std::int64_t count = 0;
        copy(&count, sizeof count);
        std::vector<T> values(static_cast<std::size_t>(count));
        copy(values.data(), values.size() * sizeof(T));
        return values;
    }

  private:
    void append(const void* from, std::size_t count) {
        const auto* bytes = static_cast<const std::byte*>(from);
        bytes_.insert(bytes_.end(), bytes, bytes + count);
    }
    void copy(void* to, std::size_t count) {
        if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
        at_ += count;
    }

    std::vector<std::byte> bytes_;
    std::size_t at_ = 0;
};

// Ranking adds nothing over labels: they are cut at every tile.
RankShare ranking_share(const Ranks& ranks) {
    return {ranks.rank(), ranks.size(), std::numeric_limits<std::int64_t>::max(), 1};
}

std::unique_ptr<Engine> make_engine(const Context& context, const EngineOptions& options,
                                    const Checkpoint& checkpoint, const EncoderSpec& encoder,
                                    const std::vector<std::int64_t>& gathered, RunShape shape) {
    shape.share = ranking_share(ranks_of(context));
    HeadSpec head = stored_head(checkpoint.content());
    const auto all = gathered.empty() ? head.layout.rows() : static_cast<std::int64_t>(gathered.size());
    const ShareRange own = shape.share.own_labels(all);
    head.layout = gathered.empty() || own.size() == 0
                      ? LabelLayout::range(own.first, own.last)
                      : LabelLayout::gathered({gathered.begin() + own.first, gathered.begin() + own.last});
    head.in_files = false;
    head.is_part = true;
    auto engine = std::make_unique<Engine>(context, options, EngineParts{encoder, head}, shape);
    engine->allocate();
    engine->load(checkpoint.content());
    return engine;
}

struct Candidate {
    std::int64_t text, label;
    float score;
};

// The best of all ranks.
std::vector<TopK> merged(Ranks& ranks, std::vector<TopK> mine, std::int64_t k) {
    std::vector<Candidate> candidates;
    for (std::size_t b = 0; b < mine.size(); ++b)
        for (const ScoredLabel& scored : mine[b].sorted()) {
            Candidate candidate;
            std::memset(static_cast<void*>(&candidate), 0, sizeof candidate);
            candidate.text = static_cast<std::int64_t>(b);
            candidate.label = scored.label;
            candidate.score = scored.score;
            candidates.push_back(candidate);
        }
    std::vector<TopK> best(mine.size(), TopK(k));
    for (const auto& bytes : gather(ranks, std::as_bytes(std::span(candidates)))) {
        std::vector<Candidate> theirs(bytes.size() / sizeof(Candidate));
        if (!theirs.empty()) std::memcpy(static_cast<void*>(theirs.data()), bytes.data(), bytes.size());
        for (const Candidate& candidate : theirs)
            best[static_cast<std::size_t>(candidate.text)].offer(candidate.score, candidate.label);
    }
    return best;
}

}  // namespace

std::vector<std::vector<TopK>> rank_together(const Context& context, Engine& engine,
                                             std::span<const RankedBatch> batches) {
    Ranks& ranks = ranks_of(context);
    const auto here = static_cast<std::size_t>(ranks.rank());
    View own;
    if (here < batches.size()) own = engine.encoder().forward(batches[here].texts, false, 0, 0);
    std::vector<std::vector<TopK>> best;
    for (std::size_t i = 0; i < batches.size(); ++i) {
        const View x_BD = engine.ranked_vectors(batches[i].texts.size());
        std::vector<SentView> send;
        std::vector<ReceivedView> receive;
        if (here == i) {
            engine.backend().cast(x_BD, own);
            for (int r = 0; r < ranks.size(); ++r)
                if (r != ranks.rank()) send.push_back({r, x_BD});
        } else {
            receive.push_back({static_cast<int>(i), x_BD});
        }
        engine.exchange().exchange(send, receive);
        best.push_back(merged(ranks, engine.head().topk(x_BD, batches[i].k), batches[i].k));
    }
    return best;
}

RankingLeader::RankingLeader(const Context& context, const EngineOptions& options,
                             const Checkpoint& checkpoint, const EncoderSpec& encoder,
                             const std::vector<std::int64_t>& gathered, RunShape shape)
    : context_(context) {
    if (ranks_of(context).size() > 1) {
        Message message;
        message.put(std::span<const char>(checkpoint.manifest_hash()));
        const std::int64_t sizes[] = {shape.batch, shape.tokens, shape.longest, shape.top_k};
        message.put(std::span<const std::int64_t>(sizes));
        message.put(std::span<const std::int64_t>(gathered));
        broadcast(ranks_of(context), message.bytes());
    }
    engine_ = make_engine(context, options, checkpoint, encoder, gathered, shape);
}

RankingLeader::~RankingLeader() {
    if (std::uncaught_exceptions() > 0) return;  // the others learn it otherwise
    try {
        lead_nothing(context_);
    } catch (const std::exception&) {  // they have gone already
    }
}

std::vector<std::vector<TopK>> RankingLeader::rank(std::span<const RankedBatch> batches) {
    Message message;
    for (const RankedBatch& batch : batches) {
        message.put(batch.texts.tokens);
        message.put(batch.texts.offsets);
        message.put(std::span<const std::int64_t>(&batch.k, 1));
    }
    const auto count = static_cast<std::int64_t>(batches.size());
    Message all;
    all.put(std::span<const std::int64_t>(&count, 1));
    all.put(std::span<const std::byte>(message.bytes()));
    broadcast(ranks_of(context_), all.bytes());
    return rank_together(context_, *engine_, batches);
}

void lead_nothing(const Context& context) {
    Message nothing;
    broadcast(ranks_of(context), nothing.bytes());
}

void follow_rankings(const Context& context, const std::string& run, const std::string& which,
                     const EngineOptions& options) {
    Ranks& ranks = ranks_of(context);
    const Checkpoint checkpoint(run, which, Checkpoint::Check::kAllButHead);
    if (checkpoint.is_linear()) return;
    Message start;
    broadcast(ranks, start.bytes());
    if (start.bytes().empty()) return;
    const auto hash = start.take<char>();
    if (std::string_view(hash.data(), hash.size()) != checkpoint.manifest_hash())
        throw DataError(fmt::format("{}: rank {} finds another checkpoint here than the first rank",
                                    checkpoint.folder().string(), ranks.rank()));
    const auto sizes = start.take<std::int64_t>();
    RunShape shape;
    shape.batch = sizes[0];
    shape.tokens = sizes[1];
    shape.longest = sizes[2];
    shape.top_k = sizes[3];
    shape.training = false;
    const auto gathered = start.take<std::int64_t>();
    const auto engine =
        make_engine(context, options, checkpoint, read_encoder_spec(checkpoint.content()), gathered, shape);
    struct Received {
        std::vector<std::int32_t> tokens, offsets;
        std::int64_t k;
    };
    for (;;) {
        Message all;
        broadcast(ranks, all.bytes());
        if (all.bytes().empty()) return;
        const std::int64_t count = all.take<std::int64_t>().front();
        Message message(all.take<std::byte>());
        std::vector<Received> received;
        for (std::int64_t i = 0; i < count; ++i) {
            Received& batch = received.emplace_back();
            batch.tokens = message.take<std::int32_t>();
            batch.offsets = message.take<std::int32_t>();
            batch.k = message.take<std::int64_t>().front();
        }
        std::vector<RankedBatch> batches;
        for (const Received& batch : received) batches.push_back({{batch.tokens, batch.offsets}, batch.k});
        rank_together(context, *engine, batches);
    }
}

}  // namespace elmo
