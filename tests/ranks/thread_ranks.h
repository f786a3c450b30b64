// Ranks as threads of one process, for tests: messages lie in queues, one per pair of ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "elmo/ranks.h"

namespace elmo {

struct ThreadQueues {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;
    int waiting = 0, barriers = 0;
};

class ThreadRanks : public Ranks {
  public:
    ThreadRanks(ThreadQueues& queues, int rank, int size) : queues_(queues), rank_(rank), size_(size) {}
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) override {
        std::unique_lock lock(queues_.mutex);
        for (const Outgoing& message : send)
            queues_.messages[{rank_, message.to}].emplace_back(message.bytes.begin(), message.bytes.end());
        queues_.changed.notify_all();
        for (const Incoming& message : receive) {
            auto& queue = queues_.messages[{message.from, rank_}];
            queues_.changed.wait(lock, [&] { return !queue.empty(); });
            if (queue.front().size() != message.bytes.size()) throw std::logic_error("lengths differ");
            std::copy(queue.front().begin(), queue.front().end(), message.bytes.begin());
            queue.pop_front();
        }
    }
    bool any_thread() const override { return true; }
    void barrier() override {
        std::unique_lock lock(queues_.mutex);
        const int mine = queues_.barriers;
        if (++queues_.waiting == size_) {
            queues_.waiting = 0;
            ++queues_.barriers;
            queues_.changed.notify_all();
        }
        queues_.changed.wait(lock, [&] { return queues_.barriers != mine; });
    }

  private:
    ThreadQueues& queues_;
    int rank_, size_;
};

// body(ranks) on each of them.
inline void on_ranks(int size, const std::function<void(Ranks&)>& body) {
    ThreadQueues queues;
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r)
        threads.emplace_back([&, r] {
            ThreadRanks ranks(queues, r, size);
            body(ranks);
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace elmo
