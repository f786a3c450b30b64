// What ranks that meet over TCP share: whole messages, limits of time, and a connection to an address.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace elmo {

// Of a clock that never goes back.
inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// False where the other side has gone.
inline bool send_bytes(int socket, const void* data, std::size_t bytes) noexcept {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        bytes -= static_cast<std::size_t>(sent);
    }
    return true;
}

// The same, also where not all of them came before the time `until`.
inline bool receive_bytes(int socket, void* data, std::size_t bytes, double until) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
        pollfd ready{socket, POLLIN, 0};
        if (seconds_now() > until || ::poll(&ready, 1, 100) < 0) return false;
        if (ready.revents == 0) continue;
        const ssize_t got = ::recv(socket, at, bytes, 0);
        if (got <= 0) return false;
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

// A socket; -1 where nobody answers within five seconds.
inline int connect_to(in_addr address, int port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr = address;
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return -1;
    timeval limit{5, 0};  // also of connect
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return socket;
    ::close(socket);
    return -1;
}

}  // namespace elmo
