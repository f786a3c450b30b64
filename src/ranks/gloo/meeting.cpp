#include "ranks/gloo/meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "elmo/error.h"
#include "ranks/guests.h"

namespace elmo {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 24;  // bytes that a rank may say at once
constexpr double kAnswerSeconds = 5;                        // a stranger at the port says nothing
constexpr char kHere = 1;

// What both sides say first. A rank answers with one byte more: until then the first does not count on it, as
// it may have given up and come again.
struct Greeting {
    char magic[8] = {'e', 'l', 'm', 'o', '-', 'r', 'k', '2'};
    std::uint64_t run = 0;
    std::int32_t rank = 0, size = 0;
};

Greeting greeting_of(const MeetingPlace& place) {
    Greeting greeting;
    greeting.run = 0xcbf29ce484222325u;  // FNV-1a
    for (const char c : place.run)
        greeting.run = (greeting.run ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    greeting.rank = place.rank;
    greeting.size = place.size;
    return greeting;
}

bool belongs(const Greeting& theirs, const Greeting& mine) {
    return std::memcmp(theirs.magic, mine.magic, sizeof mine.magic) == 0 && theirs.run == mine.run &&
           theirs.size == mine.size && theirs.rank >= 0 && theirs.rank < mine.size &&
           theirs.rank != mine.rank;
}

bool send_text(int socket, const std::string& text) {
    const std::uint64_t length = text.size();
    return send_bytes(socket, &length, sizeof length) && send_bytes(socket, text.data(), text.size());
}

bool receive_text(int socket, std::string& text, double until) {
    std::uint64_t length = 0;
    if (!receive_bytes(socket, &length, sizeof length, until) || length > kLargest) return false;
    text.resize(length);
    return receive_bytes(socket, text.data(), length, until);
}

// The first port from `port` on that is free; null socket: none.
int listen_from(int port) {
    for (int i = 0; i < Meeting::kPorts; ++i) {
        const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (socket < 0) return -1;
        const int on = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_port = htons(static_cast<std::uint16_t>(port + i));
        here.sin_addr.s_addr = htonl(INADDR_ANY);
        if (::bind(socket, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0 &&
            ::listen(socket, SOMAXCONN) == 0)
            return socket;
        ::close(socket);
    }
    return -1;
}

std::string local_address(int socket) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    char text[INET_ADDRSTRLEN] = {};
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0)
        ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    return text;
}

bool is_loopback(const std::string& address) {
    return address.rfind("127.", 0) == 0;
}

}  // namespace

Meeting::Meeting(const MeetingPlace& place) : place_(place) {
    place_.rank == 0 ? receive_all() : reach_first();
    find_own_address();
}

Meeting::~Meeting() {
    for (const int socket : sockets_)
        if (socket >= 0) ::close(socket);
}

void Meeting::receive_all() {
    const double until = seconds_now() + place_.seconds;
    const int listener = listen_from(place_.port);
    if (listener < 0)
        throw Error(fmt::format("MASTER_PORT: expected a free port from {} to {} on this machine, found none",
                                place_.port, place_.port + kPorts - 1));
    sockets_.assign(static_cast<std::size_t>(place_.size), -1);
    const Greeting mine = greeting_of(place_);
    Guests guests(listener, sizeof mine + sizeof kHere);
    int missing = place_.size - 1;
    while (missing > 0 && seconds_now() < until)
        guests.hear([&](int socket, std::string_view said) {
            Greeting theirs;
            if (said.size() < sizeof theirs) return Guests::Verdict::kListen;
            std::memcpy(&theirs, said.data(), sizeof theirs);
            if (said.size() == sizeof theirs)
                return belongs(theirs, mine) && send_bytes(socket, &mine, sizeof mine)
                           ? Guests::Verdict::kListen
                           : Guests::Verdict::kTurnAway;
            if (!belongs(theirs, mine) || said.back() != kHere) return Guests::Verdict::kTurnAway;
            int& slot = sockets_[static_cast<std::size_t>(theirs.rank)];
            if (slot >= 0)
                ::close(slot);  // it came again
            else
                --missing;
            slot = socket;
            return Guests::Verdict::kTake;
        });
    if (missing == 0) return;
    std::vector<int> ranks;
    for (int r = 1; r < place_.size && ranks.size() < 8; ++r)
        if (sockets_[static_cast<std::size_t>(r)] < 0) ranks.push_back(r);
    throw Error(
        fmt::format("{} of {} ranks did not come within {} s (rank {}{}); where this is to be one "
                    "process, unset WORLD_SIZE",
                    missing, place_.size, place_.seconds, fmt::join(ranks, ", "),
                    missing > static_cast<int>(ranks.size()) ? ", ..." : ""));
}

void Meeting::reach_first() {
    const double until = seconds_now() + place_.seconds;
    const Greeting mine = greeting_of(place_);
    bool known = false;
    while (seconds_now() < until) {
        addrinfo hints{}, *found = nullptr;
        hints.ai_family = AF_INET;
        hints.ai_socktype = SOCK_STREAM;
        if (::getaddrinfo(place_.address.c_str(), nullptr, &hints, &found) == 0) {
            known = true;
            const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
            for (int i = 0; i < kPorts; ++i) {
                const int socket = connect_to(address, place_.port + i);
                if (socket < 0) continue;
                Greeting theirs;
                if (send_bytes(socket, &mine, sizeof mine) &&
                    receive_bytes(socket, &theirs, sizeof theirs, seconds_now() + kAnswerSeconds) &&
                    belongs(theirs, mine) && theirs.rank == 0 && send_bytes(socket, &kHere, sizeof kHere)) {
                    sockets_ = {socket};
                    ::freeaddrinfo(found);
                    return;
                }
                ::close(socket);
            }
            ::freeaddrinfo(found);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw Error(fmt::format(
        "the first rank was not reached within {} s: MASTER_ADDR {} {}", place_.seconds, place_.address,
        known
            ? fmt::format("has no elmo of this run at ports {} to {}", place_.port, place_.port + kPorts - 1)
            : "is not a name that this machine knows"));
}

std::vector<std::string> Meeting::gather(const std::string& mine) {
    const double until = seconds_now() + place_.seconds;
    const auto check = [](bool good) {
        if (!good) throw Error("a rank has gone while the ranks met");
    };
    std::vector<std::string> all(static_cast<std::size_t>(place_.size));
    if (place_.rank != 0) {
        check(send_text(sockets_.front(), mine));
        for (std::string& text : all) check(receive_text(sockets_.front(), text, until));
        return all;
    }
    all.front() = mine;
    for (std::size_t r = 1; r < all.size(); ++r) check(receive_text(sockets_[r], all[r], until));
    for (std::size_t r = 1; r < all.size(); ++r)
        for (const std::string& text : all) check(send_text(sockets_[r], text));
    return all;
}

// The address that a rank has on its way to the first. Ranks that reach it by the loopback are on its
// machine: where others come from elsewhere, they take the first rank's address for those.
void Meeting::find_own_address() {
    for (const int socket : sockets_)
        if (socket >= 0 && (own_address_.empty() || is_loopback(own_address_)))
            own_address_ = local_address(socket);
    const std::string first = gather(own_address_).front();
    if (is_loopback(own_address_)) own_address_ = first;
}

}  // namespace elmo
