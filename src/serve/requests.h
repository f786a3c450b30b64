// Requests as the server understands them, read from JSON and from the query of an address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/predictor.h"
#include "serve/json_body.h"

namespace elmo {

// Labels of an answer that a request may ask for, and labels that it may leave out.
inline constexpr std::int64_t kMostTop = 100, kMostWithout = 1000;
// Labels that a request may choose among.
inline constexpr std::int64_t kMostAmong = 10000;
// Numbers of a vector.
inline constexpr std::size_t kMostWidth = 1 << 16;

// An answer that is not the one asked for.
class HttpError : public Error {
  public:
    HttpError(int status, const std::string& message, int retry_after = 0)
        : Error(message), status_(status), retry_after_(retry_after) {}
    int status() const { return status_; }
    int retry_after() const { return retry_after_; }

  private:
    int status_, retry_after_;
};

// /v1/predict, /v1/embed, /v1/explain and KServe's infer.
struct TextsRequest {
    std::string model;  // "": the only one
    std::vector<std::string> texts;
    Embeddings vectors = {};  // in the place of texts
    std::optional<std::int64_t> top;
    std::optional<double> threshold;
    std::vector<WantedLabel> labels, without;
    // KServe
    std::string id;  // copied into the answer
    struct Output {
        std::string name;
        std::optional<bool> binary = {};
    };
    std::vector<Output> outputs;  // tensors that are answered; empty: all
    bool binary = false;          // those that do not say it
};

enum class Endpoint { kPredict, kEmbed, kExplain };
// BadField for anything that does not belong to it.
TextsRequest read_request(std::string_view body, Endpoint endpoint, std::int64_t most_texts);

// KServe v2: the JSON, and the binary tensors after its first `json_length` bytes ("" if all is JSON).
TextsRequest read_infer_request(std::string_view body, const std::string& json_length,
                                std::int64_t most_texts);

// BadField for a name that is not known, or that is there twice.
void check_query(std::string_view query, const std::vector<std::string>& known);
// The value of a name in a query, decoded; nothing if it is not there.
std::optional<std::string> query_value(std::string_view query, std::string_view name);
// The same as a whole number from 0 to `most`.
std::int64_t query_number(std::string_view query, std::string_view name, std::int64_t otherwise,
                          std::int64_t most);
// %20 and, in a query, + are spaces. BadField for what is not UTF-8 then.
std::string decode_url(std::string_view text, const std::string& where);

}  // namespace elmo
