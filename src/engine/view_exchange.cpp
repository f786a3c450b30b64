#include "engine/view_exchange.h"

#include <algorithm>

#include "elmo/error.h"

namespace elmo {
namespace {

std::span<std::byte> bytes_of(const View& view) {
    return {static_cast<std::byte*>(view.data), static_cast<std::size_t>(view.bytes())};
}

}  // namespace

void ViewExchange::join() {
    if (joined_ || ranks_.size() == 1 || backend_.host_memory() || choice_ == ExchangeChoice::kHost) return;
    const bool possible = any_bits(ranks_, backend_.can_exchange() ? 0 : 1) == 0;
    if (!possible && choice_ == ExchangeChoice::kNccl)
        throw ConfigError(
            "exchange: expected NCCL for 'nccl', found none on some rank; install libnccl.so.2 (or set "
            "ELMO_NCCL to its path), or give --exchange host");
    if (!possible) return;
    std::vector<std::byte> ids;
    for (const auto& id : gather(ranks_, backend_.exchange_id())) ids.insert(ids.end(), id.begin(), id.end());
    try {
        backend_.join(ids, ranks_.rank(), ranks_.size());
        joined_ = true;
    } catch (const ConfigError&) {  // on all ranks: two of them have the same device
        if (choice_ == ExchangeChoice::kNccl) throw;
    }
}

void ViewExchange::exchange(std::span<const SentView> send, std::span<const ReceivedView> receive) {
    if (joined_) return backend_.exchange(send, receive);
    const bool staged = !backend_.host_memory();
    std::vector<Ranks::Outgoing> outgoing;
    std::vector<Ranks::Incoming> incoming;
    if (staged) {
        sent_.resize(std::max(sent_.size(), send.size()));
        received_.resize(std::max(received_.size(), receive.size()));
    }
    const void* last = nullptr;  // the same view often goes to all others
    std::size_t held = 0;
    for (std::size_t i = 0; i < send.size(); ++i) {
        const View& view = send[i].view;
        if (view.size() == 0) continue;
        if (!staged) {
            outgoing.push_back({send[i].to, bytes_of(view)});
            continue;
        }
        if (last != view.data || sent_[held].size() != static_cast<std::size_t>(view.bytes())) {
            held = i;
            sent_[held].resize(static_cast<std::size_t>(view.bytes()));
            backend_.download(sent_[held].data(), view);
            last = view.data;
        }
        outgoing.push_back({send[i].to, sent_[held]});
    }
    for (std::size_t i = 0; i < receive.size(); ++i) {
        const View& view = receive[i].view;
        if (view.size() == 0) continue;
        if (staged) received_[i].resize(static_cast<std::size_t>(view.bytes()));
        incoming.push_back({receive[i].from, staged ? std::span(received_[i]) : bytes_of(view)});
    }
    ranks_.exchange(outgoing, incoming);
    if (!staged) return;
    for (std::size_t i = 0; i < receive.size(); ++i)
        if (receive[i].view.size() > 0) backend_.upload(receive[i].view, received_[i].data());
}

}  // namespace elmo
