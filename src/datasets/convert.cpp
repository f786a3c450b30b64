// Writing a data set in another format: texts are streamed from the source, labels come from the cache.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/csv_field.h"
#include "base/progress.h"
#include "base/text_util.h"
#include "cache/name_table.h"
#include "data/dataset.h"
#include "data/token_import.h"
#include "elmo/data.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "formats/zip_writer.h"
#include "io/atomic_folder.h"
#include "io/output_file.h"
#include "sources/matrices/sparse_source.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

// Characters that stand between labels, or make a field look like a list.
constexpr std::string_view kNotBetweenCommas = ",;|\"'[]{}()\t\r\n";

std::string json_text(std::string_view text) {
    return json_string(nlohmann::json(text));
}

// The text with every character of `bad` replaced; counts when there was one.
std::string without(std::string_view text, std::string_view bad, char instead, std::int64_t& changed) {
    std::string clean(text);
    bool any = false;
    for (char& c : clean)
        if (bad.find(c) != bad.npos) {
            c = instead;
            any = true;
        }
    changed += any;
    return clean;
}

using namespace std::string_view_literals;
constexpr std::string_view kFastTextBlanks = " \t\r\n\v\f\0"sv;

// The words of the text with single blanks between them, as fastText reads it; counts when that is another.
std::string with_single_blanks(std::string_view text, std::int64_t& changed) {
    std::string words;
    for (const char c : text)
        if (kFastTextBlanks.find(c) == kFastTextBlanks.npos)
            words += c;
        else if (!words.empty() && words.back() != ' ')
            words += ' ';
    if (words.ends_with(' ')) words.pop_back();
    changed += words != text;
    return words;
}

// The text without words that fastText would read as labels; counts when there was one.
std::string without_marks(std::string text, std::int64_t& changed) {
    bool any = false;
    for (std::size_t at = 0; (at = text.find("__label__", at)) != text.npos; ++at) {
        if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t') continue;
        text.erase(at, 1);
        any = true;
    }
    changed += any;
    return text;
}

// The text without what stands between title and body there; counts when it was in it.
std::string without_separators(std::string text, std::int64_t& changed) {
    constexpr std::string_view kSeparator = "/SEP/";
    bool any = false;
    for (std::size_t at = 0; (at = text.find(kSeparator, at)) != text.npos; any = true)
        text.replace(at, kSeparator.size(), " ");
    changed += any;
    return text;
}

// The folder holds nothing but what a data set consists of: it may be replaced as a whole.
bool is_data_set_only(const fs::path& folder) {
    static constexpr std::string_view kBeginnings[] = {"trn", "tst",  "train", "test",         "X.",
                                                       "Y.",  "lbl.", "Y_ids", "output-items", ".elmo-cache"};
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (std::none_of(std::begin(kBeginnings), std::end(kBeginnings),
                         [&](std::string_view beginning) { return name.starts_with(beginning); }))
            return false;
    }
    return true;
}

class Converter {
  public:
    Converter(const Context& context, const Config& config, DataFormat to)
        : context_(context),
          config_(config),
          to_(to),
          layout_(find_layout(config)),
          data_(Dataset::open_labels(context, config)) {
        const bool from_features = layout_.format == DataFormat::kSparse;
        if (from_features != (to == DataFormat::kSparse))
            throw ConfigError(from_features
                                  ? "to: bag-of-words features have no text: expected sparse, found " +
                                        name_of(to)
                                  : std::string("to: sparse holds bag-of-words features, which this data set "
                                                "does not have; choose another format"));
        Layout target;
        target.format = to;
        if (target.names_labels()) make_names();
    }

    Conversion run() {
        if (config_.out.empty())
            throw ConfigError("out: expected a folder for the data set, found none; give --out FOLDER");
        std::error_code ignored;
        if (fs::exists(config_.out, ignored)) {
            const fs::path home = layout_.train.labels.parent_path();
            if (fs::equivalent(config_.out, home.empty() ? "." : home, ignored))
                throw ConfigError("out: expected another folder than the data set's own");
            if (!fs::is_directory(config_.out, ignored))
                throw ConfigError(fmt::format("out: expected a folder, found the file {}", config_.out));
            if (!fs::is_empty(config_.out) && (!config_.overwrite || !is_data_set_only(config_.out)))
                throw ConfigError(fmt::format("{}: the folder is not empty{}", config_.out,
                                              config_.overwrite
                                                  ? " and holds more than a data set: give another --out"
                                                  : "; give another --out, or --overwrite"));
        }
        AtomicFolder folder(config_.out);
        folder_ = folder.path();
        result_.format = name_of(to_);
        result_.labels = data_.num_labels();
        for (const SplitName split : {SplitName::kTrain, SplitName::kTest})
            if (data_.split(split).present) write_split(split);
        if (!data_.train().present) throw DataError(config_.data + ": expected training rows, found none");
        result_.train_rows = data_.train().rows();
        result_.test_rows = data_.test().rows();
        write_labels();
        folder.commit();
        std::sort(result_.files.begin(), result_.files.end());
        result_.out = config_.out;
        say_what_changed();
        return result_;
    }

  private:
    OutputFile file(const std::string& name) {
        result_.files.push_back(name);
        return OutputFile(folder_ / name, OutputFile::Open::kTruncate);
    }

    // A name without what the format cannot carry.
    std::string changed_name(std::string_view name, std::string_view bad, char instead) {
        std::string clean = without(name, bad, instead, result_.changed_names);
        if (changed_name_.empty() && clean != name) changed_name_ = clean;
        return clean;
    }

    void say_what_changed() const {
        const std::string to = name_of(to_);
        const bool words = to_ == DataFormat::kRaw || to_ == DataFormat::kFastText;
        if (result_.changed_texts > 0)
            context_.warning(fmt::format(
                "{} held {}, which {} cannot carry: now {}spaces", counted(result_.changed_texts, "text"),
                to_ == DataFormat::kCsv        ? "carriage returns"
                : to_ == DataFormat::kTsv      ? "line ends or tabs"
                : to_ == DataFormat::kRaw      ? "line ends or /SEP/"
                : to_ == DataFormat::kFastText ? "line ends, tabs, NUL, or blanks beside blanks or at an end"
                                               : "line ends",
                to, to_ == DataFormat::kFastText ? "single " : ""));
        if (result_.marked_texts > 0)
            context_.warning(fmt::format(
                "{} held words that begin with '__label__', which {} takes for labels: now '_label__'",
                counted(result_.marked_texts, "text"), to));
        if (result_.changed_names > 0)
            context_.warning(fmt::format("{} held {}, which {} cannot carry: each is now '{}', as in '{}'",
                                         counted(result_.changed_names, "label name"),
                                         words ? "blanks" : "line ends", to, words ? '_' : ' ',
                                         quoted(changed_name_)));
    }

    // Names that the format can represent, all different.
    void make_names() {
        const bool words = to_ == DataFormat::kRaw || to_ == DataFormat::kFastText;
        const std::string_view bad = words ? " \t\r\n" : "";
        // A run of this data would not look for commas.
        as_lists_ = layout_.cells.name() != ",";
        NameTable seen;
        for (std::int64_t label = 0; label < data_.num_labels(); ++label) {
            std::string name = data_.has_label_names() ? changed_name(data_.label_name(label), bad, '_')
                                                       : fmt::format("{}", label);
            // Readers trim names.
            const bool trimmed =
                to_ != DataFormat::kJsonl && !name.empty() && (name.front() == ' ' || name.back() == ' ');
            const auto other = seen.find(name);
            if (other && data_.has_label_names() && data_.label_name(label) != data_.label_name(*other))
                throw DataError(
                    fmt::format("{}: labels '{}' and '{}' would both be '{}' in {}, which has no blanks in "
                                "names: rename one, "
                                "or write csv or jsonl",
                                config_.data, quoted(data_.label_name(*other)),
                                quoted(data_.label_name(label)), quoted(name), name_of(to_)));
            if (name.empty() || trimmed || other)
                throw DataError(fmt::format(
                    "{}: label {} {}: {} tells labels apart by name; write xmc, pecos or jsonl-folder, which "
                    "keep their numbers",
                    config_.data, label,
                    name.empty() || trimmed
                        ? fmt::format("is named '{}'", quoted(name))
                        : fmt::format("has the name '{}' of label {}", quoted(name), *other),
                    name_of(to_)));
            seen.add(name);
            as_lists_ = as_lists_ || name.find_first_of(kNotBetweenCommas) != name.npos || is_null_word(name);
            names_.push_back(std::move(name));
        }
    }

    // The labels of a row in a field of a table: between commas, or, where they could be misread there, as a
    // JSON list, which readers tell from the first rows.
    std::string label_field(std::span<const std::uint32_t> labels) const {
        if (!as_lists_) return joined_names(labels, ",");
        nlohmann::json list = nlohmann::json::array();
        for (const std::uint32_t label : labels) list.push_back(names_[label]);
        return json_string(list);
    }

    // row(text, labels) for every row.
    template <class Row>
    void each_row(SplitName split, const Row& row) {
        const Split& rows = data_.split(split);
        SplitTexts texts(context_, config_, split);
        Progress progress(context_, fmt::format("writing {}", name_of(split)), rows.rows(), "rows");
        std::string_view text;
        for (std::int64_t i = 0; i < rows.rows(); ++i) {
            if (!texts.next(text)) mismatch(split);
            row(text, rows.labels.row(i));
            progress.update(i + 1);
        }
        if (texts.next(text)) mismatch(split);
        progress.finish();
    }
    [[noreturn]] void mismatch(SplitName split) const {
        throw DataError(fmt::format("{}: expected {} texts, one a row of {}, found another number",
                                    layout_.files(split).text.string(), data_.split(split).rows(),
                                    layout_.files(split).labels.string()));
    }

    std::string joined_names(std::span<const std::uint32_t> labels, const char* separator) const {
        std::string list;
        for (const std::uint32_t label : labels) list += (list.empty() ? "" : separator) + names_[label];
        return list;
    }

    void write_split(SplitName split) {
        const bool train = split == SplitName::kTrain;
        const std::string trn = train ? "trn" : "tst", training = train ? "train" : "test";
        const auto line = [&](std::string_view text) {
            return without(text, "\r\n", ' ', result_.changed_texts);
        };
        switch (to_) {
            case DataFormat::kXmc:
            case DataFormat::kPecos: {
                const bool xmc = to_ == DataFormat::kXmc;
                OutputFile texts = file(xmc ? trn + "_X.txt" : "X." + trn + ".txt");
                each_row(split, [&](std::string_view text, auto) { texts.write(line(text) + "\n"); });
                texts.close();
                xmc ? write_matrix(trn + "_X_Y.txt", split) : write_npz("Y." + trn + ".npz", split);
                write_filter(trn, split);
                break;
            }
            case DataFormat::kJsonFolder: {
                OutputFile out = file(trn + ".json");
                std::int64_t i = 0;
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> labels) {
                    out.write(fmt::format("{{\"uid\": \"{}\", \"title\": {}, \"target_ind\": [", i++,
                                          json_text(text)));
                    for (std::size_t p = 0; p < labels.size(); ++p)
                        out.write(fmt::format("{}{}", p > 0 ? ", " : "", labels[p]));
                    out.write("]}\n");
                });
                out.close();
                write_filter(trn, split);
                break;
            }
            case DataFormat::kRaw: {
                OutputFile texts = file(training + "_raw_texts.txt"), labels = file(training + "_labels.txt");
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> ids) {
                    std::int64_t changed = 0;
                    texts.write(without_separators(without(text, "\r\n", ' ', changed), changed) + "\n");
                    result_.changed_texts += changed > 0;
                    labels.write(joined_names(ids, " ") + "\n");
                });
                texts.close();
                labels.close();
                break;
            }
            case DataFormat::kFastText: {
                OutputFile out = file(training + ".txt");
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> ids) {
                    std::string row;
                    for (const std::uint32_t label : ids) row += "__label__" + names_[label] + " ";
                    row +=
                        without_marks(with_single_blanks(text, result_.changed_texts), result_.marked_texts);
                    out.write((row.empty() ? " " : row) + "\n");  // an empty line at the end is no row
                });
                out.close();
                break;
            }
            case DataFormat::kTsv: {
                OutputFile out = file(training + ".tsv");
                out.write("text\tlabels\n");
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> ids) {
                    out.write(without(text, "\t\r\n", ' ', result_.changed_texts) + "\t" + label_field(ids) +
                              "\n");
                });
                out.close();
                break;
            }
            case DataFormat::kCsv: {
                OutputFile out = file(training + ".csv");
                out.write("text,labels\n");
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> ids) {
                    // A carriage return before a line end would be read as part of that.
                    out.write(csv_field(without(text, "\r", ' ', result_.changed_texts)) + "," +
                              csv_field(label_field(ids)) + "\n");
                });
                out.close();
                break;
            }
            case DataFormat::kJsonl: {
                OutputFile out = file(training + ".jsonl");
                each_row(split, [&](std::string_view text, std::span<const std::uint32_t> ids) {
                    out.write("{\"text\": " + json_text(text) + ", \"labels\": [");
                    for (std::size_t p = 0; p < ids.size(); ++p)
                        out.write((p > 0 ? ", " : "") + json_text(names_[ids[p]]));
                    out.write("]}\n");
                });
                out.close();
                break;
            }
            case DataFormat::kSparse:
                write_sparse(training + ".txt", split);
                break;
        }
    }

    void write_matrix(const std::string& name, SplitName split) {
        const LabelMatrix& labels = data_.split(split).labels;
        OutputFile out = file(name);
        out.write(fmt::format("{} {}\n", labels.rows(), data_.num_labels()));
        for (std::int64_t i = 0; i < labels.rows(); ++i) {
            std::string row;
            for (const std::uint32_t label : labels.row(i))
                row += fmt::format("{}{}:1", row.empty() ? "" : " ", label);
            out.write(row + "\n");
        }
        out.close();
    }

    void write_npz(const std::string& name, SplitName split) {
        const LabelMatrix& labels = data_.split(split).labels;
        const auto header = [](const char* dtype, const std::string& shape) {
            std::string text =
                fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", dtype, shape);
            text.resize((text.size() + 11 + 63) / 64 * 64 - 11, ' ');
            text += '\n';
            std::string all("\x93NUMPY\x01\x00", 8);
            all += static_cast<char>(text.size() & 0xff);
            all += static_cast<char>(text.size() >> 8);
            return all + text;
        };
        const auto one = [](auto count) { return fmt::format("({},)", count); };
        const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
        result_.files.push_back(name);
        ZipWriter zip(folder_ / name);
        const std::string indices = header("<i4", one(labels.values.size()));
        zip.add("indices.npy", {bytes(indices), std::as_bytes(labels.values)});
        const std::string bounds = header("<i8", one(labels.offsets.size()));
        zip.add("indptr.npy", {bytes(bounds), std::as_bytes(labels.offsets)});
        const std::string format = header("|S3", "()") + "csr";
        zip.add("format.npy", {bytes(format)});
        const std::string shape = header("<i8", one(2));
        const std::int64_t sizes[] = {labels.rows(), data_.num_labels()};
        zip.add("shape.npy", {bytes(shape), std::as_bytes(std::span(sizes))});
        const std::vector<float> ones(std::min<std::size_t>(labels.values.size(), std::size_t{1} << 16),
                                      1.0f);
        const std::string values = header("<f4", one(labels.values.size()));
        std::vector<std::span<const std::byte>> pieces = {bytes(values)};
        for (std::size_t left = labels.values.size(); left > 0;) {
            const std::size_t n = std::min(left, ones.size());
            pieces.push_back(std::as_bytes(std::span(ones).first(n)));
            left -= n;
        }
        zip.add("data.npy", pieces);
        zip.finish();
    }

    void write_filter(const std::string& trn, SplitName split) {
        const LabelMatrix& filter = data_.split(split).filter;
        if (filter.values.empty()) return;
        OutputFile out = file(trn + "_filter_labels.txt");
        for (std::int64_t i = 0; i < filter.rows(); ++i)
            for (const std::uint32_t label : filter.row(i)) out.write(fmt::format("{} {}\n", i, label));
        out.close();
    }

    void write_sparse(const std::string& name, SplitName split) {
        const SparseFileShape shape =
            join_sparse_shapes(context_, {layout_.train.text, layout_.test.text, layout_.validation.text});
        OutputFile out = file(name);
        const Split& rows = data_.split(split);
        out.write(fmt::format("{} {} {}\n", rows.rows(), shape.features, shape.labels));
        const auto reader = open_sparse_rows(layout_.files(split).text);
        SparseRules rules;
        rules.mend = config_.allow_repeated_labels;
        SparseRow features;
        ImportCounts ignored;
        for (std::int64_t i = 0; i < rows.rows(); ++i) {
            const auto record = reader->next();
            if (!record) mismatch(split);
            parse_sparse_record(*record, shape, rules, nullptr, &features, ignored);
            std::string line;
            for (const std::uint32_t label : rows.labels.row(i))
                line += fmt::format("{}{}", line.empty() ? "" : ",", label);
            for (std::size_t p = 0; p < features.indices.size(); ++p)
                line += fmt::format(" {}:{}", features.indices[p], features.values[p]);
            out.write(line + "\n");
        }
        out.close();
    }

    void write_labels() {
        const bool json = to_ == DataFormat::kJsonFolder;
        if (to_ != DataFormat::kXmc && to_ != DataFormat::kPecos && !json) return;
        if (!data_.has_label_names() && !json) return;
        OutputFile out = file(json ? "lbl.json" : to_ == DataFormat::kXmc ? "Y.txt" : "output-items.txt");
        for (std::int64_t label = 0; label < data_.num_labels(); ++label) {
            const std::string name =
                data_.has_label_names() ? std::string(data_.label_name(label)) : fmt::format("{}", label);
            out.write(json ? fmt::format("{{\"uid\": \"{}\", \"title\": {}}}\n", label, json_text(name))
                           : changed_name(name, "\r\n", ' ') + "\n");
        }
        out.close();
    }

    Context context_;
    Config config_;
    DataFormat to_;
    Layout layout_;
    Dataset data_;
    fs::path folder_;
    std::string changed_name_;        // the first one
    std::vector<std::string> names_;  // of a format that identifies labels by name
    bool as_lists_ = false;           // in the fields of tables
    Conversion result_;
};

}  // namespace

Conversion convert_data(const Context& context, const Config& config, const std::string& to) {
    return Converter(context, config, format_named(to, "to")).run();
}

}  // namespace elmo
