// An evaluation as one line of JSON: what `elmo eval --json` prints and what RUN/scores.jsonl keeps.
#include <nlohmann/json.hpp>

#include "elmo/evaluation.h"
#include "elmo/version.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

Json protocol_of(const Evaluation& e) {
    Json json = {{"elmo", version()},
                 {"data", e.data},
                 {"split", e.split},
                 {"samples", e.num_samples},
                 {"labels", e.num_labels},
                 {"checkpoint", e.checkpoint},
                 {"k", e.k},
                 {"like", e.like.empty() ? Json() : Json(e.like)}};
    if (!e.labels_matched.empty()) json["labels_matched"] = e.labels_matched;
    if (e.propensity_source.empty()) {
        json["propensities"] = "none: the data set has no training labels";
    } else {
        json["propensity_a"] = e.propensity_a;
        json["propensity_b"] = e.propensity_b;
        json["propensity_source"] = e.propensity_source;
        json["propensity_counts"] = e.propensity_counts;
        json["propensity_rows"] = e.propensity_rows;
    }
    json["filter"] = e.filter;
    json["ties"] = e.ties;
    if (e.bootstrap > 0) {
        json["bootstrap"] = e.bootstrap;
        json["confidence"] = e.confidence;
    }
    return json;
}

Json to_object(const std::vector<Score>& scores) {
    Json json = Json::object();
    for (const Score& score : scores) json[score.name] = score.percent;
    return json;
}

}  // namespace

std::string to_json(const Evaluation& e) {
    Json json = to_object(e.scores);
    if (e.bootstrap > 0)
        for (const Score& score : e.scores) json["intervals"][score.name] = {score.low, score.high};
    for (const LabelGroup& group : e.groups) {
        Json& of_group = json["groups"][group.name];
        of_group = {{"labels", group.labels},
                    {"training_rows", {group.least, group.most}},
                    {"positives", group.positives}};
        of_group.update(to_object(group.scores));
    }
    json["protocol"] = protocol_of(e);
    if (e.texts_per_second > 0) json["texts_per_second"] = e.texts_per_second;
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace elmo
