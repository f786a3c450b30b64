// The first rank counts the others while strangers stand at its port.
#include "ranks/lifeline.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "ranks/sockets.h"
#include "ranks/thread_ranks.h"

namespace elmo {
namespace {

// Of a socket of this process that listens; 0: there is none.
int listening_port() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int socket = std::stoi(entry.path().filename());
        int listens = 0;
        socklen_t length = sizeof listens;
        if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
        sockaddr_in address{};
        length = sizeof address;
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
        return ntohs(address.sin_port);
    }
    return 0;
}

// A rank that lets `visit` go to the first rank's port before itself: once it knows the token, which is the
// last message before it goes there.
class LateRanks : public ThreadRanks {
  public:
    LateRanks(ThreadQueues& queues, std::function<void()> visit)
        : ThreadRanks(queues, 1, 2), visit_(std::move(visit)) {}
    void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) override {
        ThreadRanks::exchange(send, receive);
        if (!receive.empty() && receive.front().bytes.size() == sizeof(std::uint64_t) && ++numbers_ == 3)
            visit_();
    }

  private:
    std::function<void()> visit_;
    int numbers_ = 0;  // of a token's size: lengths of the host and of the addresses, and the token
};

// More of them than are heard at once, and each would be waited for.
TEST(Lifeline, StrangersHoldUpNobody) {
    constexpr int kStrangers = 300;
    std::vector<int> sockets;
    const auto visit = [&] {
        const int port = listening_port();
        for (int i = 0; i < kStrangers; ++i) {
            sockets.push_back(connect_to({htonl(INADDR_LOOPBACK)}, port));
            const std::string words = i % 3 == 0 ? "" : i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n" : "12345678";
            send_bytes(sockets.back(), words.data(), words.size());
        }
    };
    ThreadQueues queues;
    ThreadRanks first(queues, 0, 2);
    LateRanks second(queues, visit);
    std::atomic<int> met = 0;
    const auto meet = [&](Ranks& ranks) {
        try {
            Lifeline lifeline(ranks, "here");
            ++met;
            ranks.barrier();  // as Launch::finish
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
            std::exit(1);  // the other one would wait for ever
        }
    };
    std::thread other([&] { meet(second); });
    meet(first);
    other.join();
    EXPECT_EQ(met, 2);
    EXPECT_EQ(sockets.size(), std::size_t{kStrangers});
    for (const int socket : sockets) ::close(socket);
}

}  // namespace
}  // namespace elmo
