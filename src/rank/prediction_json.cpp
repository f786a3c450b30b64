// The labels of one text as a line of JSON: what `elmo predict --json` prints and `--out` keeps.
#include <charconv>
#include <nlohmann/json.hpp>

#include "elmo/predictor.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

// The value that prints with as few digits as the float needs.
double printable(float value) {
    char buffer[64];
    const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, value);
    double wide = 0;
    std::from_chars(buffer, end, wide);
    return wide;
}

}  // namespace

std::string to_json(const std::string& file, std::int64_t line, const std::vector<Prediction>& predictions) {
    Json labels = Json::array();
    for (const Prediction& prediction : predictions)
        labels.push_back({{"label", prediction.label},
                          {"name", prediction.name},
                          {"probability", printable(prediction.probability)},
                          {"score", printable(prediction.score)}});
    Json json = Json::object();
    if (!file.empty()) json["file"] = file;
    json["line"] = line;
    json["labels"] = std::move(labels);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace elmo
