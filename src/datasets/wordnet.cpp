#include "datasets/wordnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text_util.h"
#include "batches/share.h"
#include "elmo/context.h"
#include "elmo/data.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/line_reader.h"
#include "sources/records/record.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLabelWords = 3;  // words of a synset that name it as a label

struct Synset {
    std::string id;  // part of speech and file offset, n00001740
    std::vector<std::string> words;
    std::string definition;
    std::vector<std::string> parent_ids;
    std::vector<std::int64_t> parents;
};

// Splits at spaces, one field per call; "" at the end.
class Fields {
  public:
    explicit Fields(const Record& record) : record_(record), rest_(record.bytes) {}
    std::string_view next() {
        const std::size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
        rest_.remove_prefix(begin);
        const std::string_view field = rest_.substr(0, rest_.find(' '));
        rest_.remove_prefix(field.size());
        if (field.empty()) fail(record_, "a WordNet synset", "a line that ends too early");
        return field;
    }
    int number(int base) {
        const std::string_view field = next();
        int value = -1;
        const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value, base);
        if (status != std::errc() || end != field.data() + field.size() || value < 0)
            fail(record_, "a count", fmt::format("'{}'", quoted(field)));
        return value;
    }

  private:
    const Record& record_;
    std::string_view rest_;
};

// The gloss without its quoted examples.
std::string definition_of(std::string_view gloss) {
    const std::size_t example = gloss.find("; \"");
    gloss = gloss.substr(0, example);
    const std::size_t begin = std::min(gloss.find_first_not_of(' '), gloss.size());
    gloss.remove_prefix(begin);
    while (!gloss.empty() && (gloss.back() == ' ' || gloss.back() == ';')) gloss.remove_suffix(1);
    return std::string(gloss);
}

// offset lex_file type w_cnt(hex) {word lex_id} p_cnt {symbol offset type source/target} ... | gloss
Synset parse_synset(const Record& record) {
    const std::size_t bar = record.bytes.find(" | ");
    if (bar == record.bytes.npos)
        fail(record, "a WordNet synset with a gloss after ' | '", fmt::format("'{}'", quoted(record.bytes)));
    const Record head{record.bytes.substr(0, bar), record.line, record.file};
    Fields fields(head);
    Synset synset;
    const std::string_view offset = fields.next();
    fields.next();
    const std::string_view type = fields.next();
    synset.id = fmt::format("{}{}", type, offset);
    for (int left = fields.number(16); left > 0; --left) {
        std::string word(fields.next());
        std::replace(word.begin(), word.end(), '_', ' ');
        synset.words.push_back(std::move(word));
        fields.next();
    }
    for (int left = fields.number(10); left > 0; --left) {
        const std::string_view symbol = fields.next(), target = fields.next(), target_type = fields.next();
        fields.next();
        if (symbol == "@" || symbol == "@i")
            synset.parent_ids.push_back(fmt::format("{}{}", target_type, target));
    }
    synset.definition = definition_of(record.bytes.substr(bar + 3));
    return synset;
}

std::vector<Synset> read_synsets(const fs::path& folder) {
    std::vector<Synset> synsets;
    for (const char* name : {"data.noun", "data.verb"}) {
        LineReader lines(folder / name);
        while (const auto line = lines.next_line()) {
            if (line->starts_with("  ")) continue;  // the licence
            synsets.push_back(parse_synset({*line, lines.line_number(), lines.name()}));
        }
    }
    std::unordered_map<std::string_view, std::int64_t> numbers;
    for (const Synset& synset : synsets)
        numbers.emplace(synset.id, static_cast<std::int64_t>(numbers.size()));
    if (numbers.size() != synsets.size())
        throw DataError(fmt::format("{}: expected every synset once, found one twice", folder.string()));
    for (Synset& synset : synsets)
        for (const std::string& id : synset.parent_ids) {
            const auto found = numbers.find(id);
            if (found == numbers.end())
                throw DataError(fmt::format("{}: synset {} points to {}, which is not there", folder.string(),
                                            synset.id, quoted(id)));
            synset.parents.push_back(found->second);
        }
    return synsets;
}

// All that a synset is a kind of, ascending. Cycles (data.verb has one) do no harm.
std::vector<std::int64_t> ancestors_of(const std::vector<Synset>& synsets, std::int64_t start) {
    std::vector<std::int64_t> found, open = {start};
    while (!open.empty()) {
        const std::int64_t at = open.back();
        open.pop_back();
        for (const std::int64_t parent : synsets[at].parents)
            if (parent != start && std::find(found.begin(), found.end(), parent) == found.end()) {
                found.push_back(parent);
                open.push_back(parent);
            }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string join(const std::vector<std::string>& words, std::size_t limit) {
    std::string text;
    for (std::size_t i = 0; i < std::min(limit, words.size()); ++i) text += (i == 0 ? "" : ", ") + words[i];
    return text;
}

struct Rows {
    std::vector<std::int64_t> synsets;
    std::int64_t entries = 0;
};

}  // namespace

DataSummary write_wordnet(const Context& context, const fs::path& dict_folder, const fs::path& out_folder,
                          const WordnetOptions& options) {
    if (!options.overwrite && fs::exists(out_folder / "trn_X.txt"))
        throw ConfigError(
            fmt::format("{}: there is a data set already; replace it with --overwrite", out_folder.string()));
    const std::vector<Synset> synsets = read_synsets(dict_folder);
    const auto num_synsets = static_cast<std::int64_t>(synsets.size());

    std::vector<std::vector<std::int64_t>> labels(synsets.size());
    std::vector<std::int64_t> covered(synsets.size());
    for (std::int64_t i = 0; i < num_synsets; ++i) {
        labels[i] = ancestors_of(synsets, i);
        for (const std::int64_t label : labels[i]) ++covered[label];
    }
    const double widest = options.widest_label * static_cast<double>(num_synsets);
    std::vector<bool> is_test(synsets.size()), in_train(synsets.size());
    for (std::int64_t i = 0; i < num_synsets; ++i) {
        is_test[i] = falls_in_share(hash64(synsets[i].id), options.test_share);
        std::erase_if(labels[i],
                      [&](std::int64_t label) { return static_cast<double>(covered[label]) > widest; });
        if (!is_test[i])
            for (const std::int64_t label : labels[i]) in_train[label] = true;
    }
    std::vector<std::int64_t> number(synsets.size(), -1), label_synsets;
    for (std::int64_t i = 0; i < num_synsets; ++i)
        if (in_train[i]) {
            number[i] = static_cast<std::int64_t>(label_synsets.size());
            label_synsets.push_back(i);
        }
    Rows train, test;
    std::vector<bool> unseen(synsets.size());
    for (std::int64_t i = 0; i < num_synsets; ++i) {
        std::erase_if(labels[i], [&](std::int64_t label) {
            if (number[label] < 0) unseen[label] = true;
            return number[label] < 0;
        });
        if (labels[i].empty()) continue;
        Rows& rows = is_test[i] ? test : train;
        rows.synsets.push_back(i);
        rows.entries += static_cast<std::int64_t>(labels[i].size());
    }

    fs::create_directories(out_folder);
    const auto write = [&](const char* name, const std::vector<std::int64_t>& list, const std::string& header,
                           const auto& line) {
        AtomicFile file(out_folder / name);
        file.write(header);
        for (const std::int64_t i : list) file.write(line(i) + "\n");
        file.commit();
    };
    const auto text = [&](std::int64_t i) {
        return join(synsets[i].words, synsets[i].words.size()) + ": " + synsets[i].definition;
    };
    const auto row = [&](std::int64_t i) {
        std::string line;
        for (const std::int64_t label : labels[i])
            line += fmt::format("{}{}:1", line.empty() ? "" : " ", number[label]);
        return line;
    };
    const auto id = [&](std::int64_t i) { return synsets[i].id; };
    const auto name = [&](std::int64_t i) { return join(synsets[i].words, kLabelWords); };
    const auto header = [&](const Rows& rows) {
        return fmt::format("{} {}\n", rows.synsets.size(), label_synsets.size());
    };
    write("Y.txt", label_synsets, "", name);
    write("Y_ids.txt", label_synsets, "", id);
    write("tst_X.txt", test.synsets, "", text);
    write("tst_X_Y.txt", test.synsets, header(test), row);
    write("tst_ids.txt", test.synsets, "", id);
    write("trn_X_Y.txt", train.synsets, header(train), row);
    write("trn_ids.txt", train.synsets, "", id);
    write("trn_X.txt", train.synsets, "", text);  // last: with it the set is complete

    DataSummary summary;
    summary.format = "XMC repository text layout";
    summary.train_rows = static_cast<std::int64_t>(train.synsets.size());
    summary.test_rows = static_cast<std::int64_t>(test.synsets.size());
    summary.labels = static_cast<std::int64_t>(label_synsets.size());
    summary.labels_per_row = static_cast<double>(train.entries) /
                             static_cast<double>(std::max<std::int64_t>(1, summary.train_rows));
    summary.rows_per_label =
        static_cast<double>(train.entries) / static_cast<double>(std::max<std::int64_t>(1, summary.labels));
    summary.labels_unseen_in_train = std::count(unseen.begin(), unseen.end(), true);
    summary.rows_without_labels = num_synsets - summary.train_rows - summary.test_rows;  // dropped
    summary.has_label_names = true;
    context.info(fmt::format("WordNet: {} training texts, {} test texts, {} labels, {:.2f} labels per text",
                             with_commas(summary.train_rows), with_commas(summary.test_rows),
                             with_commas(summary.labels), summary.labels_per_row));
    return summary;
}

DataSummary make_wordnet(const Context& context, const std::string& wordnet_folder, const Config& config) {
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the data set, found none; give --out FOLDER");
    WordnetOptions options;
    options.overwrite = config.overwrite;
    return write_wordnet(context, wordnet_folder, config.out, options);
}

}  // namespace elmo
