// Writes a specification as a tokenizer.json. Keys are in the order of the Hugging Face library, which people
// know. One specification always gives the same bytes, so files can be compared.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "text/spec.h"
#include "text/unigram.h"

namespace elmo {
namespace {

using OrderedJson = nlohmann::ordered_json;  // few keys per object; the vocabulary is written by hand

OrderedJson normalizer_json(const NormalizerStep& step) {
    using Kind = NormalizerStep::Kind;
    switch (step.kind) {
        case Kind::kNfc:
            return {{"type", "NFC"}};
        case Kind::kNfd:
            return {{"type", "NFD"}};
        case Kind::kNfkc:
            return {{"type", "NFKC"}};
        case Kind::kNfkd:
            return {{"type", "NFKD"}};
        case Kind::kLowercase:
            return {{"type", "Lowercase"}};
        case Kind::kStripAccents:
            return {{"type", "StripAccents"}};
        case Kind::kStrip:
            return {{"type", "Strip"}, {"strip_left", step.strip_left}, {"strip_right", step.strip_right}};
        case Kind::kReplace:
            return {{"type", "Replace"},
                    {"pattern", step.pattern.empty() ? OrderedJson{{"Regex", " {2,}"}}
                                                     : OrderedJson{{"String", step.pattern}}},
                    {"content", step.content}};
        case Kind::kCharsmap:
            return {{"type", "Precompiled"}, {"precompiled_charsmap", step.charsmap->base64()}};
        case Kind::kBert:
            break;
    }
    OrderedJson json = {{"type", "BertNormalizer"},
                        {"clean_text", step.clean_text},
                        {"handle_chinese_chars", step.handle_chinese_chars},
                        {"strip_accents", nullptr},
                        {"lowercase", step.lowercase}};
    if (step.strip_accents) json["strip_accents"] = *step.strip_accents;
    return json;
}

OrderedJson normalizers_json(const std::vector<NormalizerStep>& steps) {
    if (steps.empty()) return nullptr;
    if (steps.size() == 1) return normalizer_json(steps[0]);
    OrderedJson list = OrderedJson::array();
    for (const auto& step : steps) list.push_back(normalizer_json(step));
    return {{"type", "Sequence"}, {"normalizers", list}};
}

OrderedJson post_processor_json(const TokenizerSpec& spec) {
    if (spec.roberta_pairs)
        return {{"type", "RobertaProcessing"},
                {"sep", OrderedJson::array({spec.closing[0].token, spec.closing[0].id})},
                {"cls", OrderedJson::array({spec.opening[0].token, spec.opening[0].id})},
                {"trim_offsets", true},
                {"add_prefix_space", spec.add_prefix_space}};
    OrderedJson single = OrderedJson::array(), pair = OrderedJson::array(), specials = OrderedJson::object();
    const auto add = [](OrderedJson& list, const char* kind, const std::string& id, int type) {
        list.push_back({{kind, {{"id", id}, {"type_id", type}}}});
    };
    for (const auto& [token, id] : spec.opening) add(single, "SpecialToken", token, 0);
    add(single, "Sequence", "A", 0);
    for (const auto& [token, id] : spec.closing) add(single, "SpecialToken", token, 0);
    pair = single;
    add(pair, "Sequence", "B", 1);
    for (const auto& [token, id] : spec.closing) add(pair, "SpecialToken", token, 1);
    for (const auto* side : {&spec.opening, &spec.closing})
        for (const auto& [token, id] : *side)
            specials[token] = {
                {"id", token}, {"ids", OrderedJson::array({id})}, {"tokens", OrderedJson::array({token})}};
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

// `json` as the lines of an object's member, indented to stand at the top level.
std::string member(const char* name, const OrderedJson& json) {
    std::string text = "  \"" + std::string(name) + "\": ";
    for (const char c : json.dump(2)) {
        text += c;
        if (c == '\n') text += "  ";
    }
    return text + ",\n";
}

OrderedJson metaspace_json(const TokenizerSpec& spec) {
    return {{"type", "Metaspace"},
            {"replacement", kUnigramSpace},
            {"prepend_scheme", spec.add_prefix_space ? "always" : "never"},
            {"split", spec.split_pieces}};
}

OrderedJson byte_level_json(const TokenizerSpec& spec) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", spec.add_prefix_space},
            {"trim_offsets", true},
            {"use_regex", true}};
}

OrderedJson pre_tokenizer_json(const TokenizerSpec& spec) {
    if (spec.kind == TokenizerKind::kWordPiece) return {{"type", "BertPreTokenizer"}};
    if (spec.kind == TokenizerKind::kByteBpe) return byte_level_json(spec);
    if (!spec.whitespace_split) return metaspace_json(spec);
    const OrderedJson list =
        OrderedJson::array({OrderedJson{{"type", "WhitespaceSplit"}}, metaspace_json(spec)});
    return {{"type", "Sequence"}, {"pretokenizers", list}};
}

OrderedJson decoder_json(const TokenizerSpec& spec) {
    if (spec.kind == TokenizerKind::kWordPiece)
        return {{"type", "WordPiece"}, {"prefix", spec.continuing_prefix}, {"cleanup", true}};
    return spec.kind == TokenizerKind::kByteBpe ? byte_level_json(spec) : metaspace_json(spec);
}

// The model without its vocabulary and merges.
OrderedJson model_json(const TokenizerSpec& spec) {
    const auto unk = [&] { return spec.unk_token ? OrderedJson(*spec.unk_token) : OrderedJson(nullptr); };
    if (spec.kind == TokenizerKind::kWordPiece)
        return {{"type", "WordPiece"},
                {"unk_token", unk()},
                {"continuing_subword_prefix", spec.continuing_prefix},
                {"max_input_chars_per_word", spec.max_word_chars}};
    if (spec.kind == TokenizerKind::kByteBpe)
        return {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", unk()},
                {"continuing_subword_prefix", ""},
                {"end_of_word_suffix", ""},
                {"fuse_unk", spec.fuse_unk},
                {"byte_fallback", false},
                {"ignore_merges", spec.ignore_merges}};
    const auto unknown = std::find_if(spec.vocab.begin(), spec.vocab.end(),
                                      [&](const NamedId& t) { return t.token == spec.unk_token; });
    return {{"type", "Unigram"}, {"unk_id", unknown->id}, {"byte_fallback", spec.byte_fallback}};
}

void append_vocab(const TokenizerSpec& spec, std::string& out) {
    const bool scored = spec.kind == TokenizerKind::kUnigram;
    out += scored ? "    \"vocab\": [" : "    \"vocab\": {";
    const char* separator = "\n";
    for (std::size_t i = 0; i < spec.vocab.size(); ++i) {
        const std::string token = OrderedJson(spec.vocab[i].token).dump();
        out += separator;
        if (scored)
            out += "      [" + token + ", " + OrderedJson(spec.scores[i]).dump() + "]";
        else
            out += "      " + token + ": " + std::to_string(spec.vocab[i].id);
        separator = ",\n";
    }
    out += scored ? "\n    ]" : "\n    }";
}

void append_merges(const TokenizerSpec& spec, std::string& out) {
    // "left right" is what every version of the library reads; parts with spaces need the newer pairs.
    const auto has_space = [](const std::string& token) { return token.find(' ') != std::string::npos; };
    const bool pairs = std::any_of(spec.merges.begin(), spec.merges.end(), [&](const auto& merge) {
        return has_space(merge.first) || has_space(merge.second);
    });
    out += ",\n    \"merges\": [";
    const char* separator = "\n";
    for (const auto& [left, right] : spec.merges) {
        out += separator;
        out +=
            "      " + (pairs ? OrderedJson::array({left, right}) : OrderedJson(left + " " + right)).dump();
        separator = ",\n";
    }
    out += "\n    ]";
}

}  // namespace

std::string write_tokenizer_json(const TokenizerSpec& spec) {
    OrderedJson added = OrderedJson::array();
    for (const auto& token : spec.added_tokens)
        added.push_back({{"id", token.id},
                         {"content", token.content},
                         {"single_word", token.single_word},
                         {"lstrip", token.lstrip},
                         {"rstrip", token.rstrip},
                         {"normalized", token.normalized},
                         {"special", token.special}});

    std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
    out += member("added_tokens", added);
    out += member("normalizer", normalizers_json(spec.normalizers));
    out += member("pre_tokenizer", pre_tokenizer_json(spec));
    out += member("post_processor", post_processor_json(spec));
    out += member("decoder", decoder_json(spec));
    const OrderedJson model = model_json(spec);
    out += "  \"model\": {\n";
    for (const auto& [key, value] : model.items()) out += "    \"" + key + "\": " + value.dump() + ",\n";
    append_vocab(spec, out);
    if (spec.kind == TokenizerKind::kByteBpe) append_merges(spec, out);
    return out + "\n  }\n}\n";
}

}  // namespace elmo
