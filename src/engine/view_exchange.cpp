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

void ViewExchange::prepare(Passage& passage, std::span<const SentView> send,
                           std::span<const ReceivedView> receive) {
    passage.outgoing.clear();
    passage.incoming.clear();
    passage.to.clear();
    const bool staged = !backend_.host_memory();
    if (staged) {
        passage.sent.resize(std::max(passage.sent.size(), send.size()));
        passage.received.resize(std::max(passage.received.size(), receive.size()));
    }
    const void* last = nullptr;  // the same view often goes to all others
    std::size_t held = 0;
    for (std::size_t i = 0; i < send.size(); ++i) {
        const View& view = send[i].view;
        if (view.size() == 0) continue;
        if (!staged) {
            passage.outgoing.push_back({send[i].to, bytes_of(view)});
            continue;
        }
        if (last != view.data || passage.sent[held].size() != static_cast<std::size_t>(view.bytes())) {
            held = i;
            passage.sent[held].resize(static_cast<std::size_t>(view.bytes()));
            backend_.download(passage.sent[held].data(), view);
            last = view.data;
        }
        passage.outgoing.push_back({send[i].to, passage.sent[held]});
    }
    for (const ReceivedView& message : receive) {
        if (message.view.size() == 0) continue;
        if (!staged) {
            passage.incoming.push_back({message.from, bytes_of(message.view)});
            continue;
        }
        std::vector<std::byte>& memory = passage.received[passage.to.size()];
        memory.resize(static_cast<std::size_t>(message.view.bytes()));
        passage.to.push_back(message.view);
        passage.incoming.push_back({message.from, memory});
    }
}

void ViewExchange::deliver(const Passage& passage) {
    for (std::size_t i = 0; i < passage.to.size(); ++i)
        backend_.upload(passage.to[i], passage.received[i].data());
}

void ViewExchange::exchange(std::span<const SentView> send, std::span<const ReceivedView> receive) {
    if (joined_) return backend_.exchange(send, receive);
    if (unused_.empty()) unused_.emplace_back();
    Passage& passage = unused_.back();
    prepare(passage, send, receive);
    ranks_.exchange(passage.outgoing, passage.incoming);
    deliver(passage);
}

std::int64_t ViewExchange::start(std::span<const SentView> send, std::span<const ReceivedView> receive) {
    if (joined_) {
        backend_.start_exchange(send, receive);
        return ++started_;
    }
    if (unused_.empty()) unused_.emplace_back();
    travelling_.push_back(std::move(unused_.back()));
    unused_.pop_back();
    Passage& passage = travelling_.back();
    prepare(passage, send, receive);
    if (!ranks_.any_thread()) {
        ranks_.exchange(passage.outgoing, passage.incoming);
        return ++started_;
    }
    if (!thread_) thread_ = std::make_unique<ExchangeThread>(ranks_);
    thread_->start(passage.outgoing, passage.incoming);
    return ++started_;
}

void ViewExchange::finish(std::int64_t number) {
    for (; finished_ < number; ++finished_) {
        if (joined_) {
            backend_.finish_exchange();
            continue;
        }
        if (thread_) thread_->finish(finished_ + 1);
        deliver(travelling_.front());
        unused_.push_back(std::move(travelling_.front()));
        travelling_.pop_front();
    }
}

void ViewExchange::abandon() noexcept {
    if (thread_) thread_->wait(started_);
}

}  // namespace elmo
