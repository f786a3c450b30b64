#include "ranks/lifeline.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "elmo/error.h"
#include "elmo/messages.h"
#include "ranks/collectives.h"
#include "ranks/guests.h"
#include "ranks/lifeline_messages.h"
#include "ranks/sockets.h"

namespace elmo {
namespace {

using Kind = LifelineMessage::Kind;
constexpr int kStartSeconds = 60;
constexpr auto kBeat = std::chrono::milliseconds(500);
constexpr int kOwnFault = 1;

bool send_message(int socket, const LifelineMessage& message) noexcept {
    const std::string bytes = bytes_of(message);
    return send_bytes(socket, bytes.data(), bytes.size());
}

// The IPv4 addresses of this machine, the loopback last.
std::vector<std::string> own_addresses() {
    std::vector<std::string> found;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return {"127.0.0.1"};
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
        char text[INET_ADDRSTRLEN] = {};
        const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
        ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
        if (std::string_view(text) != "127.0.0.1") found.emplace_back(text);
    }
    ::freeifaddrs(list);
    found.emplace_back("127.0.0.1");
    return found;
}

int connect_to(const std::string& address, int port) {
    in_addr to{};
    return ::inet_pton(AF_INET, address.c_str(), &to) == 1 ? elmo::connect_to(to, port) : -1;
}

// Nothing where there is nothing to say.
void say(const std::string& line) noexcept {
    if (line.empty()) return;
    const std::string shown = ::isatty(STDERR_FILENO) != 0 ? for_terminal(line) : line;
    std::fprintf(stderr, "elmo: error: %s\n", shown.c_str());
    std::fflush(stderr);
}

struct Greeting {
    std::uint64_t token;
    std::int32_t rank;
};

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Lifeline::Lifeline(Ranks& ranks, const std::string& host) : ranks_(ranks) {
    for (const auto& name : gather(ranks, std::as_bytes(std::span(host)))) hosts_.push_back(text_of(name));
    pids_ = gather_values(ranks, static_cast<int>(::getpid()));

    // The first rank's addresses and port, and a number that nobody else knows.
    std::string where;
    std::uint64_t token = 0;
    int listener = -1;
    if (ranks.is_first()) {
        listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in any{};
        any.sin_family = AF_INET;
        socklen_t length = sizeof any;
        if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
            ::listen(listener, 1024) != 0 ||
            ::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &length) != 0)
            throw Error(
                fmt::format("ranks: the first rank cannot listen for the others: {}", std::strerror(errno)));
        std::random_device random;
        token = std::uint64_t{random()} << 32 | random();
        where = std::to_string(ntohs(any.sin_port));
        for (const std::string& address : own_addresses()) where += " " + address;
    }
    const auto own = std::as_bytes(std::span(where));
    std::vector<std::byte> bytes(own.begin(), own.end());
    broadcast(ranks, bytes);
    broadcast(ranks, std::as_writable_bytes(std::span(&token, 1)));
    if (ranks.is_first()) {
        listen_for_others(listener, token);
    } else {
        std::vector<std::string> words;
        std::string rest = text_of(bytes);
        for (std::size_t end = 0; end != std::string::npos; rest.erase(0, end + 1)) {
            end = rest.find(' ');
            words.push_back(rest.substr(0, end));
            if (end == std::string::npos) break;
        }
        reach_first({words.begin() + 1, words.end()}, std::stoi(words.front()), token);
    }
    ranks.barrier();
    watcher_ = std::thread([this] { watch(); });
}

void Lifeline::listen_for_others(int listener, std::uint64_t token) {
    const double until = seconds_now() + kStartSeconds;
    Guests guests(listener, sizeof(Greeting));
    while (static_cast<int>(peers_.size()) + 1 < ranks_.size()) {
        if (seconds_now() > until)
            throw Error(
                fmt::format("ranks: {} of {} ranks reached the first one on {} within {} s; do "
                            "firewalls between the machines let TCP pass?",
                            peers_.size(), ranks_.size() - 1, hosts_.front(), kStartSeconds));
        guests.hear([&](int socket, std::string_view said) {
            Greeting greeting{};
            if (said.size() < sizeof greeting) return Guests::Verdict::kListen;
            std::memcpy(&greeting, said.data(), sizeof greeting);
            if (greeting.token != token || greeting.rank < 1 || greeting.rank >= ranks_.size())
                return Guests::Verdict::kTurnAway;
            const auto r = static_cast<std::size_t>(greeting.rank);
            peers_.push_back({greeting.rank, socket, pids_[r], hosts_[r]});
            return Guests::Verdict::kTake;
        });
    }
}

void Lifeline::reach_first(const std::vector<std::string>& addresses, int port, std::uint64_t token) {
    const bool same_host = hosts_.front() == hosts_[static_cast<std::size_t>(ranks_.rank())];
    int socket = same_host ? connect_to("127.0.0.1", port) : -1;
    for (const std::string& address : addresses)
        if (socket < 0) socket = connect_to(address, port);
    const Greeting greeting{token, ranks_.rank()};
    if (socket < 0 || !send_bytes(socket, &greeting, sizeof greeting))
        throw Error(fmt::format("ranks: rank {} on {} cannot reach the first rank on {} ({}), port {}",
                                ranks_.rank(), hosts_[static_cast<std::size_t>(ranks_.rank())],
                                hosts_.front(), fmt::join(addresses, ", "), port));
    peers_.push_back({0, socket, pids_.front(), hosts_.front()});
}

Lifeline::~Lifeline() {
    close();
}

void Lifeline::close() {
    if (closing_.exchange(true)) return;
    if (watcher_.joinable()) watcher_.join();
    for (const Peer& peer : peers_) {  // who may still be watching
        send_message(peer.socket, {Kind::kDone});
        ::shutdown(peer.socket, SHUT_WR);
    }
    // Closing with unread bytes would take back what was sent.
    for (const Peer& peer : peers_) {
        char rest = 0;
        while (receive_bytes(peer.socket, &rest, 1, seconds_now() + 1)) {
        }
        ::close(peer.socket);
    }
    peers_.clear();
}

std::string Lifeline::name_of(int rank) const {
    return fmt::format("rank {} ({}, pid {})", rank, hosts_[static_cast<std::size_t>(rank)],
                       pids_[static_cast<std::size_t>(rank)]);
}

void Lifeline::watch() {
    for (Peer& peer : peers_) peer.heard = seconds_now();
    double beat = 0;
    while (!closing_) {
        if (seconds_now() - beat > std::chrono::duration<double>(kBeat).count()) {
            for (const Peer& peer : peers_) send_message(peer.socket, {Kind::kAlive});
            beat = seconds_now();
        }
        std::vector<pollfd> ready;
        for (const Peer& peer : peers_) ready.push_back({peer.done ? -1 : peer.socket, POLLIN, 0});
        ::poll(ready.data(), ready.size(), 50);
        for (std::size_t i = 0; i < peers_.size() && !closing_; ++i) {
            if (ready[i].revents != 0) read(peers_[i]);
            const double timeout = timeout_, silent = seconds_now() - peers_[i].heard;
            if (timeout > 0 && silent > timeout && !peers_[i].done)
                peer_gone(peers_[i], fmt::format("has not answered for {:.0f} s", silent));
        }
    }
}

void Lifeline::read(Peer& peer) {
    char buffer[4096];
    const ssize_t got = ::recv(peer.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (got <= 0) {
        if (closing_ || peer.done) return;
        peer_gone(peer, "has gone");
    }
    peer.heard = seconds_now();
    peer.received.append(buffer, static_cast<std::size_t>(got));
    understand(peer);
}

void Lifeline::understand(Peer& peer) {
    try {
        while (const auto message = take_message(peer.received)) {
            if (message->kind == Kind::kEnd) ::_exit(message->status);
            if (message->kind == Kind::kFailed) end_all(message->status, message->text);
            peer.done = peer.done || message->kind == Kind::kDone;
        }
    } catch (const Error& error) {
        peer_gone(peer, error.what());
    }
}

void Lifeline::peer_gone(const Peer& peer, const std::string& how) {
    const std::int64_t step = ranks_.step();
    const std::string line = fmt::format(
        "{} {}{}; a training that has saved a checkpoint goes on from it with --resume, on any number of "
        "ranks",
        name_of(peer.rank), how, step > 0 ? fmt::format(" in step {}", step) : std::string());
    // Where the first has gone there is nobody to ask: the second speaks.
    if (ranks_.is_first() || ranks_.rank() == 1) end_all(kOwnFault, line);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::_exit(kOwnFault);
}

void Lifeline::end_all(int status, const std::string& line) noexcept {
    saying_.lock();  // for good: one line only
    std::fflush(stdout);
    say(line);
    if (ranks_.is_first())
        for (const Peer& peer : peers_)
            send_message(peer.socket, {Kind::kEnd, static_cast<std::uint8_t>(status)});
    ::_exit(status);
}

void Lifeline::fail(int status, std::string_view message) noexcept {
    const std::int64_t step = ranks_.step();
    const int rank = ranks_.rank();
    std::string line(message.substr(0, kLongestLifelineText / 2));
    if (!line.empty() && (step > 0 || rank > 0))
        line = fmt::format("{}{}: {}", name_of(rank), step > 0 ? fmt::format(", step {}", step) : "", line);
    if (rank == 0) end_all(status, line);
    // Where all ranks meet the same error, the first one's own words are enough.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (!peers_.empty() &&
        send_message(peers_.front().socket, {Kind::kFailed, static_cast<std::uint8_t>(status), line}))
        std::this_thread::sleep_for(std::chrono::seconds(5));  // the first rank ends this one
    say(line);
    ::_exit(status);
}

}  // namespace elmo
