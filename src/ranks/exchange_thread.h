// Exchanges that travel while their rank computes: a thread calls the ranks, one exchange after another.
// Only for ranks that allow it (Ranks::any_thread). While exchanges are on their way nobody else may call the
// ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "elmo/ranks.h"

namespace elmo {

class ExchangeThread {
  public:
    explicit ExchangeThread(Ranks& ranks) : ranks_(ranks), thread_([this] { run(); }) {}
    // Waits for what was started. The other ranks come to these exchanges too, or fail, and then the lifeline
    // ends this process.
    ~ExchangeThread();
    ExchangeThread(const ExchangeThread&) = delete;
    ExchangeThread& operator=(const ExchangeThread&) = delete;

    // The messages' memory must stay as it is until finish. They are numbered from 1.
    void start(std::vector<Ranks::Outgoing> send, std::vector<Ranks::Incoming> receive);
    // Returns when the exchanges up to this number have ended. Throws what one of them threw; those after it
    // were not made.
    void finish(std::int64_t number);
    // The same, without throwing.
    void wait(std::int64_t number) noexcept;

  private:
    struct Messages {
        std::vector<Ranks::Outgoing> send;
        std::vector<Ranks::Incoming> receive;
    };
    void run();

    Ranks& ranks_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Messages> waiting_;
    std::int64_t ended_ = 0;
    bool closing_ = false;
    std::exception_ptr failed_;
    std::thread thread_;
};

}  // namespace elmo
