// One idle connection from every rank to the first. A rank that ends closes it, one that stops answering
// falls silent on it, and one that fails says why: the first rank prints one line, and all end. A launcher
// would end them too, but later and without a reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "elmo/ranks.h"

namespace elmo {

class Lifeline {
  public:
    // A collective of all ranks. `host` is this rank's machine. Error when the first rank cannot be reached.
    Lifeline(Ranks& ranks, const std::string& host);
    ~Lifeline();
    Lifeline(const Lifeline&) = delete;
    Lifeline& operator=(const Lifeline&) = delete;

    // Seconds without a sign of life after which a rank counts as gone; 0: for ever.
    void set_timeout(double seconds) { timeout_ = seconds; }
    // See Launch::fail.
    [[noreturn]] void fail(int status, std::string_view message) noexcept;
    // All ranks have done their work: connections may close.
    void close();

  private:
    struct Peer {
        int rank = 0, socket = -1, pid = 0;
        std::string host;
        std::string received = {};  // not yet complete
        double heard = 0;           // when, in seconds
        bool done = false;          // it ends in order
    };
    // Closes the listener.
    void listen_for_others(int listener, std::uint64_t token);
    void reach_first(const std::vector<std::string>& addresses, int port, std::uint64_t token);
    void watch();
    // Whether the peer's bytes are all understood; ends the process where they say so.
    void read(Peer& peer);
    void understand(Peer& peer);
    [[noreturn]] void peer_gone(const Peer& peer, const std::string& how);
    [[noreturn]] void end_all(int status, const std::string& line) noexcept;
    std::string name_of(int rank) const;

    Ranks& ranks_;
    std::vector<std::string> hosts_;
    std::vector<int> pids_;
    std::vector<Peer> peers_;  // of the first rank: all others; of another: the first
    std::atomic<bool> closing_{false};
    std::atomic<double> timeout_{300};
    std::mutex saying_;
    std::thread watcher_;
};

}  // namespace elmo
