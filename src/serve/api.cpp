#include "serve/api.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "elmo/messages.h"
#include "elmo/predictor.h"
#include "serve/http/exchange.h"

namespace elmo {
namespace {

constexpr const char* kOther = "other";  // the route of what has none: the names of metrics must not grow
constexpr std::int64_t kExplained = 3;   // labels of a text, where nobody says how many

// Texts of larger requests are tokenized by the thread of the batches: those of the connections stay free for
// others.
constexpr std::int64_t kTokenizedHere = 256 << 10;

HttpReply error_reply(int status, const std::string& message, const std::string& field, int retry_after = 0) {
    HttpReply reply;
    reply.status = status;
    reply.body = to_json(ErrorReply{message, field});
    reply.retry_after = retry_after;
    return reply;
}

// The field that a message of the library begins with: "labels[2]: expected ...".
std::string field_of(std::string_view message) {
    const std::size_t end = message.find(": ");
    if (end == std::string_view::npos) return "";
    const std::string_view field = message.substr(0, end);
    const bool plain = std::all_of(field.begin(), field.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '[' || c == ']';
    });
    return plain ? std::string(field) : "";
}

// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b) {
    unsigned different = a.size() != b.size() ? 1 : 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        different |=
            static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
    return different == 0;
}

// A name such as 127.example.org is whose domain that is.
bool is_this_machine(std::string_view host) {
    in_addr address{};
    return host == "localhost" || host == "::1" || host == "[::1]" ||
           (host.starts_with("127.") && ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1);
}

// A host as a request names it, without its port.
std::string_view without_port(std::string_view host) {
    const std::size_t colon = host.rfind(':');
    return colon == std::string_view::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

std::vector<std::string_view> parts_of(std::string_view path) {
    std::vector<std::string_view> parts;
    while (!path.empty()) {
        path.remove_prefix(1);  // the slash
        const std::size_t end = path.find('/');
        parts.push_back(path.substr(0, end));
        path.remove_prefix(end == std::string_view::npos ? path.size() : end);
    }
    return parts;
}

// Whether the path is the route's; sets the name that stands for {model}.
bool matches(std::string_view route, std::string_view path, std::string& model) {
    if (path.empty() || path.front() != '/') return false;
    const auto wanted = parts_of(route), found = parts_of(path);
    if (wanted.size() != found.size()) return false;
    std::string name;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == "{model}")
            name = decode_url(found[i], "model");
        else if (wanted[i] != found[i])
            return false;
    }
    model = name;
    return true;
}

std::string now_text() {
    const auto now = std::chrono::system_clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(ms / 1000)),
                       ms % 1000);
}

}  // namespace

Api::Api(const Context& context, const Config& config, const ServeOptions& options, const Runs& runs,
         Metrics& metrics)
    : context_(context),
      config_(resolve_prediction(config)),
      options_(options),
      runs_(runs),
      metrics_(metrics),
      local_only_(options.tokens.empty() && is_this_machine(options.host)) {}

const std::vector<Api::Route>& Api::routes() {
    static const std::vector<Route> all = {
        {"POST", "/v1/predict", &Api::predict},
        {"POST", "/v1/embed", &Api::embed},
        {"POST", "/v1/explain", &Api::explain},
        {"GET", "/v1/labels", &Api::labels, false, {"model", "query", "first", "limit"}},
        {"GET", "/v1/label", &Api::label, false, {"model", "label", "limit"}},
        {"GET", "/v1/models", &Api::models},
        {"GET", "/v1/run", &Api::run, false, {"model"}},
        {"GET", "/metrics", &Api::metrics},
        {"GET", "/", &Api::page, true},
        {"GET", "/openapi.json", &Api::openapi, true},
        {"GET", "/healthz", &Api::alive, true},
        {"GET", "/readyz", &Api::alive, true},
        {"GET", "/v2/health/live", &Api::alive, true},
        {"GET", "/v2/health/ready", &Api::alive, true},
        {"GET", "/v2", &Api::server_of_kserve},
        {"GET", "/v2/models/{model}", &Api::model_of_kserve},
        {"GET", "/v2/models/{model}/ready", &Api::model_ready},
        {"POST", "/v2/models/{model}/infer", &Api::infer},
    };
    return all;
}

void Api::find_route(Exchange& exchange) const {
    const std::string method = exchange.request.method == "HEAD" ? "GET" : exchange.request.method;
    std::string allowed;
    for (const Route& route : routes()) {
        if (!matches(route.path, exchange.request.path, exchange.model)) continue;
        if (route.method == method) {
            exchange.route = &route;
            return;
        }
        allowed = route.method;
    }
    if (!allowed.empty()) throw HttpError(405, allowed);
    throw HttpError(
        404, fmt::format("no such path: '{}'; /openapi.json lists all", quoted(exchange.request.path)));
}

namespace {

// Older browsers send no Sec-Fetch-Site. A site is a host with all of its ports.
bool is_of_other_site(const HttpRequest& request) {
    if (!request.site.empty()) return request.site == "cross-site";
    if (request.origin.empty()) return false;
    const std::size_t scheme = request.origin.find("://");
    return scheme == request.origin.npos ||
           without_port(std::string_view(request.origin).substr(scheme + 3)) != without_port(request.host);
}

}  // namespace

void Api::admit(const Exchange& exchange) const {
    const std::string_view host = without_port(exchange.request.host);
    if (local_only_ && !host.empty() && !is_this_machine(host))
        throw HttpError(
            421, fmt::format("this server answers as localhost only, found the host '{}'", quoted(host)));
    if (exchange.route->open) return;
    if (local_only_ && is_of_other_site(exchange.request))
        throw HttpError(403, "this server does not answer to pages of other sites");
    if (!may_ask(exchange.request))
        throw HttpError(401, "expected a token of this server as 'Authorization: Bearer TOKEN'");
}

bool Api::may_ask(const HttpRequest& head) const {
    constexpr std::string_view kBearer = "Bearer ";
    std::string_view token = head.authorization;
    bool known = options_.tokens.empty();
    if (token.starts_with(kBearer)) {
        token.remove_prefix(kBearer.size());
        for (const std::string& secret : options_.tokens) known |= same_secret(secret, token);
    }
    return known;
}

void Api::handle(HttpRequest request, SendReply send) {
    auto exchange = std::make_shared<Exchange>();
    exchange->bytes_in = static_cast<std::int64_t>(request.body.size());
    exchange->request = std::move(request);
    exchange->send = std::move(send);
    try {
        find_route(*exchange);
        admit(*exchange);
        if (!exchange->route->open) check_query(exchange->request.query, exchange->route->query);
        (this->*exchange->route->run)(exchange);
    } catch (...) {
        finish_with_error(exchange, std::current_exception());
    }
}

std::optional<HttpReply> Api::turn_away(const HttpRequest& head) {
    std::optional<HttpReply> reply;
    if (may_ask(head)) return reply;  // what else is wrong is said when all of it is there
    const auto exchange = std::make_shared<Exchange>();
    exchange->request = head;
    exchange->send = [&](HttpReply made) { reply = std::move(made); };
    try {
        find_route(*exchange);
        admit(*exchange);
    } catch (...) {
        finish_with_error(exchange, std::current_exception());
    }
    return reply;
}

HttpReply Api::refuse(int status, const std::string& reason, const std::string& peer) {
    metrics_.request(kOther, status, 0, 0);
    if (options_.log) {
        LogLine line;
        line.time = now_text();
        line.peer = peer;
        line.status = status;
        options_.log(to_json(line));
    }
    return error_reply(status, reason, status == 413 ? "body" : "");
}

void Api::finish(const Asked& exchange, HttpReply reply) const {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - exchange->began).count();
    const bool answered = reply.status < 300;
    metrics_.request(exchange->route != nullptr ? exchange->route->path : kOther, reply.status, seconds,
                     answered ? exchange->texts : 0);
    if (options_.log) {
        LogLine line;
        line.time = now_text();
        line.peer = exchange->request.peer;
        line.method = exchange->request.method;
        line.path = exchange->request.path;
        line.model = exchange->loaded ? exchange->model : "";
        line.status = reply.status;
        line.milliseconds = std::round(seconds * 1e6) / 1e3;
        line.texts = exchange->texts;
        line.bytes_in = exchange->bytes_in;
        line.bytes_out = static_cast<std::int64_t>(reply.body.size());
        options_.log(to_json(line));
    }
    exchange->send(std::move(reply));
}

void Api::finish_with_error(const Asked& exchange, std::exception_ptr error) const {
    HttpReply reply;
    try {
        std::rethrow_exception(error);
    } catch (const HttpError& e) {
        if (e.status() == 405) {
            reply = error_reply(
                405, fmt::format("expected {}, found {}", e.what(), quoted(exchange->request.method)), "");
            reply.allow = e.what();
        } else {
            const bool of_model = std::string_view(e.what()).starts_with("model: ");  // else of the path
            reply = error_reply(e.status(), e.what(), of_model ? "model" : "", e.retry_after());
        }
    } catch (const BadField& e) {
        reply = error_reply(400, e.what(), e.field());
    } catch (const TooLate& e) {
        reply = error_reply(503, e.what(), "", 1);
    } catch (const ConfigError& e) {
        reply = error_reply(400, e.what(), field_of(e.what()));
    } catch (const DataError& e) {
        reply = error_reply(400, e.what(), field_of(e.what()));
    } catch (const std::exception& e) {
        context_.warning(fmt::format("{}: {}", exchange->request.path, e.what()));
        reply = error_reply(500, "the server failed at this request; its log says why", "");
    }
    finish(exchange, std::move(reply));
}

ServedRun& Api::run_named(const std::string& name, int status) const {
    if (name.empty() && runs_.size() == 1) return *runs_.front();
    std::vector<std::string> names;
    for (const auto& run : runs_) {
        if (run->name() == name) return *run;
        names.push_back(run->name());
    }
    if (name.empty())
        throw BadField("model",
                       fmt::format("this field is missing: name one of the {} models that /v1/models lists",
                                   runs_.size()));
    const std::string message =
        fmt::format("no model is called '{}'{}", quoted(name), did_you_mean(name, names));
    if (status == 404) throw HttpError(404, "model: " + message);
    throw BadField("model", message);
}

namespace {

// Ascending and distinct. BadField or DataError for one that the run does not have.
std::vector<std::int64_t> find_labels(const std::vector<WantedLabel>& wanted, const std::string& field,
                                      const Predictor& predictor) {
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::string where = fmt::format("{}[{}]", field, i);
        if (const auto* name = std::get_if<std::string>(&wanted[i])) {
            const std::vector<std::int64_t> labels = predictor.find_label(*name, where);
            found.insert(found.end(), labels.begin(), labels.end());
            continue;
        }
        const std::int64_t number = std::get<std::int64_t>(wanted[i]);
        if (number < 0 || number >= predictor.num_labels())
            throw BadField(where,
                           fmt::format("expected a label number from 0 to {}, found {}; a name stands in "
                                       "quotes",
                                       predictor.num_labels() - 1, number));
        found.push_back(number);
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

// Labels that are to be explained are all answered, unless the request says otherwise.
void explain_all(const TextsRequest& request, Question& question) {
    if (!request.threshold) question.threshold = 0;
    if (request.top) return;
    question.top = std::ssize(question.labels);
    if (question.top > kMostTop)
        throw BadField("labels",
                       fmt::format("expected up to {} labels to explain, found {}; top takes the best "
                                   "of them",
                                   kMostTop, question.top));
}

}  // namespace

Question Api::question_of(const TextsRequest& request, const LoadedRun& run, std::int64_t top) const {
    Question question;
    question.threshold = request.threshold.value_or(config_.threshold);
    question.top = request.top.value_or(top);
    question.labels = find_labels(request.labels, "labels", run.predictor);
    question.without = find_labels(request.without, "without", run.predictor);
    return question;
}

void Api::ask(const Asked& exchange, Job::Kind kind, TextsRequest request, MakeReply make) const {
    ServedRun& run = run_named(exchange->model.empty() ? request.model : exchange->model,
                               exchange->model.empty() ? 400 : 404);
    exchange->model = run.name();
    exchange->loaded = run.current();
    exchange->texts = static_cast<std::int64_t>(request.texts.size()) + request.vectors.rows;
    exchange->id = std::move(request.id);
    exchange->outputs = std::move(request.outputs);
    exchange->binary = request.binary;
    exchange->request.body = {};
    const bool all_above = request.threshold && !given(config_, "top");
    exchange->question = question_of(request, *exchange->loaded,
                                     kind == Job::Kind::kExplain ? kExplained
                                     : all_above                 ? kMostTop
                                                 : std::min<std::int64_t>(config_.top, kMostTop));
    if (kind == Job::Kind::kExplain && !request.labels.empty()) explain_all(request, exchange->question);
    const auto refuse_more = [&] {
        throw HttpError(429, fmt::format("{} texts wait already; try again", run.queue().texts()), 1);
    };
    Job job;
    job.kind = kind;
    job.run = exchange->loaded;
    job.question = exchange->question;
    job.texts = std::move(request.texts);
    job.vectors = std::move(request.vectors);
    if (kind == Job::Kind::kPredict && !job.texts.empty() && exchange->bytes_in <= kTokenizedHere) {
        if (!run.queue().has_room(job.size())) refuse_more();  // before the work
        job.tokens = exchange->loaded->predictor.tokenize(job.texts);
        job.texts.clear();
    }
    job.deadline = exchange->began + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                         std::chrono::duration<double>(options_.deadline));
    job.done = [this, exchange, make = std::move(make)](Outcome outcome) {
        try {
            if (outcome.error) std::rethrow_exception(outcome.error);
            finish(exchange, make(*exchange, outcome));
        } catch (...) {
            finish_with_error(exchange, std::current_exception());
        }
    };
    if (!run.queue().add(std::move(job))) refuse_more();
}

}  // namespace elmo
