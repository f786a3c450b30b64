// Moves views between the ranks of a run: host memory as it is, device memory by the backend where it can,
// and else through host memory. An exchange may travel while the rank goes on: by a thread of its own through
// host memory, or on the device beside its other work.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "config/views.h"
#include "ranks/collectives.h"
#include "ranks/exchange_thread.h"

namespace elmo {

class ViewExchange {
  public:
    ViewExchange(Ranks& ranks, Backend& backend, ExchangeChoice choice)
        : ranks_(ranks), backend_(backend), choice_(choice) {}

    // Once memory is taken, on all ranks together: joins them on their devices, where that was chosen and is
    // possible. ConfigError when `nccl` was asked for and is not.
    void join();
    // Messages from one rank to another arrive in the order of both lists; none goes to the rank itself.
    void exchange(std::span<const SentView> send, std::span<const ReceivedView> receive);
    // The same, while this rank goes on. Nobody may write what is sent or read what is received until finish.
    // Returns the number of the exchange, from 1. Until all are finished nobody else calls the ranks.
    std::int64_t start(std::span<const SentView> send, std::span<const ReceivedView> receive);
    // The exchanges up to this number have ended, before anything that is asked of the backend from here on.
    void finish(std::int64_t number);
    void finish_all() { finish(started_); }
    // After an error: nothing moves in this rank's memory any more.
    void abandon() noexcept;

  private:
    // One exchange through host memory.
    struct Passage {
        std::vector<std::vector<std::byte>> sent, received;  // staged
        std::vector<View> to;                                // where `received` goes
        std::vector<Ranks::Outgoing> outgoing;
        std::vector<Ranks::Incoming> incoming;
    };
    void prepare(Passage& passage, std::span<const SentView> send, std::span<const ReceivedView> receive);
    void deliver(const Passage& passage);

    Ranks& ranks_;
    Backend& backend_;
    ExchangeChoice choice_;
    bool joined_ = false;
    std::int64_t started_ = 0, finished_ = 0;
    std::deque<Passage> travelling_;  // not yet finished, the oldest first
    std::vector<Passage> unused_;     // keep their memory
    std::unique_ptr<ExchangeThread> thread_;
};

}  // namespace elmo
