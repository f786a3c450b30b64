// A client of the server on a plain socket: what a test sends is exactly what goes over the wire.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace elmo::test {

struct Reply {
    int status = 0;  // 0: the connection ended without one
    std::string head, body;

    nlohmann::json json() const { return nlohmann::json::parse(body); }
    std::string error() const { return json().value("error", ""); }
    std::string field() const { return json().value("field", ""); }
};

class Client {
  public:
    explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            throw std::runtime_error("connect failed");
    }
    Client(Client&& other) noexcept : socket_(other.socket_), rest_(std::move(other.rest_)) {
        other.socket_ = -1;
    }
    Client(const Client&) = delete;
    ~Client() {
        if (socket_ >= 0) ::close(socket_);
    }

    void send(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return;  // the server has closed it; reading shows what it said
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    void end_sending() { ::shutdown(socket_, SHUT_WR); }

    // The next answer. `without_body`: to a HEAD.
    Reply receive(bool without_body = false) {
        Reply reply;
        std::size_t end = 0;
        while ((end = rest_.find("\r\n\r\n")) == std::string::npos)
            if (!read_more()) return reply;
        reply.head = rest_.substr(0, end);
        rest_.erase(0, end + 4);
        reply.status = std::stoi(reply.head.substr(9, 3));
        const std::size_t length_at = reply.head.find("\r\nContent-Length: ");
        std::size_t length = length_at == std::string::npos || without_body
                                 ? 0
                                 : std::stoul(reply.head.substr(length_at + 18));
        while (rest_.size() < length)
            if (!read_more()) throw std::runtime_error("the answer was cut");
        reply.body = rest_.substr(0, length);
        rest_.erase(0, length);
        return reply;
    }
    // Whether the server ends the connection without another answer.
    bool is_closed() { return rest_.empty() && !read_more(); }

    Reply get(const std::string& target, const std::string& headers = "") {
        send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", target, headers));
        return receive();
    }
    Reply post(const std::string& target, const std::string& body, const std::string& headers = "") {
        send(request(target, body, headers));
        return receive();
    }
    static std::string request(const std::string& target, const std::string& body,
                               const std::string& headers = "") {
        return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", target,
                           headers, body.size(), body);
    }

  private:
    bool read_more() {
        char block[4096];
        const auto bytes = ::recv(socket_, block, sizeof block, 0);
        if (bytes <= 0) return false;
        rest_.append(block, static_cast<std::size_t>(bytes));
        return true;
    }

    int socket_;
    std::string rest_;
};

}  // namespace elmo::test
