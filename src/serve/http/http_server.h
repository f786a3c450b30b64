// HTTP/1.1 for the server: connections, their limits and deadlines, and nothing about what is asked.
//
// Boost.Beast reads and writes, without a thread per connection: a client that sends nothing, or slowly,
// costs a socket and a few kilobytes. Beyond the limit of connections, new ones wait in the kernel;
// connections that wait for a next request are closed to make room for them, and those that have sent nothing
// for half a second. No type of Beast leaves http_server.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace elmo {

struct HttpRequest {
    std::string method;
    std::string path, query;  // of the target: before and after the question mark, still encoded
    std::string host, authorization;
    std::string origin;       // of the page that sends it, as a browser says
    std::string site;         // where the page comes from that sends it, as a browser says (Sec-Fetch-Site)
    std::string json_length;  // KServe's header for a JSON text that binary data follows
    std::string body;
    std::string peer;  // address of the client
};

struct HttpReply {
    int status = 200;
    std::string body;
    std::string content_type = "application/json";
    std::string allow = {};         // methods, of a status 405
    int retry_after = 0;            // seconds; 0: not said
    std::int64_t json_length = -1;  // of a body whose JSON binary data follows; -1: it has none
};

// To be called once, from any thread.
using SendReply = std::function<void(HttpReply)>;

struct HttpSettings {
    std::string host;
    int port = 0;  // 0: any that is free
    int threads = 1;
    std::int64_t connections = 0;
    std::int64_t body_bytes = 0;        // of a request
    std::int64_t all_bodies_bytes = 0;  // of all requests that are being read or answered
    std::chrono::milliseconds idle{}, read{},
        write{};  // limits of waiting, and of reading or writing as a whole
};

struct HttpHandlers {
    // A complete request. May be called from several threads at once.
    std::function<void(HttpRequest, SendReply)> handle;
    // The answer to a request by its header alone, before there is room for its body; nothing: it is read.
    std::function<std::optional<HttpReply>(const HttpRequest&)> turn_away;
    // The answer to a request that could not be read: its status and the reason.
    std::function<HttpReply(int status, const std::string& reason, const std::string& peer)> refuse;
};

class HttpServer {
  public:
    // Listens when it returns, and answers after start(). ConfigError if it cannot.
    HttpServer(const HttpSettings& settings, HttpHandlers handlers);
    ~HttpServer();  // stops
    void start();

    int port() const;
    std::int64_t connections() const;
    // Runs on one of the server's threads.
    void post(std::function<void()> work);
    // Accepts nothing more, answers every request that has begun to arrive, and returns when the last
    // connection is closed.
    void stop();

  private:
    class Core;
    std::shared_ptr<Core> core_;
};

}  // namespace elmo
