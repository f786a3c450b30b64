// Answers of the server as fields, which JSON is made of (elmo/fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elmo/explain.h"
#include "elmo/fields.h"
#include "elmo/predictor.h"

namespace elmo {

struct ErrorReply {
    std::string error, field;  // no field: the whole request
};
template <typename Visit>
void visit_fields(const ErrorReply& reply, Visit&& visit) {
    visit("error", reply.error);
    if (!reply.field.empty()) visit("field", reply.field);
}

// Who answers.
struct Answerer {
    std::string model, checkpoint;
};
template <typename Visit>
void visit_fields(const Answerer& answerer, Visit&& visit) {
    visit("model", answerer.model);
    visit("checkpoint", answerer.checkpoint);
}

struct PredictReply {
    Answerer answerer;
    bool calibrated = false;
    std::optional<SearchIndex> index;  // of an approximate search
    std::vector<Answer> answers;       // as `elmo predict --json` prints them
};
template <typename Visit>
void visit_fields(const PredictReply& reply, Visit&& visit) {
    visit_fields(reply.answerer, visit);
    visit("calibrated", reply.calibrated);
    if (reply.index) visit("recall_at_5", reply.index->recall_at_5);
    visit("answers", reply.answers);
}

struct EmbedReply {
    Answerer answerer;
    std::int64_t width = 0;
    std::vector<std::span<const float>> vectors;
};
template <typename Visit>
void visit_fields(const EmbedReply& reply, Visit&& visit) {
    visit_fields(reply.answerer, visit);
    visit("width", reply.width);
    visit("vectors", reply.vectors);
}

struct ExplainReply {
    Answerer answerer;
    bool calibrated = false;
    const Explanation& explanation;
};
template <typename Visit>
void visit_fields(const ExplainReply& reply, Visit&& visit) {
    visit_fields(reply.answerer, visit);
    visit("calibrated", reply.calibrated);
    visit_fields(reply.explanation, visit);
}

struct LabelsReply {
    Answerer answerer;
    FoundLabels labels;
};
template <typename Visit>
void visit_fields(const LabelsReply& reply, Visit&& visit) {
    visit_fields(reply.answerer, visit);
    visit_fields(reply.labels, visit);
}

struct ModelReply {
    Answerer answerer;
    std::int64_t labels = 0;
    bool calibrated = false, vectors = false, texts = true;
    std::string device;
    std::optional<SearchIndex> index = {};  // of an approximate search
};
template <typename Visit>
void visit_fields(const ModelReply& reply, Visit&& visit) {
    visit_fields(reply.answerer, visit);
    visit("labels", reply.labels);
    visit("calibrated", reply.calibrated);
    visit("vectors", reply.vectors);
    visit("texts", reply.texts);
    visit("device", reply.device);
    if (reply.index) visit("index", *reply.index);
}

// A tensor of KServe's protocol.
template <typename T>
struct TensorReply {
    std::string name, datatype;
    std::vector<std::int64_t> shape;
    const std::vector<T>* data = nullptr;  // none in a description
    std::int64_t binary_bytes = -1;        // of the data after the JSON; -1: it is in the JSON
};
template <typename T, typename Visit>
void visit_fields(const TensorReply<T>& tensor, Visit&& visit) {
    visit("name", tensor.name);
    visit("datatype", tensor.datatype);
    visit("shape", tensor.shape);
    if (tensor.binary_bytes >= 0)
        visit("parameters",
              FieldGroup{[&](auto&& of_data) { of_data("binary_data_size", tensor.binary_bytes); }});
    if (tensor.data != nullptr) visit("data", *tensor.data);
}

// One line of the server's log.
struct LogLine {
    std::string time, peer, method, path, model;
    int status = 0;
    double milliseconds = 0;
    std::int64_t texts = 0, bytes_in = 0, bytes_out = 0;
};
template <typename Visit>
void visit_fields(const LogLine& line, Visit&& visit) {
    visit("time", line.time);
    visit("peer", line.peer);
    visit("method", line.method);
    visit("path", line.path);
    visit("status", line.status);
    visit("ms", line.milliseconds);
    if (!line.model.empty()) visit("model", line.model);
    if (line.texts > 0) visit("texts", line.texts);
    visit("bytes_in", line.bytes_in);
    visit("bytes_out", line.bytes_out);
}

}  // namespace elmo
