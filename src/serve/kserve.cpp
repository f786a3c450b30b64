// KServe's protocol for inference, version 2, which Triton's clients speak: texts are a tensor of BYTES, as
// JSON or as binary data after the JSON (each text with its length in four bytes before it).
#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "elmo/messages.h"
#include "serve/requests.h"

namespace elmo {
namespace {

constexpr std::size_t kMostDimensions = 8, kOutputs = 4;

struct Tensor {
    std::vector<std::string> texts;
    std::int64_t elements = -1;      // that its shape says; -1: not said
    std::int64_t binary_bytes = -1;  // of its data after the JSON; -1: its data is in the JSON
    bool has_data = false;
};

// Texts may be nested as their shape says.
void read_texts(const JsonValue& value, const std::string& where, std::size_t limit,
                std::vector<std::string>& to) {
    read_list(value, where, limit, [&](const JsonValue& element, const std::string& there) {
        if (element.is_array()) return read_texts(element, there, limit, to);
        if (to.size() == limit)
            throw BadField(where, fmt::format("expected up to {} texts, found more", limit));
        to.push_back(text_of(element, there));
    });
}

Tensor read_tensor(const JsonValue& value, const std::string& where, std::size_t limit) {
    Tensor tensor;
    const TakeField ignore = [](const JsonValue&, const std::string&) {};
    read_object(
        value, where,
        {{"name", ignore},
         {"datatype",
          [](const JsonValue& v, const std::string& there) {
              if (text_of(v, there) != "BYTES") throw BadField(there, "expected BYTES: the input is texts");
          }},
         {"shape",
          [&](const JsonValue& v, const std::string& there) {
              tensor.elements = 1;
              read_list(v, there, kMostDimensions, [&](const JsonValue& size, const std::string& at) {
                  tensor.elements *= integer_of(size, at, 0, static_cast<std::int64_t>(limit));
                  if (tensor.elements > static_cast<std::int64_t>(limit))
                      throw BadField(there, fmt::format("expected up to {} texts, found more", limit));
              });
          }},
         {"parameters",
          [&](const JsonValue& v, const std::string& there) {
              read_object(v, there, {{"binary_data_size", [&](const JsonValue& size, const std::string& at) {
                                          tensor.binary_bytes =
                                              integer_of(size, at, 0, std::int64_t{1} << 40);
                                      }}});
          }},
         {"data", [&](const JsonValue& v, const std::string& there) {
              read_texts(v, there, limit, tensor.texts);
              tensor.has_data = true;
          }}});
    return tensor;
}

void read_binary(std::string_view data, const std::string& where, Tensor& tensor, std::size_t limit) {
    if (tensor.binary_bytes > static_cast<std::int64_t>(data.size()))
        throw BadField(where, fmt::format("expected {} bytes of binary data after the JSON, found {}",
                                          tensor.binary_bytes, data.size()));
    data = data.substr(0, static_cast<std::size_t>(tensor.binary_bytes));
    while (!data.empty()) {
        std::uint32_t length = 0;
        if (data.size() >= sizeof length) std::memcpy(&length, data.data(), sizeof length);
        if (data.size() < sizeof length || data.size() - sizeof length < length)
            throw BadField(where, "expected each text after its length in four bytes, found fewer bytes");
        const std::string_view text = data.substr(sizeof length, length);
        if (tensor.texts.size() == limit)
            throw BadField(where, fmt::format("expected up to {} texts, found more", limit));
        if (find_invalid_utf8(text) != std::string_view::npos)
            throw BadField(where, fmt::format("expected UTF-8, found '{}'", quoted(text)));
        tensor.texts.emplace_back(text);
        data.remove_prefix(sizeof length + length);
    }
}

void read_parameters(const JsonValue& value, const std::string& where, TextsRequest& request) {
    read_object(value, where,
                {{"top", [&](const JsonValue& v,
                             const std::string& there) { request.top = integer_of(v, there, 1, kMostTop); }},
                 {"threshold", [&](const JsonValue& v,
                                   const std::string& there) { request.threshold = number_of(v, there); }},
                 {"binary_data_output", [&](const JsonValue& v, const std::string& there) {
                      request.binary = switch_of(v, there);
                  }}});
}

TextsRequest::Output read_output(const JsonValue& value, const std::string& where) {
    TextsRequest::Output output;
    read_object(
        value, where,
        {{"name", [&](const JsonValue& v, const std::string& there) { output.name = text_of(v, there); }},
         {"parameters", [&](const JsonValue& v, const std::string& there) {
              read_object(v, there, {{"binary_data", [&](const JsonValue& on, const std::string& at) {
                                          output.binary = switch_of(on, at);
                                      }}});
          }}});
    if (output.name.empty()) throw BadField(where + ".name", "this field is missing");
    return output;
}

}  // namespace

TextsRequest read_infer_request(std::string_view body, const std::string& json_length,
                                std::int64_t most_texts) {
    const auto limit = static_cast<std::size_t>(most_texts);
    std::string_view json = body, binary;
    if (!json_length.empty()) {
        std::size_t length = 0;
        const auto [rest, status] =
            std::from_chars(json_length.data(), json_length.data() + json_length.size(), length);
        if (status != std::errc() || rest != json_length.data() + json_length.size() || length > body.size())
            throw BadField("Inference-Header-Content-Length",
                           fmt::format("expected up to {}, the bytes of the body, found '{}'", body.size(),
                                       quoted(json_length)));
        json = body.substr(0, length);
        binary = body.substr(length);
    }
    TextsRequest request;
    std::vector<Tensor> inputs;
    read_body(json,
              {{"id", [&](const JsonValue& v, const std::string& where) { request.id = text_of(v, where); }},
               {"parameters",
                [&](const JsonValue& v, const std::string& where) { read_parameters(v, where, request); }},
               {"inputs",
                [&](const JsonValue& v, const std::string& where) {
                    read_list(v, where, 1, [&](const JsonValue& tensor, const std::string& there) {
                        inputs.push_back(read_tensor(tensor, there, limit));
                    });
                }},
               {"outputs", [&](const JsonValue& v, const std::string& where) {
                    read_list(v, where, kOutputs, [&](const JsonValue& output, const std::string& there) {
                        request.outputs.push_back(read_output(output, there));
                    });
                }}});
    if (inputs.empty()) throw BadField("inputs", "expected one tensor of texts, found none");
    Tensor& input = inputs.front();
    if (input.binary_bytes >= 0) read_binary(binary, "inputs[0]", input, limit);
    if (input.binary_bytes < 0 && !input.has_data) throw BadField("inputs[0].data", "this field is missing");
    if (input.elements >= 0 && input.elements != static_cast<std::int64_t>(input.texts.size()))
        throw BadField("inputs[0].shape",
                       fmt::format("expected the shape of the {} texts that are given, found {}",
                                   input.texts.size(), input.elements));
    if (request.threshold && *request.threshold != -1 &&
        !(*request.threshold >= 0 && *request.threshold <= 1))
        throw BadField("parameters.threshold", "expected -1 or a number from 0 to 1");
    request.texts = std::move(input.texts);
    return request;
}

}  // namespace elmo
