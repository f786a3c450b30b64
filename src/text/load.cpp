// Finds and reads the files of a tokenizer folder. The older layouts (vocab.txt, vocab.json + merges.txt)
// leave most of the specification to tokenizer_config.json and to the defaults of BERT and RoBERTa.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/text_util.h"
#include "elmo/context.h"
#include "elmo/error.h"
#include "text/json_node.h"
#include "text/spec.h"
#include "text/tokenizer.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// tokenizer_config.json beside the vocabulary; an empty object when absent.
Json read_config(const fs::path& path) {
    if (!is_file(path)) return Json::object();
    Json json = parse_json(read_file(path), path.string());
    if (!json.is_object()) JsonNode{json, path.string()}.fail("an object");
    return json;
}

// A special token's name: a string, or an object with its content.
std::string token_name(const JsonNode& config, const char* key, std::string otherwise) {
    if (!config.has(key)) return otherwise;
    const JsonNode node = config.at(key);
    return node.json.is_object() ? node.at("content").string() : node.string();
}

// The names of special tokens, each looked up in the vocabulary.
class Specials {
  public:
    Specials(TokenizerSpec& spec, const std::string& vocab_file) : spec_(spec), vocab_file_(vocab_file) {}

    // Id of a special token and its entry among the added tokens; DataError when the vocabulary lacks it.
    NamedId add(const std::string& name, bool lstrip = false) {
        const auto found = find(name);
        if (found == spec_.vocab.end())
            throw DataError(fmt::format(
                "{}: expected the special token '{}' among {} tokens, found none; the vocabulary is "
                "incomplete or tokenizer_config.json names another",
                vocab_file_, quoted(name), spec_.vocab.size()));
        const auto same = [&](const AddedToken& token) { return token.content == name; };
        if (std::none_of(spec_.added_tokens.begin(), spec_.added_tokens.end(), same)) {
            AddedToken token;
            token.content = name;
            token.id = found->id;
            token.lstrip = lstrip;
            spec_.added_tokens.push_back(token);
            std::sort(spec_.added_tokens.begin(), spec_.added_tokens.end(),
                      [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
        }
        return *found;
    }
    bool has(const std::string& name) { return find(name) != spec_.vocab.end(); }

  private:
    std::vector<NamedId>::const_iterator find(const std::string& name) const {
        return std::find_if(spec_.vocab.begin(), spec_.vocab.end(),
                            [&](const NamedId& t) { return t.token == name; });
    }

    TokenizerSpec& spec_;
    std::string vocab_file_;
};

// Calls line(text, number) for each line, without its end.
template <class OnLine>
void for_each_line(std::string_view content, OnLine&& line) {
    for (std::int64_t number = 1; !content.empty(); ++number) {
        const std::size_t end = std::min(content.find('\n'), content.size());
        std::string_view text = content.substr(0, end);
        if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
        line(text, number);
        content.remove_prefix(std::min(end + 1, content.size()));
    }
}

std::string read_utf8_file(const fs::path& path) {
    std::string content = read_file(path);
    const std::size_t bad = find_invalid_utf8(content);
    if (bad != std::string::npos)
        throw DataError(fmt::format(
            "{}:{}: expected UTF-8, found an invalid byte", path.string(),
            1 + std::count(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(bad), '\n')));
    return content;
}

std::unique_ptr<Tokenizer> load_wordpiece(const Context& context, const fs::path& vocab_file) {
    const fs::path config_file = vocab_file.parent_path() / "tokenizer_config.json";
    const Json config = read_config(config_file);
    const JsonNode options{config, config_file.string()};
    if (!is_file(config_file))
        context.warning(
            fmt::format("{} has no tokenizer_config.json beside it; assuming lower case, as BERT uncased",
                        vocab_file.string()));
    TokenizerSpec spec;
    for_each_line(read_utf8_file(vocab_file), [&](std::string_view token, std::int64_t number) {
        if (token.empty())
            throw DataError(
                fmt::format("{}:{}: expected a token, found an empty line", vocab_file.string(), number));
        if (number > kMaxTokenId)
            throw DataError(fmt::format("{}: expected at most {} lines", vocab_file.string(), kMaxTokenId));
        spec.vocab.push_back({std::string(token), static_cast<std::int32_t>(number - 1)});
    });
    NormalizerStep step;
    step.lowercase = options.boolean("do_lower_case", true);
    step.handle_chinese_chars = options.boolean("tokenize_chinese_chars", true);
    if (options.has("strip_accents")) step.strip_accents = options.boolean("strip_accents", true);
    spec.normalizers = {step};
    Specials specials(spec, vocab_file.string());
    spec.unk_token = specials.add(token_name(options, "unk_token", "[UNK]")).token;
    spec.opening = {specials.add(token_name(options, "cls_token", "[CLS]"))};
    spec.closing = {specials.add(token_name(options, "sep_token", "[SEP]"))};
    const std::string pad = token_name(options, "pad_token", "[PAD]");
    const std::string mask = token_name(options, "mask_token", "[MASK]");
    if (specials.has(pad)) spec.pad_token = specials.add(pad).token;
    if (specials.has(mask)) specials.add(mask);
    return std::make_unique<Tokenizer>(std::move(spec), vocab_file.string());
}

std::unique_ptr<Tokenizer> load_bpe(const fs::path& vocab_file) {
    const fs::path folder = vocab_file.parent_path();
    const fs::path merges_file = folder / "merges.txt";
    const fs::path config_file = folder / "tokenizer_config.json";
    if (!is_file(merges_file))
        throw DataError(fmt::format("{}: expected merges.txt beside it, found none", vocab_file.string()));
    const Json config = read_config(config_file);
    const JsonNode options{config, config_file.string()};

    TokenizerSpec spec;
    spec.kind = TokenizerKind::kByteBpe;
    const Json vocab = parse_json(read_file(vocab_file), vocab_file.string());
    if (!vocab.is_object()) JsonNode{vocab, vocab_file.string()}.fail("an object of tokens and ids");
    for (const auto& [token, id] : vocab.items())
        spec.vocab.push_back(
            {token, JsonNode{id, fmt::format("{}: '{}'", vocab_file.string(), quoted(token))}.id()});
    std::sort(spec.vocab.begin(), spec.vocab.end(),
              [](const NamedId& a, const NamedId& b) { return a.id < b.id; });
    for_each_line(read_utf8_file(merges_file), [&](std::string_view line, std::int64_t number) {
        if (line.substr(0, 8) == "#version" || line.empty()) return;
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
            throw DataError(fmt::format("{}:{}: expected two tokens with a space between, found '{}'",
                                        merges_file.string(), number, quoted(line)));
        spec.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    });
    spec.add_prefix_space = options.boolean("add_prefix_space", false);
    spec.roberta_pairs = true;
    Specials specials(spec, vocab_file.string());
    const std::string bos = token_name(options, "bos_token", "<s>");
    const std::string eos = token_name(options, "eos_token", "</s>");
    spec.opening = {specials.add(token_name(options, "cls_token", bos))};
    spec.closing = {specials.add(token_name(options, "sep_token", eos))};
    const std::string unk = token_name(options, "unk_token", "<unk>");
    const std::string pad = token_name(options, "pad_token", "<pad>");
    const std::string mask = token_name(options, "mask_token", "<mask>");
    if (specials.has(unk)) spec.unk_token = specials.add(unk).token;
    if (specials.has(pad)) spec.pad_token = specials.add(pad).token;
    if (specials.has(mask)) specials.add(mask, true);
    return std::make_unique<Tokenizer>(std::move(spec), vocab_file.string());
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const Context& context, const fs::path& folder_or_file) {
    std::error_code ignored;
    fs::path file = folder_or_file;
    if (fs::is_directory(folder_or_file, ignored)) {
        for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json"})
            if (is_file(folder_or_file / name)) {
                file = folder_or_file / name;
                break;
            }
        for (const char* name : {"sentencepiece.bpe.model", "spiece.model"})
            if (file == folder_or_file && is_file(folder_or_file / name))
                throw DataError(
                    fmt::format("{}: expected tokenizer.json, found only {}: write it with transformers: "
                                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                folder_or_file.string(), name));
        if (file == folder_or_file)
            throw DataError(fmt::format(
                "{}: expected tokenizer.json, vocab.txt, or vocab.json with merges.txt; found none",
                folder_or_file.string()));
    } else if (!is_file(folder_or_file)) {
        throw DataError(
            fmt::format("{}: expected a tokenizer folder or file, found nothing", folder_or_file.string()));
    }
    if (file.extension() == ".txt") return load_wordpiece(context, file);
    if (file.filename() == "vocab.json") return load_bpe(file);
    return parse_tokenizer_json(read_file(file), file.string());
}

}  // namespace elmo
