// One request on its way to its answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "serve/api.h"
#include "serve/replies.h"

namespace elmo {

struct Api::Route {
    const char* method;
    const char* path;  // a part {model} is the name of a run
    void (Api::*run)(const Asked& exchange) const;
    bool open = false;                    // no token is asked for, and a query may hold anything
    std::vector<std::string> query = {};  // its fields
};

struct Api::Exchange {
    HttpRequest request;
    SendReply send;
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
    const Route* route = nullptr;
    std::string model;  // of the path, or asked for
    std::shared_ptr<LoadedRun> loaded;
    std::int64_t texts = 0, bytes_in = 0;
    Question question;
    std::string id;  // KServe, as the next ones
    std::vector<TextsRequest::Output> outputs;
    bool binary = false;

    Answerer answerer() const { return {model, loaded->checkpoint}; }
    std::vector<std::vector<Prediction>> answers(const Outcome& outcome) const {
        return loaded->predictor.answer(*outcome.rankings, outcome.first, texts);
    }
};

}  // namespace elmo
