// Moves views between the ranks of a run: host memory as it is, device memory by the backend where it can,
// and else through host memory.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "config/views.h"
#include "ranks/collectives.h"

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

  private:
    Ranks& ranks_;
    Backend& backend_;
    ExchangeChoice choice_;
    bool joined_ = false;
    std::vector<std::vector<std::byte>> sent_, received_;  // staged
};

}  // namespace elmo
