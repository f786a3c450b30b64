// Rows whose labels are words: fastText's lines of __label__x before the text, and the raw pairs with a file
// of label names, one per line, beside the file of texts.
#include <algorithm>
#include <string_view>

#include "elmo/error.h"
#include "sources/row_source.h"
#include "sources/tables/label_fields.h"

namespace elmo {
namespace {

constexpr std::string_view kLabelPrefix = "__label__";
constexpr std::string_view kSeparator = "/SEP/";  // between title and body in the Amazon texts

std::string_view next_word(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(word.size());
    return word;
}

// Labels may stand anywhere in a line, as fastText has it; what is left, joined by spaces, is the text.
class FastTextParser : public RowParser {
  public:
    void text(const Record& record, std::string& text) override {
        text.clear();
        std::string_view rest = record.bytes;
        for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
            if (word.starts_with(kLabelPrefix)) continue;
            if (!text.empty()) text += ' ';
            text += word;
        }
    }
    void labels(const Record& record, RowLabels& labels, ImportCounts&) override {
        labels.names.clear();
        std::string_view rest = record.bytes;
        for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
            if (word.size() > kLabelPrefix.size() && word.starts_with(kLabelPrefix))
                labels.names.emplace_back(word.substr(kLabelPrefix.size()));
    }
};

class RawTextParser : public RowParser {
  public:
    void text(const Record& record, std::string& text) override {
        text.clear();
        std::string_view rest = record.bytes;
        for (std::size_t at = rest.find(kSeparator); at != rest.npos; at = rest.find(kSeparator)) {
            text.append(rest.substr(0, at)).append(" ");
            rest.remove_prefix(at + kSeparator.size());
        }
        text.append(rest);
    }
    void labels(const Record&, RowLabels&, ImportCounts&) override {
        throw Error("a file of texts has no labels");
    }
};

class RawLabelParser : public RowParser {
  public:
    explicit RawLabelParser(const std::string& separator) : separator_(separator) {}
    // The pair's other file holds the text; training and test rows are in files of their own.
    void text(const Record&, std::string& text) override { text.clear(); }
    void labels(const Record& record, RowLabels& labels, ImportCounts&) override {
        labels.names.clear();
        split_labels(record.bytes, separator_, labels.names);
    }

  private:
    const std::string& separator_;
};

template <class MakeParser>
class LineSource : public RowSource {
  public:
    LineSource(std::filesystem::path file, Framing framing, MakeParser make)
        : file_(std::move(file)), framing_(framing), make_(std::move(make)) {}
    std::unique_ptr<RecordReader> open() const override {
        return std::make_unique<RecordReader>(file_, framing_);
    }
    std::unique_ptr<RowParser> parser() const override { return make_(); }

  private:
    std::filesystem::path file_;
    Framing framing_;
    MakeParser make_;
};

}  // namespace

std::unique_ptr<RowSource> open_fasttext(const std::filesystem::path& file) {
    const auto make = [] { return std::make_unique<FastTextParser>(); };
    return std::make_unique<LineSource<decltype(make)>>(file, Framing::kObjects, make);
}

std::unique_ptr<RowSource> open_raw_texts(const std::filesystem::path& file) {
    const auto make = [] { return std::make_unique<RawTextParser>(); };
    return std::make_unique<LineSource<decltype(make)>>(file, Framing::kLines, make);
}

std::unique_ptr<RowSource> open_raw_labels(const std::filesystem::path& file, const Layout& layout) {
    const auto make = [separator = layout.cells.separator] {
        return std::make_unique<RawLabelParser>(separator);
    };
    return std::make_unique<LineSource<decltype(make)>>(file, Framing::kLines, make);
}

std::unique_ptr<RowSource> open_named_labels(const std::filesystem::path& file, const Layout& layout) {
    switch (layout.format) {
        case DataFormat::kRaw:
            return open_raw_labels(file, layout);
        case DataFormat::kFastText:
            return open_fasttext(file);
        case DataFormat::kJsonl:
            return open_plain_json(file, layout);
        default:
            return open_table(file, layout);
    }
}

std::unique_ptr<RowSource> open_texts(const Layout& layout, SplitName split) {
    const std::filesystem::path& file = layout.files(split).text;
    switch (layout.format) {
        case DataFormat::kXmc:
        case DataFormat::kPecos:
            return open_text_lines(file);
        case DataFormat::kJsonFolder:
            return open_json_folder_file(file, layout, 0, false);
        case DataFormat::kRaw:
            return open_raw_texts(file);
        case DataFormat::kFastText:
            return open_fasttext(file);
        case DataFormat::kJsonl:
            return open_plain_json(file, layout);
        case DataFormat::kTsv:
        case DataFormat::kCsv:
            return open_table(file, layout);
        case DataFormat::kSparse:
            break;
    }
    throw DataError(file.string() + ": expected texts, found bag-of-words features");
}

}  // namespace elmo
