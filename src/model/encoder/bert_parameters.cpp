// The parameters of the BERT family under the names that transformers gives them.
#include <fmt/format.h>

#include "model/encoder/bert_encoder.h"

namespace elmo {
namespace {

// The names of one layer, after its prefix.
struct LayerNames {
    const char *query, *key, *value, *out, *attention_norm, *up, *down, *output_norm;
};
constexpr LayerNames kBertNames = {
    "attention.self.query",       "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense",         "output.LayerNorm"};
constexpr LayerNames kMpnetNames = {"attention.attn.q", "attention.attn.k",    "attention.attn.v",
                                    "attention.attn.o", "attention.LayerNorm", "intermediate.dense",
                                    "output.dense",     "output.LayerNorm"};
constexpr LayerNames kDistilBertNames = {"attention.q_lin",   "attention.k_lin",  "attention.v_lin",
                                         "attention.out_lin", "sa_layer_norm",    "ffn.lin1",
                                         "ffn.lin2",          "output_layer_norm"};

}  // namespace

BertEncoder::Pair BertEncoder::add_linear(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const std::size_t weight = add_matrix(name + ".weight", rows, cols, spec_.initializer_range);
    const std::size_t bias = add_vector(name + ".bias", rows, 0);
    mark_linear(weight, bias);
    return {weight, bias};
}

BertEncoder::Pair BertEncoder::add_norm(const std::string& name) {
    const std::size_t weight = add_vector(name + ".weight", spec_.width, 1);
    return {weight, add_vector(name + ".bias", spec_.width, 0)};
}

BertEncoder::Pair BertEncoder::add_qkv(const std::vector<std::string>& names, const std::string& fused_name) {
    const Pair pair = add_linear(fused_name, 3 * spec_.width, spec_.width);
    Parameter &weight = parameters_[pair.weight], &bias = parameters_[pair.bias];
    weight.stored.clear();
    bias.stored.clear();
    for (const std::string& name : names) {
        weight.stored.push_back({name + ".weight", {spec_.width, spec_.width}});
        bias.stored.push_back({name + ".bias", {spec_.width}});
    }
    return pair;
}

void BertEncoder::add_parameters() {
    const bool distil = spec_.family == "distilbert";
    const bool mpnet = spec_.has_relative_bias();
    const LayerNames& n = distil ? kDistilBertNames : mpnet ? kMpnetNames : kBertNames;
    const std::int64_t D = spec_.width;
    const float sigma = spec_.initializer_range;
    word_ = add_matrix("embeddings.word_embeddings.weight", spec_.vocab, D, sigma);
    position_ = add_matrix("embeddings.position_embeddings.weight", spec_.positions, D, sigma);
    if (spec_.types > 0) type_ = add_matrix("embeddings.token_type_embeddings.weight", spec_.types, D, sigma);
    embedding_norm_ = add_norm("embeddings.LayerNorm");
    // All layers use it, so its gradient is complete with that of the embeddings.
    if (mpnet)
        relative_bias_ =
            add_matrix("encoder.relative_attention_bias.weight", kRelativeBuckets, spec_.heads, sigma);
    end_group();
    for (std::int64_t i = 0; i < spec_.layers; ++i) {
        const std::string layer = fmt::format("{}.layer.{}.", distil ? "transformer" : "encoder", i);
        LayerWeights w;
        w.qkv = add_qkv({layer + n.query, layer + n.key, layer + n.value}, layer + "attention.qkv");
        w.out = add_linear(layer + n.out, D, D);
        w.attention_norm = add_norm(layer + n.attention_norm);
        w.up = add_linear(layer + n.up, spec_.intermediate, D);
        w.down = add_linear(layer + n.down, D, spec_.intermediate);
        w.output_norm = add_norm(layer + n.output_norm);
        layers_.push_back(w);
        end_group();
    }
}

}  // namespace elmo
