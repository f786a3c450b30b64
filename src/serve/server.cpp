// The server: runs, their queues, HTTP, and a thread that looks for new checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "elmo/error.h"
#include "elmo/messages.h"
#include "elmo/serve.h"
#include "serve/api.h"

namespace elmo {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr std::int64_t kBodiesAtOnce = 64;  // of the largest size, in memory

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void check_options(const ServeOptions& o) {
    const auto within = [](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
        if (value < least || value > most)
            throw ConfigError(fmt::format("{}: expected {} to {}, found {}", name, least, most, value));
    };
    within("connections", o.connections, 1, 1'000'000);
    within("queue", o.queue, 0, 100'000'000);
    within("max-texts", o.max_texts, 1, 1'000'000);
    within("max-body", o.max_body, 1, std::int64_t{1} << 30);
    for (const auto& [name, value] : {std::pair{"deadline", o.deadline}, std::pair{"read-time", o.read_time},
                                      std::pair{"idle-time", o.idle_time}})
        if (!(value >= 0 && value <= 86400))
            throw ConfigError(fmt::format("{}: expected 0 to 86400 seconds, found {}", name, value));
    for (const std::string& token : o.tokens)
        if (token.empty() || token.find_first_of(" \t\r\n") != std::string::npos)
            throw ConfigError("tokens: expected tokens without spaces, found an empty one or a space");
}

}  // namespace

struct Server::Impl {
    Impl(const Context& given, const std::vector<std::string>& folders, const Config& config,
         const ServeOptions& given_options)
        : context(given), options(given_options) {
        check_options(options);
        if (folders.empty()) throw ConfigError("runs: expected the folder of a run, found none");
        if (options.log)
            options.log = [this, log = options.log](std::string_view line) {
                const std::lock_guard lock(log_mutex);
                log(line);
            };
        const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 2u, 8u));
        for (const std::string& folder : folders) {
            // The name is known only when the run is, and HTTP starts after it; batches come later.
            auto run = std::make_unique<ServedRun>(
                context, folder, config, options.queue,
                [this, index = runs.size()](std::int64_t texts) {
                    metrics.batch(runs[index]->name(), texts);
                },
                Elsewhere{[this](std::function<void()> work) { http->post(std::move(work)); }, threads});
            for (const auto& other : runs)
                if (other->name() == run->name())
                    throw ConfigError(fmt::format(
                        "runs: expected folders of different names, found '{}' twice", quoted(run->name())));
            runs.push_back(std::move(run));
        }
        api.emplace(context, config, options, runs, metrics);
        HttpSettings settings;
        settings.host = options.host;
        settings.port = options.port;
        settings.threads = threads;
        settings.connections = options.connections;
        settings.body_bytes = options.max_body;
        settings.all_bodies_bytes = kBodiesAtOnce * options.max_body;
        settings.idle = milliseconds(options.idle_time);
        settings.read = settings.write = milliseconds(options.read_time);
        http.emplace(settings,
                     HttpHandlers{[this](HttpRequest request, SendReply send) {
                                      api->handle(std::move(request), std::move(send));
                                  },
                                  [this](const HttpRequest& head) { return api->turn_away(head); },
                                  [this](int status, const std::string& reason, const std::string& peer) {
                                      return api->refuse(status, reason, peer);
                                  }});
        api->serve_through(*http);
        http->start();
        watcher = std::thread([this] { watch(); });
    }
    ~Impl() { stop(); }

    int reload() {
        const std::lock_guard lock(reload_mutex);
        int taken = 0;
        for (const auto& run : runs)
            if (run->reload()) {
                ++taken;
                metrics.reloaded(run->name());
                context.info(fmt::format("{}: took a new checkpoint or calibration", run->name()));
            }
        return taken;
    }

    void watch() {
        std::unique_lock lock(stop_mutex);
        while (!stop_asked.wait_for(lock, kLookEvery, [&] { return stopping; })) {
            lock.unlock();
            reload();
            lock.lock();
        }
    }

    void stop() {
        {
            const std::lock_guard lock(stop_mutex);
            stopping = true;
        }
        stop_asked.notify_all();
        if (watcher.joinable()) watcher.join();
        if (http) http->stop();  // while the queues still answer
    }

    Context context;
    ServeOptions options;
    Metrics metrics;
    Api::Runs runs;
    std::mutex log_mutex, reload_mutex, stop_mutex;
    std::condition_variable stop_asked;
    bool stopping = false;
    std::optional<Api> api;
    std::optional<HttpServer> http;
    std::thread watcher;
};

Server::Server(const Context& context, const std::vector<std::string>& runs, const Config& config,
               const ServeOptions& options)
    : impl_(std::make_unique<Impl>(context, runs, config, options)) {}
Server::~Server() = default;
int Server::port() const {
    return impl_->http->port();
}
int Server::reload() {
    return impl_->reload();
}
void Server::stop() {
    impl_->stop();
}

}  // namespace elmo
