#include "serve/http/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <thread>
#include <vector>

#include "elmo/error.h"
#include "serve/http/http_connection.h"

namespace elmo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNoDescriptors{100};  // before the next try to accept
// How long the first request of a client may be on its way before the client has to make room for another.
constexpr std::chrono::milliseconds kFirstRequest{500};

tcp::endpoint endpoint_of(const HttpSettings& settings) {
    if (settings.port < 0 || settings.port > 65535)
        throw ConfigError(fmt::format("port: expected 0 to 65535, found {}", settings.port));
    Failure error;
    asio::io_context context;
    const auto port = std::to_string(settings.port);
    const auto found = tcp::resolver(context).resolve(settings.host, port, tcp::resolver::passive, error);
    if (error || found.empty())
        throw ConfigError(fmt::format("host: expected a name or an address of this machine, found '{}': {}",
                                      settings.host, error.message()));
    return found.begin()->endpoint();
}

}  // namespace

// Accepts clients, and owns the threads.
class HttpServer::Core : public ConnectionHost, public std::enable_shared_from_this<Core> {
  public:
    Core(const HttpSettings& given, HttpHandlers given_handlers)
        : ConnectionHost(given, std::move(given_handlers)),
          acceptor_(asio::make_strand(context)),
          room_(acceptor_.get_executor()) {
        const tcp::endpoint endpoint = endpoint_of(settings);
        try {
            acceptor_.open(endpoint.protocol());
            acceptor_.set_option(asio::socket_base::reuse_address(true));
            acceptor_.bind(endpoint);
            acceptor_.listen(asio::socket_base::max_listen_connections);
            port_ = acceptor_.local_endpoint().port();
        } catch (const boost::system::system_error& error) {
            throw ConfigError(fmt::format("port: cannot listen at {} port {}: {}; is another server running?",
                                          settings.host, settings.port, error.code().message()));
        }
    }

    void start();
    void stop();
    int port() const { return port_; }
    std::int64_t connections() const { return count_; }

    void ended() override {
        {
            const std::lock_guard lock(mutex_);
            --count_;
            gone_.notify_all();
        }
        resume();
    }

    asio::io_context context;

  private:
    void wait_for_client();
    void accept();
    // Accepts again, if there was no room.
    void resume() {
        if (crowded_.exchange(false))
            asio::post(acceptor_.get_executor(), [self = shared_from_this()] { self->wait_for_client(); });
    }
    void make_room();
    void close_idle();
    static void end_waiting(std::shared_ptr<HttpConnection> connection);

    tcp::acceptor acceptor_;
    asio::steady_timer room_;
    int port_ = 0;
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
    std::vector<std::thread> threads_;
    std::atomic<std::int64_t> count_{0};
    std::condition_variable gone_;  // with mutex_
};

void HttpServer::Core::start() {
    work_.emplace(context.get_executor());
    wait_for_client();
    for (int i = 0; i < settings.threads; ++i) threads_.emplace_back([this] { context.run(); });
}

void HttpServer::Core::wait_for_client() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [self = shared_from_this()](Failure error) {
        if (error || self->stopping_) return;
        if (self->count_ < self->settings.connections) return self->accept();
        self->crowded_ = true;  // the next connection that ends makes room
        self->make_room();
        if (self->count_ < self->settings.connections) self->resume();  // one has ended meanwhile
    });
}

void HttpServer::Core::accept() {
    acceptor_.async_accept(asio::make_strand(context), [self = shared_from_this()](Failure error,
                                                                                   tcp::socket socket) {
        if (self->stopping_) return;
        if (!error) {
            ++self->count_;
            auto connection = std::make_shared<HttpConnection>(self, std::move(socket));
            asio::post(connection->executor(), [connection] { connection->wait(); });
        } else if (error == asio::error::no_descriptors || error == asio::error::no_buffer_space) {
            auto timer = std::make_shared<asio::steady_timer>(self->acceptor_.get_executor(), kNoDescriptors);
            return timer->async_wait([self, timer](Failure) { self->wait_for_client(); });
        }
        self->wait_for_client();
    });
}

// While a client waits to be accepted: ends the longest waiting of the connections that have been answered,
// or, where there are none, of those whose first request should have come; then looks again.
void HttpServer::Core::make_room() {
    if (!crowded_ || stopping_) return;
    std::shared_ptr<HttpConnection> ended;
    {
        const std::lock_guard lock(mutex_);
        const auto long_enough = Clock::now() - kFirstRequest;
        auto found = std::ranges::find_if(idle_, [](const Waiting& one) { return !one.is_new; });
        if (found == idle_.end())
            found = std::ranges::find_if(idle_, [&](const Waiting& one) { return one.since <= long_enough; });
        if (found != idle_.end()) ended = found->connection.lock();
    }
    if (ended) end_waiting(std::move(ended));
    room_.expires_after(kFirstRequest / 10);
    room_.async_wait([self = shared_from_this()](Failure error) {
        if (!error) self->make_room();
    });
}

void HttpServer::Core::close_idle() {
    const std::lock_guard lock(mutex_);
    for (const Waiting& waiting : idle_)
        if (auto connection = waiting.connection.lock()) end_waiting(std::move(connection));
}

// Moved, as the last one who holds a connection ends it, which needs the lock.
void HttpServer::Core::end_waiting(std::shared_ptr<HttpConnection> connection) {
    const auto executor = connection->executor();
    asio::post(executor, [held = std::move(connection)] { held->close_if_idle(); });
}

void HttpServer::Core::stop() {
    if (threads_.empty()) return;
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
        self->stopping_ = true;
        Failure ignored;
        self->acceptor_.close(ignored);
        self->room_.cancel();
        self->close_idle();
        const std::lock_guard lock(self->mutex_);
        self->gone_.notify_all();
    });
    {
        std::unique_lock lock(mutex_);
        gone_.wait(lock, [&] { return stopping_ && count_ == 0; });
    }
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

HttpServer::HttpServer(const HttpSettings& settings, HttpHandlers handlers)
    : core_(std::make_shared<Core>(settings, std::move(handlers))) {}
void HttpServer::start() {
    core_->start();
}
HttpServer::~HttpServer() {
    stop();
}
int HttpServer::port() const {
    return core_->port();
}
std::int64_t HttpServer::connections() const {
    return core_->connections();
}
void HttpServer::post(std::function<void()> work) {
    asio::post(core_->context, std::move(work));
}
void HttpServer::stop() {
    core_->stop();
}

}  // namespace elmo
