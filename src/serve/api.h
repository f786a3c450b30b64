// What can be asked of the server: routes, who may ask, and the answers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elmo/config.h"
#include "elmo/context.h"
#include "elmo/serve.h"
#include "serve/http/http_server.h"
#include "serve/metrics.h"
#include "serve/requests.h"
#include "serve/served_run.h"

namespace elmo {

class Api {
  public:
    using Runs = std::vector<std::unique_ptr<ServedRun>>;

    Api(const Context& context, const Config& config, const ServeOptions& options, const Runs& runs,
        Metrics& metrics);

    // The server whose requests these are, for its threads and counts. Before the first request.
    void serve_through(HttpServer& http) { http_ = &http; }
    void handle(HttpRequest request, SendReply send);
    // The answer to a client that shows no token where one is asked for, before the body is read.
    std::optional<HttpReply> turn_away(const HttpRequest& head);
    // The answer to what could not be read.
    HttpReply refuse(int status, const std::string& reason, const std::string& peer);

  private:
    struct Exchange;
    struct Route;
    using Asked = std::shared_ptr<Exchange>;
    using MakeReply = std::function<HttpReply(const Exchange& exchange, Outcome& outcome)>;

    static const std::vector<Route>& routes();
    void find_route(Exchange& exchange) const;
    void admit(const Exchange& exchange) const;
    bool may_ask(const HttpRequest& head) const;
    void finish(const Asked& exchange, HttpReply reply) const;
    void finish_with_error(const Asked& exchange, std::exception_ptr error) const;
    ServedRun& run_named(const std::string& name, int status) const;
    void ask(const Asked& exchange, Job::Kind kind, TextsRequest request, MakeReply make) const;
    Question question_of(const TextsRequest& request, const LoadedRun& run, std::int64_t top) const;

    void predict(const Asked& exchange) const;
    void embed(const Asked& exchange) const;
    void explain(const Asked& exchange) const;
    void labels(const Asked& exchange) const;
    void label(const Asked& exchange) const;
    void models(const Asked& exchange) const;
    void run(const Asked& exchange) const;
    void metrics(const Asked& exchange) const;
    void openapi(const Asked& exchange) const;
    void page(const Asked& exchange) const;
    void alive(const Asked& exchange) const;
    void server_of_kserve(const Asked& exchange) const;
    void model_of_kserve(const Asked& exchange) const;
    void model_ready(const Asked& exchange) const;
    void infer(const Asked& exchange) const;

    Context context_;
    Config config_;
    ServeOptions options_;
    const Runs& runs_;
    Metrics& metrics_;
    HttpServer* http_ = nullptr;
    bool local_only_;  // no token, and only for this machine: other names in requests are a trick of a web
                       // page
};

// Made of src/serve/openapi.json and src/serve/page.html when the program is built.
extern const char* const kOpenApi;
extern const char* const kPage;

}  // namespace elmo
