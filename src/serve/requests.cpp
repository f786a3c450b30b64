#include "serve/requests.h"

#include <fmt/format.h>

#include <charconv>

#include "elmo/messages.h"

namespace elmo {
namespace {

TakeField into_top(TextsRequest& request) {
    return [&](const JsonValue& value, const std::string& where) {
        request.top = integer_of(value, where, 1, kMostTop);
    };
}

TakeField into_threshold(TextsRequest& request) {
    return [&](const JsonValue& value, const std::string& where) {
        const double threshold = number_of(value, where);
        if (threshold != -1 && !(threshold >= 0 && threshold <= 1))
            throw BadField(where, fmt::format("expected -1 or a number from 0 to 1, found {}", threshold));
        request.threshold = threshold;
    };
}

// Lists of numbers, all of one length.
Embeddings vectors_of(const JsonValue& value, const std::string& where, std::int64_t most_texts) {
    Embeddings vectors;
    read_list(value, where, static_cast<std::size_t>(most_texts),
              [&](const JsonValue& row, const std::string& there) {
                  const std::size_t before = vectors.values.size();
                  read_list(row, there, kMostWidth, [&](const JsonValue& number, const std::string& at) {
                      vectors.values.push_back(static_cast<float>(number_of(number, at)));
                  });
                  const auto width = static_cast<std::int64_t>(vectors.values.size() - before);
                  if (vectors.rows > 0 && width != vectors.width)
                      throw BadField(there, fmt::format("expected {} numbers, as in the first one, found {}",
                                                        vectors.width, width));
                  vectors.width = width;
                  ++vectors.rows;
              });
    return vectors;
}

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

TextsRequest read_request(std::string_view body, Endpoint endpoint, std::int64_t most_texts) {
    TextsRequest request;
    bool one = false, many = false, vectors = false;
    Fields fields = {{"model", [&](const JsonValue& value,
                                   const std::string& where) { request.model = text_of(value, where); }},
                     {"text", [&](const JsonValue& value, const std::string& where) {
                          request.texts = {text_of(value, where)};
                          one = true;
                      }}};
    if (endpoint != Endpoint::kExplain)
        fields.emplace_back("texts", [&](const JsonValue& value, const std::string& where) {
            request.texts = texts_of(value, where, static_cast<std::size_t>(most_texts));
            many = true;
        });
    if (endpoint != Endpoint::kEmbed) {
        fields.emplace_back("top", into_top(request));
        fields.emplace_back("threshold", into_threshold(request));
        fields.emplace_back("labels", [&](const JsonValue& value, const std::string& where) {
            request.labels = labels_of(value, where, kMostAmong);
        });
        fields.emplace_back("without", [&](const JsonValue& value, const std::string& where) {
            request.without = labels_of(value, where, kMostWithout);
        });
    }
    if (endpoint == Endpoint::kPredict)
        fields.emplace_back("vectors", [&](const JsonValue& value, const std::string& where) {
            request.vectors = vectors_of(value, where, most_texts);
            vectors = true;
        });
    read_body(body, fields);
    if (one && many) throw BadField("text", "expected text or texts, found both");
    if (vectors && (one || many)) throw BadField("vectors", "expected texts or vectors, found both");
    if (!one && !many && !vectors)
        throw BadField(endpoint == Endpoint::kExplain ? "text" : "texts", "this field is missing");
    return request;
}

std::string decode_url(std::string_view text, const std::string& where) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
            i += 2;
        } else {
            out += text[i];
        }
    }
    if (find_invalid_utf8(out) != std::string::npos)
        throw BadField(where, fmt::format("expected UTF-8, found '{}'", quoted(out)));
    return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::size_t end = query.find('&');
        std::string_view part = query.substr(0, end);
        query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
        const std::size_t equals = part.find('=');
        if (part.substr(0, equals) != name) continue;
        std::string value(equals == std::string_view::npos ? "" : part.substr(equals + 1));
        for (char& c : value)
            if (c == '+') c = ' ';
        return decode_url(value, std::string(name));
    }
    return std::nullopt;
}

std::int64_t query_number(std::string_view query, std::string_view name, std::int64_t otherwise,
                          std::int64_t most) {
    const auto text = query_value(query, name);
    if (!text) return otherwise;
    std::int64_t number = -1;
    const auto [rest, status] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (status != std::errc() || rest != text->data() + text->size() || number < 0 || number > most)
        throw BadField(std::string(name),
                       fmt::format("expected a whole number from 0 to {}, found '{}'", most, quoted(*text)));
    return number;
}

}  // namespace elmo
