// The answers of each route.
#include <fmt/format.h>

#include "base/process_memory.h"
#include "elmo/version.h"
#include "serve/api.h"
#include "serve/http/exchange.h"
#include "serve/run_report.h"

namespace elmo {
namespace {

constexpr std::int64_t kUsualFound = 20, kMostFound = 1000;

HttpReply json_reply(std::string body) {
    HttpReply reply;
    reply.body = std::move(body);
    return reply;
}

// The best labels of texts as tensors: a row per text, filled up with label -1.
struct LabelTensors {
    std::vector<std::int64_t> shape, label;
    std::vector<std::string> name;
    std::vector<float> probability, score;

    explicit LabelTensors(const std::vector<std::vector<Prediction>>& answers) {
        std::size_t columns = 0;
        for (const auto& answer : answers) columns = std::max(columns, answer.size());
        shape = {static_cast<std::int64_t>(answers.size()), static_cast<std::int64_t>(columns)};
        for (const auto& answer : answers)
            for (std::size_t i = 0; i < columns; ++i) {
                const Prediction entry = i < answer.size() ? answer[i] : Prediction{-1, "", 0, 0};
                label.push_back(entry.label);
                name.push_back(entry.name);
                probability.push_back(entry.probability);
                score.push_back(entry.score);
            }
    }
};

}  // namespace

void Api::predict(const Asked& exchange) const {
    ask(exchange, Job::Kind::kPredict,
        read_request(exchange->request.body, Endpoint::kPredict, options_.max_texts),
        [](const Exchange& x, Outcome& outcome) {
            PredictReply reply{x.answerer(), x.loaded->predictor.calibrated(), {}, {}};
            if (!x.among) reply.index = x.loaded->predictor.index();
            std::int64_t line = 0;
            for (auto& labels : outcome.answers)
                reply.answers.push_back({"", ++line, {}, {}, std::move(labels)});
            return to_json(reply);
        });
}

void Api::embed(const Asked& exchange) const {
    ask(exchange, Job::Kind::kEmbed,
        read_request(exchange->request.body, Endpoint::kEmbed, options_.max_texts),
        [](const Exchange& x, Outcome& outcome) {
            EmbedReply reply{x.answerer(), outcome.vectors.width, {}};
            for (std::int64_t i = 0; i < outcome.vectors.rows; ++i)
                reply.vectors.push_back(outcome.vectors.row(i));
            return to_json(reply);
        });
}

void Api::explain(const Asked& exchange) const {
    ask(exchange, Job::Kind::kExplain, read_request(exchange->request.body, Endpoint::kExplain, 1),
        [](const Exchange& x, Outcome& outcome) {
            return to_json(ExplainReply{x.answerer(), x.loaded->predictor.calibrated(), outcome.explanation});
        });
}

void Api::labels(const Asked& exchange) const {
    const std::string& query = exchange->request.query;
    const ServedRun& run = run_named(query_value(query, "model").value_or(""), 400);
    exchange->model = run.name();
    exchange->loaded = run.current();
    const std::int64_t first = query_number(query, "first", 0, std::int64_t{1} << 40);
    const std::int64_t limit = query_number(query, "limit", kUsualFound, kMostFound);
    finish(exchange,
           json_reply(to_json(LabelsReply{exchange->answerer(),
                                          exchange->loaded->predictor.search_labels(
                                              query_value(query, "query").value_or(""), first, limit)})));
}

void Api::models(const Asked& exchange) const {
    std::vector<ModelReply> found;
    for (const auto& run : runs_) {
        const auto loaded = run->current();
        const Predictor& predictor = loaded->predictor;
        found.push_back({{run->name(), loaded->checkpoint},
                         predictor.num_labels(),
                         predictor.calibrated(),
                         predictor.has_vectors(),
                         predictor.plan().device,
                         predictor.index()});
    }
    finish(exchange, json_reply(to_json(FieldGroup{[&](auto&& visit) { visit("models", found); }})));
}

void Api::run(const Asked& exchange) const {
    const ServedRun& served = run_named(query_value(exchange->request.query, "model").value_or(""), 400);
    exchange->model = served.name();
    exchange->loaded = served.current();
    finish(exchange, json_reply(run_report(served, *exchange->loaded)));
}

void Api::metrics(const Asked& exchange) const {
    std::vector<Gauge> gauges = {{"elmo_connections", "", static_cast<double>(http_->connections())},
                                 {"elmo_process_resident_bytes", "", static_cast<double>(resident_bytes())}};
    for (const auto& run : runs_)
        gauges.push_back({"elmo_queue_texts", "model=" + metric_text(run->name()),
                          static_cast<double>(run->queue().texts())});
    for (const auto& run : runs_) {
        const MemoryReport& plan = run->current()->predictor.plan();
        gauges.push_back(
            {"elmo_device_memory_bytes",
             fmt::format("model={},device={}", metric_text(run->name()), metric_text(plan.device)),
             static_cast<double>(plan.arena_bytes)});
    }
    HttpReply reply = json_reply(metrics_.page(gauges));
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    finish(exchange, std::move(reply));
}

void Api::openapi(const Asked& exchange) const {
    finish(exchange, json_reply(kOpenApi));
}

void Api::page(const Asked& exchange) const {
    HttpReply reply = json_reply(kPage);
    reply.content_type = "text/html; charset=utf-8";
    finish(exchange, std::move(reply));
}

// A server that answers has loaded its runs.
void Api::alive(const Asked& exchange) const {
    const bool live = exchange->request.path == "/v2/health/live" || exchange->request.path == "/healthz";
    finish(exchange, json_reply(live ? R"({"live":true})" : R"({"ready":true})"));
}

void Api::server_of_kserve(const Asked& exchange) const {
    finish(exchange, json_reply(to_json(FieldGroup{[](auto&& visit) {
               visit("name", "elmo");
               visit("version", version());
               visit("extensions", std::vector<std::string>{"binary_tensor_data"});
           }})));
}

void Api::model_of_kserve(const Asked& exchange) const {
    const ServedRun& served = run_named(exchange->model, 404);
    exchange->loaded = served.current();
    using Description = TensorReply<float>;
    const std::vector<Description> inputs = {{"text", "BYTES", {-1}}};
    const std::vector<Description> outputs = {{"label", "INT64", {-1, -1}},
                                              {"name", "BYTES", {-1, -1}},
                                              {"probability", "FP32", {-1, -1}},
                                              {"score", "FP32", {-1, -1}}};
    finish(exchange, json_reply(to_json(FieldGroup{[&](auto&& visit) {
               visit("name", served.name());
               visit("versions", std::vector<std::string>{exchange->loaded->checkpoint});
               visit("platform", "elmo");
               visit("inputs", inputs);
               visit("outputs", outputs);
           }})));
}

void Api::model_ready(const Asked& exchange) const {
    run_named(exchange->model, 404);
    finish(exchange, json_reply(R"({"ready":true})"));
}

void Api::infer(const Asked& exchange) const {
    run_named(exchange->model, 404);
    ask(exchange, Job::Kind::kPredict,
        read_infer_request(exchange->request.body, exchange->request.json_length, options_.max_texts),
        [](const Exchange& x, Outcome& outcome) {
            const LabelTensors tensors(outcome.answers);
            std::string body = to_json(FieldGroup{[&](auto&& visit) {
                visit("model_name", x.model);
                visit("model_version", x.loaded->checkpoint);
                if (!x.id.empty()) visit("id", x.id);
            }});
            body.back() = ',';  // the tensors differ in type, so they are no list of fields
            body += "\"outputs\":[";
            body += to_json(TensorReply<std::int64_t>{"label", "INT64", tensors.shape, &tensors.label}) + ",";
            body += to_json(TensorReply<std::string>{"name", "BYTES", tensors.shape, &tensors.name}) + ",";
            body +=
                to_json(TensorReply<float>{"probability", "FP32", tensors.shape, &tensors.probability}) + ",";
            body += to_json(TensorReply<float>{"score", "FP32", tensors.shape, &tensors.score}) + "]}";
            return body;
        });
}

}  // namespace elmo
