// One client of the HTTP server: reads its requests, has them answered, writes the answers. Included by
// http_server.cpp only, which owns the rest of Beast.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "serve/http/http_server.h"

namespace elmo {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Failure = boost::system::error_code;

class HttpConnection;

// What connections share.
class ConnectionHost {
  public:
    ConnectionHost(const HttpSettings& given, HttpHandlers given_handlers)
        : settings(given), handlers(std::move(given_handlers)) {}
    virtual ~ConnectionHost() = default;

    // Room for the body of a request, until it is given back.
    bool take_bytes(std::int64_t bytes) {
        if (body_bytes_.fetch_add(bytes) + bytes <= settings.all_bodies_bytes) return true;
        body_bytes_ -= bytes;
        return false;
    }
    void give_bytes(std::int64_t bytes) { body_bytes_ -= bytes; }

    // The connections that wait for a request, the longest waiting in front; new ones wait for their first.
    struct Waiting {
        std::weak_ptr<HttpConnection> connection;
        bool is_new = false;
        std::chrono::steady_clock::time_point since;
    };
    using Place = std::list<Waiting>::iterator;
    Place begin_idle(const std::shared_ptr<HttpConnection>& connection, bool is_new) {
        const std::lock_guard lock(mutex_);
        return idle_.insert(idle_.end(), {connection, is_new, std::chrono::steady_clock::now()});
    }
    void end_idle(Place place) {
        const std::lock_guard lock(mutex_);
        idle_.erase(place);
    }

    bool stopping() const { return stopping_; }
    bool crowded() const { return crowded_; }  // a client waits to be accepted
    virtual void ended() = 0;                  // of a connection

    const HttpSettings settings;
    const HttpHandlers handlers;

  protected:
    std::atomic<std::int64_t> body_bytes_{0};
    std::atomic<bool> stopping_{false}, crowded_{false};
    std::mutex mutex_;  // of idle_
    std::list<Waiting> idle_;
};

// One client. Its functions run on its strand, one at a time.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
  public:
    HttpConnection(std::shared_ptr<ConnectionHost> host, tcp::socket socket)
        : host_(std::move(host)), socket_(std::move(socket)), timer_(socket_.get_executor()) {
        Failure error;
        socket_.set_option(tcp::no_delay(true), error);
        const tcp::endpoint peer = socket_.remote_endpoint(error);
        if (!error) peer_ = peer.address().to_string();
    }
    ~HttpConnection() {
        release();
        host_->ended();
    }

    // The continuation of an operation: keeps this object alive.
    template <class Then>
    auto on(Then then) {
        return [self = shared_from_this(), then](auto... result) mutable { then(result...); };
    }

    tcp::socket::executor_type executor() { return socket_.get_executor(); }

    // Waits for the first byte of a request.
    void wait() {
        release();
        if (buffer_.size() > 0) return read();  // sent together with the last one
        if ((host_->stopping() || (host_->crowded() && !is_new_)) && nothing_came()) return close();
        phase_ = Phase::kIdle;
        place_ = host_->begin_idle(shared_from_this(), is_new_);
        arm(host_->settings.idle);
        socket_.async_read_some(buffer_.prepare(kReadBytes), on([this](Failure error, std::size_t bytes) {
                                    host_->end_idle(place_);
                                    buffer_.commit(bytes);
                                    // A request came in the moment in which the waiting was ended.
                                    if (error == asio::error::operation_aborted && !nothing_came())
                                        return wait();
                                    if (error) return close();
                                    read();
                                }));
        if (host_->stopping()) close_if_idle();  // it may have begun after all that wait were closed
    }

    // Ends the waiting, which closes; what was read before that is a request, and is answered.
    void close_if_idle() {
        Failure ignored;
        if (phase_ == Phase::kIdle && nothing_came()) socket_.cancel(ignored);
    }

  private:
    static constexpr std::size_t kHeaderBytes = 16 << 10, kReadBytes = 16 << 10;
    static constexpr std::chrono::milliseconds kLinger{2000}, kLeastTurn{1000};
    using Clock = std::chrono::steady_clock;

    enum class Phase { kIdle, kReading, kAnswering, kWriting, kLingering };

    // A request that has begun to arrive is answered.
    bool nothing_came() const {
        Failure error;
        return socket_.available(error) == 0 || error;
    }

    // The phase ends by then. The timer runs on from phase to phase, at most until the next request would
    // have to be there: to set it again costs more than the rest of a phase.
    void arm(std::chrono::milliseconds limit) {
        deadline_ = Clock::now() + limit;
        if (!timer_runs_ || *deadline_ < timer_.expiry()) start_timer();
    }
    void disarm() { deadline_.reset(); }

    void start_timer() {
        timer_runs_ = true;
        const auto turn = std::max<Clock::duration>(host_->settings.read, kLeastTurn);
        timer_.expires_at(std::min(*deadline_, Clock::now() + turn));
        timer_.async_wait(on([this](Failure error) {
            if (error) return;  // it was set again, or closed
            timer_runs_ = false;
            if (!deadline_) return;
            if (Clock::now() < *deadline_) return start_timer();
            late_ = true;
            Failure ignored;
            if (phase_ == Phase::kReading)
                socket_.cancel(ignored);  // what reads says so to the client
            else
                close();
        }));
    }

    void close() {
        Failure ignored;
        disarm();
        timer_.cancel();
        socket_.close(ignored);
    }

    void release() {
        host_->give_bytes(held_bytes_);
        held_bytes_ = 0;
    }

    // A request that lies in the buffer as a whole is parsed at once, without going through the queue of the
    // threads.
    void read() {
        phase_ = Phase::kReading;
        is_new_ = false;
        arm(host_->settings.read);
        parser_.emplace();
        parser_->header_limit(kHeaderBytes);
        parser_->body_limit(static_cast<std::uint64_t>(host_->settings.body_bytes));
        if (const Failure error = parse_buffer()) return refuse(error);
        if (parser_->is_header_done()) return read_body();
        http::async_read_header(socket_, buffer_, *parser_, on([this](Failure error, std::size_t) {
                                    if (error) return refuse(error);
                                    read_body();
                                }));
    }

    // Gives the parser what is there: up to the end of the header, or the body behind it.
    Failure parse_buffer() {
        Failure error;
        while (buffer_.size() > 0 && !parser_->is_done()) {
            const std::size_t used = parser_->put(buffer_.data(), error);
            buffer_.consume(used);
            if (error || used == 0 || (parser_->is_header_done() && !parser_->eager())) break;
        }
        return error == http::error::need_more ? Failure() : error;
    }

    void read_body() {
        const auto& request = parser_->get();
        keep_head(request);
        const auto length = parser_->content_length();
        const std::int64_t bytes = length              ? static_cast<std::int64_t>(*length)
                                   : request.chunked() ? host_->settings.body_bytes
                                                       : 0;
        if (bytes > 0)
            if (auto reply = host_->handlers.turn_away(request_)) return write(std::move(*reply), false);
        if (!host_->take_bytes(bytes)) {
            HttpReply reply = host_->handlers.refuse(
                503, "the server holds as many bytes of requests as it may; try again", peer_);
            reply.retry_after = 1;
            return write(std::move(reply), false);
        }
        held_bytes_ = bytes;
        if (boost::beast::iequals(request[http::field::expect], "100-continue")) {
            continue_ = http::response<http::empty_body>(http::status::continue_, 11);
            return http::async_write(socket_, *continue_, on([this](Failure error, std::size_t) {
                                         if (error) return close();
                                         read_rest();
                                     }));
        }
        read_rest();
    }

    void keep_head(const http::request<http::string_body>& message) {
        keep_alive_ = message.keep_alive();
        version_ = message.version();
        head_ = message.method() == http::verb::head;
        request_ = {};
        const auto text = [](boost::beast::string_view view) {
            return std::string(view.data(), view.size());
        };
        request_.method = text(message.method_string());
        const std::string target = text(message.target());
        const std::size_t mark = target.find('?');
        request_.path = target.substr(0, mark);
        if (mark != std::string::npos) request_.query = target.substr(mark + 1);
        request_.host = text(message[http::field::host]);
        request_.authorization = text(message[http::field::authorization]);
        request_.site = text(message["Sec-Fetch-Site"]);
        request_.origin = text(message[http::field::origin]);
        request_.json_length = text(message["Inference-Header-Content-Length"]);
        request_.peer = peer_;
    }

    void read_rest() {
        parser_->eager(true);
        if (const Failure error = parse_buffer()) return refuse(error);
        if (parser_->is_done()) return answer();
        http::async_read(socket_, buffer_, *parser_, on([this](Failure error, std::size_t) {
                             if (error) return refuse(error);
                             answer();
                         }));
    }

    // What could not be read is answered if somebody listens, and ends the connection.
    void refuse(Failure error) {
        const auto say = [&](int status, const std::string& reason) {
            write(host_->handlers.refuse(status, reason, peer_), false);
        };
        if (late_)
            return say(408, fmt::format("the request did not arrive within {} s",
                                        host_->settings.read.count() / 1000.0));
        if (error == http::error::body_limit)
            return say(413, fmt::format("the body has more than {} bytes", host_->settings.body_bytes));
        if (error == http::error::header_limit) return say(431, "the header is too long");
        if (error == http::error::end_of_stream || error == http::error::partial_message ||
            error.category() == boost::system::system_category() || error == asio::error::eof)
            return close();
        say(400, fmt::format("not a request of HTTP/1.1: {}", error.message()));
    }

    void answer() {
        phase_ = Phase::kAnswering;
        disarm();
        request_.body = std::move(parser_->release().body());
        host_->handlers.handle(std::move(request_), [self = shared_from_this()](HttpReply reply) {
            asio::dispatch(self->socket_.get_executor(), [self, reply = std::move(reply)]() mutable {
                self->write(std::move(reply), self->keep_alive_);
            });
        });
    }

    void write(HttpReply reply, bool keep_alive) {
        phase_ = Phase::kWriting;
        keep_alive = keep_alive && !host_->stopping();
        late_ = false;
        arm(host_->settings.write);
        response_.emplace(static_cast<http::status>(reply.status), version_);
        response_->set(http::field::content_type, reply.content_type);
        response_->set(http::field::cache_control, "no-store");
        response_->set("X-Content-Type-Options", "nosniff");
        if (reply.content_type.starts_with("text/html"))
            response_->set("Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                           "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                           "frame-ancestors 'none'");
        if (!reply.allow.empty()) response_->set(http::field::allow, reply.allow);
        if (reply.status == 401) response_->set(http::field::www_authenticate, "Bearer");
        if (reply.json_length >= 0)
            response_->set("Inference-Header-Content-Length", std::to_string(reply.json_length));
        if (reply.retry_after > 0)
            response_->set(http::field::retry_after, std::to_string(reply.retry_after));
        response_->keep_alive(keep_alive);
        response_->content_length(reply.body.size());
        if (!head_) response_->body() = std::move(reply.body);
        http::async_write(socket_, *response_, on([this, keep_alive](Failure error, std::size_t) {
                              response_.reset();
                              if (error) return close();
                              if (keep_alive) return wait();
                              linger();
                          }));
    }

    // A socket that is closed with unread bytes takes back the answer: what the client still sends is read
    // first.
    void linger() {
        phase_ = Phase::kLingering;
        Failure error;
        socket_.shutdown(tcp::socket::shutdown_send, error);
        if (error) return close();
        arm(kLinger);
        drain();
    }
    void drain() {
        buffer_.consume(buffer_.size());
        socket_.async_read_some(buffer_.prepare(kReadBytes), on([this](Failure error, std::size_t) {
                                    if (error) return close();
                                    drain();
                                }));
    }

    std::shared_ptr<ConnectionHost> host_;
    tcp::socket socket_;
    asio::steady_timer timer_;
    boost::beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_;
    std::optional<http::response<http::empty_body>> continue_;
    std::optional<http::response<http::string_body>> response_;
    ConnectionHost::Place place_;
    HttpRequest request_;  // that is being read: its header, then all of it
    std::string peer_;
    Phase phase_ = Phase::kReading;
    std::int64_t held_bytes_ = 0;
    std::optional<Clock::time_point> deadline_;  // of the phase
    bool timer_runs_ = false;
    unsigned version_ = 11;
    bool is_new_ = true;  // nothing of its first request has come
    bool keep_alive_ = false, head_ = false, late_ = false;
};

}  // namespace elmo
