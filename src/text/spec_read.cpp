// Reads a tokenizer.json. The file is untrusted: everything is checked, and unknown components are refused by
// name, because ignoring one would give other ids than the author's.
#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/error.h"
#include "text/json_node.h"
#include "text/spec.h"
#include "text/unigram.h"

namespace elmo {
namespace {

constexpr const char* kManySpaces = " {2,}";

void read_normalizer(const JsonNode& node, std::vector<NormalizerStep>& steps) {
    using Kind = NormalizerStep::Kind;
    static const std::pair<const char*, Kind> kPlain[] = {{"NFC", Kind::kNfc},
                                                          {"NFD", Kind::kNfd},
                                                          {"NFKC", Kind::kNfkc},
                                                          {"NFKD", Kind::kNfkd},
                                                          {"Lowercase", Kind::kLowercase},
                                                          {"StripAccents", Kind::kStripAccents}};
    const std::string& type = node.type();
    if (type == "Sequence") {
        const JsonNode list = node.at("normalizers");
        for (std::size_t i = 0; i < list.size(); ++i) read_normalizer(list.at(i), steps);
        return;
    }
    NormalizerStep step;
    const auto* plain = std::find_if(std::begin(kPlain), std::end(kPlain),
                                     [&](const auto& entry) { return type == entry.first; });
    if (plain != std::end(kPlain)) {
        step.kind = plain->second;
    } else if (type == "BertNormalizer") {
        step.clean_text = node.boolean("clean_text", true);
        step.handle_chinese_chars = node.boolean("handle_chinese_chars", true);
        step.lowercase = node.boolean("lowercase", true);
        if (node.has("strip_accents")) step.strip_accents = node.boolean("strip_accents", true);
    } else if (type == "Precompiled") {
        const JsonNode map = node.at("precompiled_charsmap");
        step.kind = Kind::kCharsmap;
        step.charsmap = std::make_shared<Charsmap>(map.string(), map.path);
    } else if (type == "Strip") {
        step.kind = Kind::kStrip;
        step.strip_left = node.boolean("strip_left", true);
        step.strip_right = node.boolean("strip_right", true);
    } else if (type == "Replace") {
        step.kind = Kind::kReplace;
        step.content = node.at("content").string();
        const JsonNode pattern = node.at("pattern");
        if (pattern.has("String"))
            step.pattern = pattern.at("String").string();
        else if (pattern.at("Regex").string() != kManySpaces)
            pattern.at("Regex").fail(fmt::format("\"{}\" (others are not supported)", kManySpaces));
        if (pattern.has("String") && step.pattern.empty())
            pattern.at("String").fail("a text that is not empty");
    } else {
        node.unsupported(
            "BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Precompiled, Strip, Replace, "
            "Sequence");
    }
    steps.push_back(step);
}

// [WhitespaceSplit,] Metaspace.
void read_unigram_pieces(const JsonNode& node, TokenizerSpec& spec) {
    const std::string& type = node.type();
    if (type == "WhitespaceSplit") {
        spec.whitespace_split = true;
        return;
    }
    if (type != "Metaspace") node.unsupported("WhitespaceSplit, Metaspace, Sequence with this model");
    if (node.at("replacement").string() != kUnigramSpace)
        node.at("replacement").fail(fmt::format("\"{}\"", kUnigramSpace));
    spec.add_prefix_space = node.boolean("add_prefix_space", true);
    if (node.has("prepend_scheme")) {
        const std::string& scheme = node.at("prepend_scheme").string();
        if (scheme != "always" && scheme != "never")
            node.at("prepend_scheme").fail("\"always\" or \"never\" (others are not supported)");
        spec.add_prefix_space = scheme == "always";
    }
    spec.split_pieces = node.boolean("split", true);
}

void read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec) {
    if (spec.kind == TokenizerKind::kUnigram) {
        if (node.type() != "Sequence") return read_unigram_pieces(node, spec);
        const JsonNode list = node.at("pretokenizers");
        if (list.size() == 0 || list.at(list.size() - 1).type() != "Metaspace")
            list.fail("a list that ends with a Metaspace");
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (i + 1 < list.size() && list.at(i).type() == "Metaspace")
                list.at(i).fail("one Metaspace, the last");
            read_unigram_pieces(list.at(i), spec);
        }
        return;
    }
    const char* expected = spec.kind == TokenizerKind::kWordPiece ? "BertPreTokenizer" : "ByteLevel";
    const std::string& type = node.type();
    if (type != expected) node.unsupported(fmt::format("{} with this model", expected));
    if (spec.kind == TokenizerKind::kWordPiece) return;
    spec.add_prefix_space = node.boolean("add_prefix_space", true);
    if (!node.boolean("use_regex", true))
        node.at("use_regex").fail("true: a custom pattern is not supported");
}

void read_template(const JsonNode& node, TokenizerSpec& spec) {
    const JsonNode single = node.at("single");
    bool after_text = false;
    for (std::size_t i = 0; i < single.size(); ++i) {
        const JsonNode piece = single.at(i);
        if (piece.has("Sequence")) {
            const JsonNode sequence = piece.at("Sequence").at("id");
            if (after_text || sequence.string() != "A") sequence.fail("the sequence A, once");
            after_text = true;
            continue;
        }
        const std::string& name = piece.at("SpecialToken").at("id").string();
        const JsonNode special = node.at("special_tokens").at(name.c_str());
        const JsonNode ids = special.at("ids");
        const JsonNode tokens = special.at("tokens");
        if (ids.size() != tokens.size()) ids.fail(fmt::format("as many ids as tokens ({})", tokens.size()));
        for (std::size_t k = 0; k < ids.size(); ++k)
            (after_text ? spec.closing : spec.opening).push_back({tokens.at(k).string(), ids.at(k).id()});
    }
    if (!after_text) single.fail("a piece with the sequence A");
    // <s> A </s> </s> B </s>
    spec.roberta_pairs = spec.kind == TokenizerKind::kUnigram && spec.opening.size() == 1 &&
                         spec.closing.size() == 1 && node.has("pair") && node.at("pair").size() == 6;
}

void read_post_processor(const JsonNode& node, TokenizerSpec& spec) {
    const std::string& type = node.type();
    const auto pair = [&](const char* key) {
        const JsonNode entry = node.at(key);
        if (entry.size() != 2) entry.fail("[token, id]");
        return NamedId{entry.at(std::size_t{0}).string(), entry.at(std::size_t{1}).id()};
    };
    if (type == "Sequence") {
        const JsonNode list = node.at("processors");
        for (std::size_t i = 0; i < list.size(); ++i) read_post_processor(list.at(i), spec);
    } else if (type == "ByteLevel") {
        return;  // moves offsets, not ids
    } else if (!spec.opening.empty() || !spec.closing.empty()) {
        node.fail("one post-processor that adds special tokens");
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        spec.opening = {pair("cls")};
        spec.closing = {pair("sep")};
        spec.roberta_pairs = type == "RobertaProcessing";
    } else if (type == "TemplateProcessing") {
        read_template(node, spec);
    } else {
        node.unsupported("TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
    }
}

void read_added_tokens(const JsonNode& list, TokenizerSpec& spec) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        const JsonNode node = list.at(i);
        AddedToken token;
        token.content = node.at("content").string();
        token.id = node.at("id").id();
        token.single_word = node.boolean("single_word", false);
        token.lstrip = node.boolean("lstrip", false);
        token.rstrip = node.boolean("rstrip", false);
        token.special = node.boolean("special", false);
        token.normalized = node.boolean("normalized", !token.special);
        if (!token.content.empty()) spec.added_tokens.push_back(std::move(token));
    }
    std::stable_sort(spec.added_tokens.begin(), spec.added_tokens.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    for (std::size_t i = 1; i < spec.added_tokens.size(); ++i)
        if (spec.added_tokens[i].id == spec.added_tokens[i - 1].id)
            throw DataError(fmt::format("{}: the id {} is given to '{}' and to '{}'", list.path,
                                        spec.added_tokens[i].id, quoted(spec.added_tokens[i - 1].content),
                                        quoted(spec.added_tokens[i].content)));
}

void read_vocab(const JsonNode& node, TokenizerSpec& spec) {
    if (!node.json.is_object()) node.fail("an object of tokens and ids");
    for (const auto& [token, id] : node.json.items()) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMaxTokenId)
            JsonNode{id, fmt::format("{}['{}']", node.path, quoted(token))}.id();  // says what is wrong
        spec.vocab.push_back({token, id.get<std::int32_t>()});
    }
    std::sort(spec.vocab.begin(), spec.vocab.end(),
              [](const NamedId& a, const NamedId& b) { return a.id < b.id; });
}

// Ids are places in the list.
void read_scores(const JsonNode& node, TokenizerSpec& spec) {
    if (node.size() > static_cast<std::size_t>(kMaxTokenId))
        node.fail(fmt::format("at most {} tokens", kMaxTokenId));
    for (const Json& entry : node.json) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
            JsonNode{entry, fmt::format("{}[{}]", node.path, spec.vocab.size())}.fail("[token, score]");
        spec.vocab.push_back(
            {entry[0].get_ref<const std::string&>(), static_cast<std::int32_t>(spec.vocab.size())});
        spec.scores.push_back(entry[1].get<double>());
    }
}

void read_merges(const JsonNode& list, TokenizerSpec& spec) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        const JsonNode merge = list.at(i);
        if (merge.json.is_array()) {
            if (merge.size() != 2) merge.fail("two tokens");
            spec.merges.emplace_back(merge.at(std::size_t{0}).string(), merge.at(std::size_t{1}).string());
            continue;
        }
        const std::string& text = merge.string();
        if (text.rfind("#version", 0) == 0) continue;
        const std::size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
            merge.fail("two tokens with a space between");
        spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
}

void read_model(const JsonNode& node, TokenizerSpec& spec) {
    const std::string& type = node.type();
    if (type == "Unigram") {
        spec.kind = TokenizerKind::kUnigram;
        read_scores(node.at("vocab"), spec);
        if (spec.vocab.empty()) node.at("vocab").fail("a list of tokens");
        const auto last = static_cast<std::int64_t>(spec.vocab.size()) - 1;
        spec.unk_token = spec.vocab[static_cast<std::size_t>(node.at("unk_id").integer(0, last))].token;
        spec.byte_fallback = node.boolean("byte_fallback", false);
        return;
    }
    if (type != "WordPiece" && type != "BPE") node.unsupported("WordPiece, BPE (byte-level), Unigram");
    spec.kind = type == "WordPiece" ? TokenizerKind::kWordPiece : TokenizerKind::kByteBpe;
    read_vocab(node.at("vocab"), spec);
    if (spec.kind == TokenizerKind::kWordPiece) {
        spec.unk_token = node.at("unk_token").string();
        if (node.has("continuing_subword_prefix"))
            spec.continuing_prefix = node.at("continuing_subword_prefix").string();
        if (node.has("max_input_chars_per_word"))
            spec.max_word_chars = node.at("max_input_chars_per_word").integer(0, std::int64_t{1} << 31);
        return;
    }
    if (node.has("unk_token")) spec.unk_token = node.at("unk_token").string();
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (node.has(key) && !node.at(key).string().empty())
            node.at(key).fail("\"\" (others are not supported)");
    if (node.has("dropout") && node.json["dropout"] != 0)
        node.at("dropout").fail("null: random merges are not supported");
    if (node.boolean("byte_fallback", false)) node.at("byte_fallback").fail("false (true is not supported)");
    spec.fuse_unk = node.boolean("fuse_unk", false);
    spec.ignore_merges = node.boolean("ignore_merges", false);
    read_merges(node.at("merges"), spec);
}

// The padding section names the token; else the customary names.
std::string find_pad_token(const JsonNode& root, const TokenizerSpec& spec) {
    const auto known = [&](const std::string& name) {
        return std::any_of(spec.vocab.begin(), spec.vocab.end(),
                           [&](const NamedId& t) { return t.token == name; }) ||
               std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                           [&](const AddedToken& t) { return t.content == name; });
    };
    std::vector<std::string> names = {"[PAD]", "<pad>"};
    if (root.has("padding") && root.at("padding").has("pad_token"))
        names.insert(names.begin(), root.at("padding").at("pad_token").string());
    for (const auto& name : names)
        if (known(name)) return name;
    return "";
}

}  // namespace

TokenizerSpec read_tokenizer_json(std::string_view json, const std::string& where) {
    const Json document = parse_json(json, where);
    const JsonNode root{document, where};
    TokenizerSpec spec;
    read_model(root.at("model"), spec);
    if (root.has("added_tokens")) read_added_tokens(root.at("added_tokens"), spec);
    if (root.has("normalizer")) read_normalizer(root.at("normalizer"), spec.normalizers);
    read_pre_tokenizer(root.at("pre_tokenizer"), spec);
    if (root.has("post_processor")) read_post_processor(root.at("post_processor"), spec);
    spec.pad_token = find_pad_token(root, spec);
    return spec;
}

}  // namespace elmo
