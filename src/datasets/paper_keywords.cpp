// LF-Paper2Keywords out of a DBLP citation network dump: title and abstract of each paper as its text, its
// keywords as labels.
//
// A paper counts when it has a title and at least one keyword. Its text is the title, a space and the
// abstract (where there is one), every run of white space one space. A keyword is lower-cased, runs of white
// space become one space, and punctuation at its ends goes; empty ones and those repeated in a paper are left
// out. Of papers with the same id (or, without one, the same text) the first stays. A hash of the id, or of
// the text, puts half of the papers into the test set. Labels are the keywords of training papers, in the
// order of their bytes.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <unordered_set>

#include "base/parallel.h"
#include "base/progress.h"
#include "base/text_util.h"
#include "batches/share.h"
#include "cache/name_table.h"
#include "elmo/data.h"
#include "elmo/error.h"
#include "formats/json_array.h"
#include "formats/zip_file.h"
#include "io/atomic_folder.h"
#include "io/checksum.h"
#include "io/mmap_file.h"
#include "io/output_file.h"
#include "sources/records/record.h"
#include "text/unicode/unicode.h"

namespace elmo {
namespace fs = std::filesystem;
namespace dom = simdjson::dom;
namespace {

constexpr double kTestShare = 0.5;
constexpr std::size_t kPapersABlock = 2048;

struct Paper {
    std::uint64_t identity = 0;  // hash of the id, or of the text
    std::string text;
    std::vector<std::string> keywords;
    bool has_text = false;
};

// Runs of white space become one space; none at the ends.
void append_spaced(std::string_view text, std::string& out) {
    bool gap = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const char32_t c = unicode::decode(text, at);
        if (unicode::is_space(c) || unicode::is_control(c)) {
            gap = true;
            continue;
        }
        if (gap && !out.empty()) out += ' ';
        gap = false;
        out.append(text.substr(begin, at - begin));
    }
}

std::string normal_keyword(std::string_view keyword) {
    std::string spaced;
    append_spaced(keyword, spaced);
    std::u32string lower;
    for (std::size_t at = 0; at < spaced.size();) unicode::append_lower(unicode::decode(spaced, at), lower);
    const auto is_edge = [](char32_t c) {
        // A closing bracket, '+' or '#' belongs to the word: "c++", "f(x)".
        return unicode::is_space(c) ||
               (unicode::is_punctuation(c) && c != U'+' && c != U'#' && c != U'(' && c != U')');
    };
    const auto begin = std::find_if_not(lower.begin(), lower.end(), is_edge);
    const auto end = std::find_if_not(lower.rbegin(), std::make_reverse_iterator(begin), is_edge).base();
    std::string out;
    unicode::append(std::u32string_view(lower).substr(static_cast<std::size_t>(begin - lower.begin()),
                                                      static_cast<std::size_t>(end - begin)),
                    out);
    return out;
}

// NumberInt(2009) -> 2009, outside of strings: some dumps are MongoDB's.
void strip_number_calls(std::string& json) {
    if (json.find("Number") == json.npos) return;
    std::string out;
    bool in_string = false, in_call = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (in_string) {
            out += c;
            if (c == '\\' && i + 1 < json.size()) out += json[++i];
            if (c == '"') in_string = false;
            continue;
        }
        if (c == 'N' && (json.compare(i, 10, "NumberInt(") == 0 || json.compare(i, 11, "NumberLong(") == 0)) {
            i = json.find('(', i);
            in_call = true;
        } else if (c == ')' && in_call) {
            in_call = false;
        } else {
            in_string = c == '"';
            out += c;
        }
    }
    json = std::move(out);
}

class PaperParser {
  public:
    Paper parse(std::string& json, const std::string& file, std::int64_t element) {
        const auto bad = [&](std::string_view expected, std::string_view found) {
            throw DataError(
                fmt::format("{}: element {}: expected {}, found {}", file, element, expected, found));
        };
        strip_number_calls(json);
        dom::element root;
        const auto error = parser_.parse(json).get(root);
        if (error != simdjson::SUCCESS)
            bad("a JSON object", fmt::format("'{}' ({})", quoted(json), simdjson::error_message(error)));
        const auto text_at = [&](const char* key) -> std::string_view {
            dom::element value;
            if (root.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return {};
            std::string_view text;
            if (value.get(text) != simdjson::SUCCESS)
                bad(fmt::format("a string at '{}'", key), quoted(simdjson::minify(value)));
            return text;
        };
        Paper paper;
        append_spaced(text_at("title"), paper.text);
        paper.has_text = !paper.text.empty();
        std::string abstract;
        append_spaced(text_at("abstract"), abstract);
        if (!abstract.empty()) paper.text += (paper.text.empty() ? "" : " ") + abstract;
        dom::element id;
        const bool has_id = root.at_key("id").get(id) == simdjson::SUCCESS && !id.is_null();
        paper.identity = hash64(has_id ? std::string(simdjson::minify(id)) : paper.text);
        dom::element list;
        if (root.at_key("keywords").get(list) == simdjson::SUCCESS && !list.is_null()) {
            dom::array items;
            if (list.get(items) != simdjson::SUCCESS)
                bad("a list at 'keywords'", quoted(simdjson::minify(list)));
            for (const dom::element item : items) {
                std::string_view keyword;
                if (item.is_null()) continue;
                if (item.get(keyword) != simdjson::SUCCESS)
                    bad("strings in 'keywords'", quoted(simdjson::minify(item)));
                std::string normal = normal_keyword(keyword);
                if (!normal.empty()) paper.keywords.push_back(std::move(normal));
            }
            std::sort(paper.keywords.begin(), paper.keywords.end());
            paper.keywords.erase(std::unique(paper.keywords.begin(), paper.keywords.end()),
                                 paper.keywords.end());
        }
        return paper;
    }

  private:
    dom::parser parser_;
};

// The dump's bytes, unpacked if needed.
class DumpStream {
  public:
    explicit DumpStream(const std::string& file) {
        if (!fs::is_regular_file(file)) throw DataError(file + ": no such file");
        if (!ZipFile::is_zip(file)) {
            plain_ = std::make_unique<ByteSource>(file, file);
            total_ = plain_->is_compressed() ? 0 : plain_->total();
            return;
        }
        zip_.emplace(file);
        const ZipMember* largest = nullptr;
        for (const ZipMember& member : zip_->members())
            if (member.name.ends_with(".json") && (largest == nullptr || member.bytes > largest->bytes))
                largest = &member;
        if (largest == nullptr) throw DataError(file + ": expected a .json in the archive, found none");
        total_ = largest->bytes;
        member_ = zip_->open(*largest);
    }
    ByteStream& stream() { return member_ ? *member_ : *plain_; }
    std::int64_t total() const { return total_; }  // bytes, 0 where unknown

  private:
    std::optional<ZipFile> zip_;
    std::unique_ptr<ByteStream> member_;
    std::unique_ptr<ByteSource> plain_;
    std::int64_t total_ = 0;
};

// Rows of one split: texts go to their file, labels, not numbered yet, to a file beside it.
struct SplitWriter {
    OutputFile texts, labels;
    fs::path label_path;
    std::int64_t rows = 0;

    SplitWriter(const fs::path& folder, const std::string& name)
        : texts(folder / (name + "_X.txt"), OutputFile::Open::kTruncate),
          labels(folder / (name + ".ids"), OutputFile::Open::kTruncate),
          label_path(folder / (name + ".ids")) {}

    void add(const std::string& text, const std::vector<std::uint32_t>& ids) {
        texts.write(text + "\n");
        const auto count = static_cast<std::uint32_t>(ids.size());
        labels.write(std::as_bytes(std::span(&count, 1)));
        labels.write(std::as_bytes(std::span(ids)));
        ++rows;
    }

    // The label matrix; returns its entries. Names with number `none` are left out.
    std::int64_t finish(const fs::path& matrix, const std::vector<std::uint32_t>& number, std::uint32_t none,
                        std::int64_t num_labels) {
        texts.close();
        labels.close();
        std::int64_t entries = 0;
        {
            const MappedFile file(label_path);
            const auto* at = reinterpret_cast<const std::uint32_t*>(file.bytes().data());
            OutputFile out(matrix, OutputFile::Open::kTruncate);
            out.write(fmt::format("{} {}\n", rows, num_labels));
            std::vector<std::uint32_t> ids;
            std::string line;
            for (std::int64_t row = 0; row < rows; ++row) {
                const std::uint32_t count = *at++;
                ids.clear();
                for (std::uint32_t i = 0; i < count; ++i)
                    if (const std::uint32_t id = number[*at++]; id != none) ids.push_back(id);
                std::sort(ids.begin(), ids.end());
                line.clear();
                for (const std::uint32_t id : ids)
                    fmt::format_to(std::back_inserter(line), "{}{}:1", line.empty() ? "" : " ", id);
                out.write(line + "\n");
                entries += static_cast<std::int64_t>(ids.size());
            }
            out.close();
        }
        fs::remove(label_path);
        return entries;
    }
};

}  // namespace

PaperKeywords make_paper2keywords(const Context& given_context, const std::string& dump,
                                  const Config& config) {
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the data set, found none; give --out FOLDER");
    std::error_code ignored;
    if (fs::exists(config.out, ignored) && !(fs::is_directory(config.out) && fs::is_empty(config.out)) &&
        !(config.overwrite && fs::exists(fs::path(config.out) / "trn_X_Y.txt", ignored)))
        throw ConfigError(
            fmt::format("{}: the folder is not empty; give another --out{}", config.out,
                        config.overwrite ? ": it holds no data set to overwrite" : ", or --overwrite"));
    const Context context = given_context.with_threads(config.threads);
    DumpStream source(dump);
    JsonArrayReader reader(source.stream(), dump);
    AtomicFolder folder(config.out);
    SplitWriter train(folder.path(), "trn"), test(folder.path(), "tst");
    PaperKeywords result;
    NameTable names;
    std::vector<bool> in_train;
    std::unordered_set<std::uint64_t> seen;
    std::vector<std::uint32_t> ids;
    Progress progress(context, "reading papers", source.total(), "bytes");

    std::vector<std::string> elements;
    std::vector<Paper> papers;
    const auto take_block = [&] {
        papers.assign(elements.size(), {});
        const std::int64_t first = result.papers;
        context.threads().parallel_ranges(static_cast<std::int64_t>(elements.size()), 64,
                                          [&](std::int64_t begin, std::int64_t end) {
                                              PaperParser parser;
                                              for (std::int64_t i = begin; i < end; ++i)
                                                  papers[i] = parser.parse(elements[i], dump, first + i);
                                          });
        result.papers += static_cast<std::int64_t>(elements.size());
        elements.clear();
        for (const Paper& paper : papers) {
            if (!paper.has_text || paper.keywords.empty()) {
                ++(paper.has_text ? result.without_keywords : result.without_text);
                continue;
            }
            if (!seen.insert(paper.identity).second) {
                ++result.repeated;
                continue;
            }
            const bool is_test = falls_in_share(paper.identity, kTestShare);
            ids.clear();
            for (const std::string& keyword : paper.keywords) ids.push_back(names.add(keyword));
            in_train.resize(static_cast<std::size_t>(names.size()));
            if (!is_test)
                for (const std::uint32_t id : ids) in_train[id] = true;
            (is_test ? test : train).add(paper.text, ids);
        }
        progress.update(reader.bytes_read());
    };
    while (const auto element = reader.next()) {
        elements.emplace_back(*element);
        if (elements.size() == kPapersABlock) take_block();
    }
    take_block();
    progress.finish();
    if (train.rows == 0)
        throw DataError(fmt::format("{}: expected papers with a title and keywords, found none among {}",
                                    dump, with_commas(result.papers)));

    std::unordered_set<std::uint64_t>().swap(seen);
    constexpr std::uint32_t kNone = 0xffffffff;
    std::vector<std::uint32_t> number(static_cast<std::size_t>(names.size()), kNone);
    OutputFile label_texts(folder.path() / "Y.txt", OutputFile::Open::kTruncate);
    for (const std::uint32_t id : names.sorted()) {
        if (!in_train[id]) {
            ++result.labels_unseen_in_train;
            continue;
        }
        number[id] = static_cast<std::uint32_t>(result.labels++);
        label_texts.write(std::string(names.name(id)) + "\n");
    }
    label_texts.close();
    const std::int64_t entries = train.finish(folder.path() / "trn_X_Y.txt", number, kNone, result.labels);
    test.finish(folder.path() / "tst_X_Y.txt", number, kNone, result.labels);
    folder.commit();
    result.train_rows = train.rows;
    result.test_rows = test.rows;
    result.labels_per_row = static_cast<double>(entries) / static_cast<double>(train.rows);
    result.rows_per_label = static_cast<double>(entries) / static_cast<double>(result.labels);
    return result;
}

}  // namespace elmo
