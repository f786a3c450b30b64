// The answers of each route.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/process_memory.h"
#include "elmo/messages.h"
#include "elmo/version.h"
#include "serve/api.h"
#include "serve/http/exchange.h"
#include "serve/run_report.h"

namespace elmo {
namespace {

constexpr std::int64_t kUsualFound = 20, kMostFound = 1000, kUsualNear = 10;

HttpReply json_reply(std::string body) {
    HttpReply reply;
    reply.body = std::move(body);
    return reply;
}

// KServe's tensors of an answer.
struct TensorKind {
    std::string_view name, datatype;
};
constexpr std::array<TensorKind, 4> kTensors = {
    {{"label", "INT64"}, {"name", "BYTES"}, {"probability", "FP32"}, {"score", "FP32"}}};

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

    // Calls use(values) with the values of a tensor.
    template <typename Use>
    void visit(std::string_view tensor, const Use& use) const {
        if (tensor == "label")
            use(label);
        else if (tensor == "name")
            use(name);
        else if (tensor == "probability")
            use(probability);
        else
            use(score);
    }
};

// Numbers as they lie in memory (little-endian), texts with their length in four bytes before them. Returns
// the bytes.
template <typename T>
std::int64_t append_binary(std::string& to, const std::vector<T>& values) {
    const std::size_t before = to.size();
    if constexpr (std::same_as<T, std::string>) {
        for (const std::string& text : values) {
            const auto length = static_cast<std::uint32_t>(text.size());
            to.append(reinterpret_cast<const char*>(&length), sizeof length);
            to += text;
        }
    } else {
        to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    }
    return static_cast<std::int64_t>(to.size() - before);
}

}  // namespace

void Api::predict(const Asked& exchange) const {
    ask(exchange, Job::Kind::kPredict,
        read_request(exchange->request.body, Endpoint::kPredict, options_.max_texts),
        [](const Exchange& x, Outcome& outcome) {
            PredictReply reply{x.answerer(), x.loaded->predictor.calibrated(), {}, {}};
            if (x.question.labels.empty()) reply.index = x.loaded->predictor.index();
            std::int64_t line = 0;
            reply.answers.reserve(static_cast<std::size_t>(x.texts));
            for (auto& labels : x.answers(outcome))
                reply.answers.push_back({"", ++line, {}, {}, std::move(labels)});
            return json_reply(to_json(reply));
        });
}

void Api::embed(const Asked& exchange) const {
    ask(exchange, Job::Kind::kEmbed,
        read_request(exchange->request.body, Endpoint::kEmbed, options_.max_texts),
        [](const Exchange& x, Outcome& outcome) {
            EmbedReply reply{x.answerer(), outcome.vectors.width, {}};
            for (std::int64_t i = 0; i < outcome.vectors.rows; ++i)
                reply.vectors.push_back(outcome.vectors.row(i));
            return json_reply(to_json(reply));
        });
}

void Api::explain(const Asked& exchange) const {
    ask(exchange, Job::Kind::kExplain, read_request(exchange->request.body, Endpoint::kExplain, 1),
        [](const Exchange& x, Outcome& outcome) {
            return json_reply(
                to_json(ExplainReply{x.answerer(), x.loaded->predictor.calibrated(), outcome.explanation}));
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

void Api::label(const Asked& exchange) const {
    const std::string& query = exchange->request.query;
    TextsRequest request;
    request.model = query_value(query, "model").value_or("");
    const auto wanted = query_value(query, "label");
    if (!wanted) throw BadField("label", "this field is missing: the name or number of a label");
    const ServedRun& run = run_named(request.model, 400);
    run.current()->predictor.find_label(*wanted, "label");  // complains about this field
    request.labels = {*wanted};
    request.top = query_number(query, "limit", kUsualNear, kMostTop);
    ask(exchange, Job::Kind::kNearest, std::move(request), [&run](const Exchange& x, Outcome& outcome) {
        return json_reply(label_report(run, *x.loaded, outcome.label, outcome.nearest));
    });
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
                         predictor.takes_texts(),
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
    if (!exchange->loaded->predictor.takes_texts())
        throw HttpError(400,
                        fmt::format("this protocol takes texts, and {} is a head on vectors: POST them as "
                                    "`vectors` to /v1/predict",
                                    served.name()));
    using Description = TensorReply<float>;
    const std::vector<Description> inputs = {{"text", "BYTES", {-1}}};
    std::vector<Description> outputs;
    for (const TensorKind& kind : kTensors)
        outputs.push_back({std::string(kind.name), std::string(kind.datatype), {-1, -1}});
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
    TextsRequest request =
        read_infer_request(exchange->request.body, exchange->request.json_length, options_.max_texts);
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
        const std::string& name = request.outputs[i].name;
        if (std::none_of(kTensors.begin(), kTensors.end(),
                         [&](const TensorKind& t) { return t.name == name; }))
            throw BadField(
                fmt::format("outputs[{}].name", i),
                fmt::format("expected label, name, probability or score, found '{}'", quoted(name)));
    }
    ask(exchange, Job::Kind::kPredict, std::move(request), [](const Exchange& x, Outcome& outcome) {
        const LabelTensors tensors(x.answers(outcome));
        HttpReply reply = json_reply(to_json(FieldGroup{[&](auto&& visit) {
            visit("model_name", x.model);
            visit("model_version", x.loaded->checkpoint);
            if (!x.id.empty()) visit("id", x.id);
        }}));
        reply.body.back() = ',';  // the tensors differ in type, so they are no list of fields
        reply.body += "\"outputs\":[";
        std::string binary;
        bool any_binary = false;
        const auto add = [&](const TensorKind& kind, bool as_binary) {
            if (reply.body.back() != '[') reply.body += ',';
            tensors.visit(kind.name, [&]<typename T>(const std::vector<T>& values) {
                TensorReply<T> tensor{std::string(kind.name), std::string(kind.datatype), tensors.shape};
                if (as_binary)
                    tensor.binary_bytes = append_binary(binary, values);
                else
                    tensor.data = &values;
                reply.body += to_json(tensor);
            });
            any_binary |= as_binary;
        };
        for (const TextsRequest::Output& output : x.outputs)
            add(*std::find_if(kTensors.begin(), kTensors.end(),
                              [&](const TensorKind& kind) { return kind.name == output.name; }),
                output.binary.value_or(x.binary));
        if (x.outputs.empty())
            for (const TensorKind& kind : kTensors) add(kind, x.binary);
        reply.body += "]}";
        if (!any_binary) return reply;
        reply.json_length = static_cast<std::int64_t>(reply.body.size());
        reply.content_type = "application/octet-stream";
        reply.body += binary;
        return reply;
    });
}

}  // namespace elmo
