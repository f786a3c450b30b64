// elmo inspect ranks: who the ranks of this launch are, on which machines and devices, and how fast they
// exchange. What to run first on a new cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/text_util.h"
#include "config/views.h"
#include "elmo/fields.h"
#include "elmo/run.h"
#include "engine/engine.h"

namespace elmo {
namespace {

constexpr std::int64_t kMessage = std::int64_t{4} << 20;
constexpr int kRounds = 5;

std::string host_name() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Seconds of a round in which every rank sends `bytes` to every other one.
double exchange_seconds(Ranks& ranks, Backend& backend, ViewExchange& exchange, const View& memory,
                        std::int64_t bytes) {
    std::vector<SentView> send;
    std::vector<ReceivedView> receive;
    const auto part = [&](int number) {
        return View{static_cast<char*>(memory.data) + number * kMessage, DType::kU8, 1, bytes};
    };
    for (int r = 0; r < ranks.size(); ++r) {
        if (r == ranks.rank()) continue;
        send.push_back({r, part(ranks.size())});
        receive.push_back({r, part(r)});
    }
    exchange.exchange(send, receive);  // connections are made on first use
    backend.wait();
    ranks.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) exchange.exchange(send, receive);
    backend.wait();
    ranks.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRounds;
}

}  // namespace

std::vector<Fact> inspect_ranks(const Context& context, const Config& config) {
    const EngineOptions options(config);
    Ranks& ranks = ranks_of(context);
    const auto backend = make_backend(context, options);
    const auto memory = backend->allocate((ranks.size() + 1) * kMessage);
    std::string mine = fmt::format("{}, pid {}, {}, {} free", host_name(), ::getpid(), backend->describe(),
                                   human_bytes(backend->free_bytes()));
    if (!backend->host_memory()) mine += backend->can_exchange() ? ", NCCL" : ", no NCCL";
    std::vector<Fact> facts;
    const auto add = [&](const std::string& name, const auto& value, std::string text) {
        JsonLine literal;
        literal.value(value);
        std::string title = name;
        std::ranges::replace(title, '_', ' ');
        facts.push_back({name, std::move(text), literal.text(), std::move(title)});
    };
    const auto all = gather(ranks, std::as_bytes(std::span(mine)));
    for (std::size_t r = 0; r < all.size(); ++r)
        add(fmt::format("rank_{}", r), text_of(all[r]), text_of(all[r]));
    if (ranks.size() == 1) return facts;
    ViewExchange exchange(ranks, *backend, options.exchange);
    exchange.join();
    const View view{memory->data(), DType::kU8, 1, memory->bytes()};
    const double small = exchange_seconds(ranks, *backend, exchange, view, 256);
    const double large = exchange_seconds(ranks, *backend, exchange, view, kMessage);
    const double rate = static_cast<double>((ranks.size() - 1) * kMessage) / large / 1e9;
    add("small_exchange_ms", 1e3 * small, fmt::format("{:.3f} of all with all", 1e3 * small));
    add("gbytes_per_second", rate,
        fmt::format("{:.2f} sent by each rank, {} to each other one", rate, human_bytes(kMessage)));
    return facts;
}

}  // namespace elmo
