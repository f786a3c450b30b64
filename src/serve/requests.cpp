#include "serve/requests.h"

#include <fmt/format.h>

#include <algorithm>
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

// visit(name, value), as they are written.
template <class Visit>
void visit_query(std::string_view query, const Visit& visit) {
    while (!query.empty()) {
        const std::size_t end = query.find('&');
        const std::string_view part = query.substr(0, end);
        query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
        const std::size_t equals = part.find('=');
        if (!part.empty())
            visit(part.substr(0, equals),
                  equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1));
    }
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

void check_query(std::string_view query, const std::vector<std::string>& known) {
    std::vector<std::string> seen;
    visit_query(query, [&](std::string_view name, std::string_view) {
        if (std::find(known.begin(), known.end(), name) == known.end())
            throw BadField(
                quoted(name),
                known.empty()
                    ? "no field is known in the query of this path; fields belong into the "
                      "JSON body, if it has one"
                    : "no such field is known in the query" + did_you_mean(std::string(name), known));
        if (std::find(seen.begin(), seen.end(), name) != seen.end())
            throw BadField(std::string(name), "expected this field once, found it twice");
        seen.emplace_back(name);
    });
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
    std::optional<std::string> found;
    visit_query(query, [&](std::string_view key, std::string_view text) {
        if (key != name || found) return;
        std::string value(text);
        for (char& c : value)
            if (c == '+') c = ' ';
        found = decode_url(value, std::string(name));
    });
    return found;
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
