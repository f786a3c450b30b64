// Filter files of a label-feature data set, where labels have texts of the same kind as the rows.
//
// Own: a row with the text of a label is that label; finding it is not a prediction.
// Reciprocal: when a training row b is labelled with the label that is test row a, then "a has b's own label"
// is that training pair in reverse.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/parallel.h"
#include "base/text_util.h"
#include "data/dataset.h"
#include "data/token_import.h"
#include "elmo/context.h"
#include "elmo/data.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "sources/layout.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::uint32_t>>;  // row, label

// Labels by the hash of their text. The texts are compared too before a row counts as a label.
class LabelTexts {
  public:
    explicit LabelTexts(const Dataset& data) : data_(data) {
        by_hash_.reserve(static_cast<std::size_t>(data.num_labels()));
        for (std::int64_t label = 0; label < data.num_labels(); ++label)
            if (!data.label_name(label).empty())
                by_hash_.emplace_back(hash64(data.label_name(label)), static_cast<std::uint32_t>(label));
        std::sort(by_hash_.begin(), by_hash_.end());
    }
    template <class Take>
    void find(std::string_view text, const Take& take) const {
        const std::uint64_t hash = hash64(text);
        auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(hash, 0u));
        for (; at != by_hash_.end() && at->first == hash; ++at)
            if (data_.label_name(at->second) == text) take(at->second);
    }

  private:
    const Dataset& data_;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> by_hash_;
};

// Ascending.
Pairs own_labels(const Context& context, const Config& config, SplitName split, const LabelTexts& labels) {
    Pairs pairs;
    SplitTexts texts(context, config, split);
    std::string_view text;
    for (std::int64_t row = 0; texts.next(text); ++row)
        labels.find(text, [&](std::uint32_t label) { pairs.emplace_back(row, label); });
    return pairs;
}

Pairs reciprocal_pairs(const Dataset& data, const Pairs& own_train, const Pairs& own_test) {
    std::vector<std::pair<std::uint32_t, std::int64_t>> test_of;  // label, test rows that are it
    for (const auto& [row, label] : own_test) test_of.emplace_back(label, row);
    std::sort(test_of.begin(), test_of.end());
    Pairs pairs;
    for (const auto& [row, own] : own_train)
        for (const std::uint32_t label : data.train().labels.row(row)) {
            auto at = std::lower_bound(test_of.begin(), test_of.end(), std::pair(label, std::int64_t{0}));
            for (; at != test_of.end() && at->first == label; ++at) pairs.emplace_back(at->second, own);
        }
    return pairs;
}

std::string write_pairs(const fs::path& file, Pairs& pairs) {
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    AtomicFile out(file);
    for (const auto& [row, label] : pairs) out.write(fmt::format("{} {}\n", row, label));
    out.commit();
    return file.string();
}

}  // namespace

FilterResult make_filters(const Context& given_context, const Config& config, bool own, bool reciprocal) {
    if (config.out.empty()) throw ConfigError("out: expected a folder for the filter files, found none");
    if (!own && !reciprocal) throw ConfigError("filters: expected own, reciprocal or both, found neither");
    if (std::error_code error; fs::exists(config.out, error) && !fs::is_directory(config.out, error))
        throw ConfigError(
            fmt::format("out: expected a folder, found the file {}; filter files lie in the folder of data "
                        "whose labels have numbers: 'elmo data convert DATA --to xmc --out FOLDER' makes one",
                        config.out));
    const Context context = given_context.with_threads(config.threads);
    Config plain = config;
    plain.filter = "none";
    const Dataset data = Dataset::open_labels(context, plain);
    if (!data.has_label_names())
        throw DataError(config.data + ": expected label texts (Y.txt, or lbl.json), found none");
    if (!data.train().present) throw DataError(config.data + ": expected training rows, found none");
    const LabelTexts labels(data);
    Pairs own_train = own_labels(context, plain, SplitName::kTrain, labels), own_test;
    if (data.test().present) own_test = own_labels(context, plain, SplitName::kTest, labels);
    Pairs train, test;
    if (own) {
        train = own_train;
        test = own_test;
    }
    if (reciprocal) {
        const Pairs more = reciprocal_pairs(data, own_train, own_test);
        test.insert(test.end(), more.begin(), more.end());
    }
    FilterResult result;
    const fs::path folder = config.out;
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    for (const char* name : {"trn_filter_labels.txt", "tst_filter_labels.txt"})
        if (!config.overwrite && fs::exists(folder / name, ignored))
            throw ConfigError(fmt::format("{}: exists already; give another --out, or --overwrite",
                                          (folder / name).string()));
    result.train_file = write_pairs(folder / "trn_filter_labels.txt", train);
    result.train_pairs = static_cast<std::int64_t>(train.size());
    if (data.test().present) {
        result.test_file = write_pairs(folder / "tst_filter_labels.txt", test);
        result.test_pairs = static_cast<std::int64_t>(test.size());
        if (find_layout(plain).names_labels())
            context.warning(fmt::format(
                "{}: elmo eval looks for filter files where labels have numbers, and here they have names: "
                "give it with --filter {}",
                result.test_file, shell_word(result.test_file)));
    }
    return result;
}

}  // namespace elmo
