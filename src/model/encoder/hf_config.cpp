#include "model/encoder/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/ops/attention.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/json_text.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 32;
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxIntermediate = 1 << 18;
constexpr std::int64_t kMaxLayers = 256;  // keeps every parameter's noise stream apart (model/streams.h)
constexpr std::int64_t kMaxPositions = 1 << 20;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 30;

// Typed, bounded access to the keys of one config.json.
class Keys {
  public:
    Keys(const std::string& text, const std::filesystem::path& file) : file_(file) {
        // Writing a value is recursive: deep nesting would overflow the stack.
        const auto check_depth = [&](int depth, Json::parse_event_t event, Json&) {
            const bool opens =
                event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
            if (opens && depth >= kMaxDepth)
                throw DataError(fmt::format("{}: expected JSON nested at most {} deep, found deeper",
                                            file_.string(), kMaxDepth));
            return true;
        };
        json_ = Json::parse(text, check_depth, false);
        if (!json_.is_object())
            throw DataError(
                fmt::format("{}: expected a JSON object, found {}", file_.string(), quoted(text)));
    }

    std::int64_t integer(const char* key, std::int64_t low, std::int64_t high,
                         std::optional<std::int64_t> absent = {}) const {
        if (is_absent(key)) return absent ? *absent : missing(key);
        const Json& value = json_.at(key);
        std::int64_t result = 0;
        // A number beyond int64 is stored unsigned and must not wrap.
        const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                        value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
        if (fits) result = value.get<std::int64_t>();
        if (!fits || result < low || result > high)
            fail(key, fmt::format("a whole number from {} to {}", low, high));
        return result;
    }
    double number(const char* key, double low, double high, double absent) const {
        if (is_absent(key)) return absent;
        const Json& value = json_.at(key);
        if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high))
            fail(key, fmt::format("a number from {} to {}", low, high));
        return value.get<double>();
    }
    std::string text(const char* key, const std::string& absent) const {
        if (is_absent(key)) return absent;
        if (!json_.at(key).is_string()) fail(key, "a string");
        return json_.at(key).get<std::string>();
    }
    [[noreturn]] void fail(const char* key, const std::string& expected) const {
        throw DataError(fmt::format("{}: \"{}\": expected {}, found {}", file_.string(), key, expected,
                                    quoted(json_.contains(key) ? dump(json_.at(key)) : "nothing")));
    }

  private:
    static std::string dump(const Json& value) { return json_string(value); }
    bool is_absent(const char* key) const { return !json_.contains(key) || json_.at(key).is_null(); }
    std::int64_t missing(const char* key) const {
        throw DataError(fmt::format("{}: key \"{}\" is missing", file_.string(), key));
    }

    const std::filesystem::path& file_;
    Json json_;
};

// What transformers calls the model; null for another family.
const char* class_name(const std::string& family) {
    static const std::pair<const char*, const char*> kNames[] = {{"bert", "BertModel"},
                                                                 {"distilbert", "DistilBertModel"},
                                                                 {"roberta", "RobertaModel"},
                                                                 {"xlm-roberta", "XLMRobertaModel"},
                                                                 {"mpnet", "MPNetModel"}};
    for (const auto& [name, model] : kNames)
        if (family == name) return model;
    return nullptr;
}

// Transformers writes "dtype" since version 5, "torch_dtype" before.
DType read_dtype(const Keys& keys) {
    return keys.text("dtype", keys.text("torch_dtype", "bfloat16")) == "float32" ? DType::kF32 : DType::kBf16;
}

Pooling read_pooling(const Keys& keys) {
    const std::string pooling = keys.text("elmo_pooling", "mean");
    if (pooling != "mean" && pooling != "cls") keys.fail("elmo_pooling", "\"mean\" or \"cls\"");
    return pooling == "cls" ? Pooling::kCls : Pooling::kMean;
}

void read_bag(const Keys& keys, EncoderSpec& spec) {
    spec.family = "bag";
    spec.width = keys.integer("hidden_size", 1, kMaxWidth);
    spec.intermediate = keys.integer("intermediate_size", 1, kMaxIntermediate);
    spec.norm_epsilon = static_cast<float>(keys.number("layer_norm_eps", 0, 1, 1e-6));
}

void read_distilbert(const Keys& keys, EncoderSpec& spec) {
    spec.width = keys.integer("dim", 1, kMaxWidth, 768);
    spec.layers = keys.integer("n_layers", 1, kMaxLayers, 6);
    spec.heads = keys.integer("n_heads", 1, kMaxWidth, 12);
    spec.intermediate = keys.integer("hidden_dim", 1, kMaxIntermediate, 3072);
    spec.positions = keys.integer("max_position_embeddings", 1, kMaxPositions, 512);
    spec.hidden_dropout = static_cast<float>(keys.number("dropout", 0, 0.99, 0.1));
    spec.attention_dropout = static_cast<float>(keys.number("attention_dropout", 0, 0.99, 0.1));
    spec.norm_epsilon = 1e-12f;
    if (keys.text("activation", "gelu") != "gelu") keys.fail("activation", "\"gelu\" (the exact one)");
    if (spec.width % spec.heads != 0)
        keys.fail("n_heads", fmt::format("a divisor of \"dim\" ({})", spec.width));
}

void read_bert(const Keys& keys, EncoderSpec& spec) {
    spec.width = keys.integer("hidden_size", 1, kMaxWidth, 768);
    spec.layers = keys.integer("num_hidden_layers", 1, kMaxLayers, 12);
    spec.heads = keys.integer("num_attention_heads", 1, kMaxWidth, 12);
    spec.intermediate = keys.integer("intermediate_size", 1, kMaxIntermediate, 3072);
    spec.positions = keys.integer("max_position_embeddings", 1, kMaxPositions, 512);
    if (!spec.has_relative_bias()) spec.types = keys.integer("type_vocab_size", 1, 1 << 16, 2);
    spec.hidden_dropout = static_cast<float>(keys.number("hidden_dropout_prob", 0, 0.99, 0.1));
    spec.attention_dropout = static_cast<float>(keys.number("attention_probs_dropout_prob", 0, 0.99, 0.1));
    spec.norm_epsilon = static_cast<float>(keys.number("layer_norm_eps", 0, 1, 1e-12));
    if (keys.text("hidden_act", "gelu") != "gelu") keys.fail("hidden_act", "\"gelu\" (the exact one)");
    if (keys.text("position_embedding_type", "absolute") != "absolute")
        keys.fail("position_embedding_type", "\"absolute\"");
    if (spec.width % spec.heads != 0)
        keys.fail("num_attention_heads", fmt::format("a divisor of \"hidden_size\" ({})", spec.width));
    if (spec.family == "bert") return;
    // MPNet's positions begin behind 1 whatever its pad token is.
    const std::int64_t pad = spec.has_relative_bias() ? 1 : keys.integer("pad_token_id", 0, kMaxPositions, 1);
    spec.position_base = pad + 1;
    if (spec.has_relative_bias())
        keys.integer("relative_attention_num_buckets", kRelativeBuckets, kRelativeBuckets, kRelativeBuckets);
    if (spec.position_base >= spec.positions)
        keys.fail("max_position_embeddings",
                  fmt::format("more than \"pad_token_id\" + 1 = {}", spec.position_base));
}

}  // namespace

EncoderSpec parse_model_config(const std::string& text, const std::filesystem::path& file) {
    const Keys keys(text, file);
    EncoderSpec spec;
    spec.hf_config = text;
    spec.family = keys.text("model_type", "");
    if (spec.family == "elmo-bag")
        read_bag(keys, spec);
    else if (spec.family == "distilbert")
        read_distilbert(keys, spec);
    else if (class_name(spec.family) != nullptr)
        read_bert(keys, spec);
    else
        keys.fail("model_type", "bert, distilbert, roberta, xlm-roberta, mpnet or elmo-bag");
    spec.vocab = keys.integer("vocab_size", 1, kMaxVocab);
    spec.initializer_range = static_cast<float>(keys.number("initializer_range", 0, 100, 0.02));
    spec.pooling = read_pooling(keys);
    spec.window = keys.integer("elmo_window", 0, std::max<std::int64_t>(spec.longest_text(), 0), 0);
    spec.dtype = read_dtype(keys);
    return spec;
}

std::string model_config_text(const EncoderSpec& spec) {
    Json json = spec.is_bag() ? Json::object() : own_ordered_json(spec.hf_config);
    if (spec.is_bag()) {
        json["model_type"] = "elmo-bag";
        json["vocab_size"] = spec.vocab;
        json["hidden_size"] = spec.width;
        json["intermediate_size"] = spec.intermediate;
        json["layer_norm_eps"] = spec.norm_epsilon;
        json["initializer_range"] = spec.initializer_range;
    }
    // The pooler and task heads of the source are not kept.
    if (!spec.is_bag()) json["architectures"] = {class_name(spec.family)};
    json["elmo_pooling"] = spec.pooling == Pooling::kCls ? "cls" : "mean";
    for (const char* key : {"elmo_window", "dtype", "torch_dtype"})
        json.erase(key);  // the same order whatever file they were read from
    if (spec.window > 0) json["elmo_window"] = spec.window;
    json["torch_dtype"] = spec.dtype == DType::kBf16  ? "bfloat16"
                          : spec.dtype == DType::kF32 ? "float32"
                                                      : "float64";
    return json_string(json, 2) + "\n";
}

}  // namespace elmo
