#include "linear/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

namespace elmo {
namespace {

constexpr const char* kFormat = "elmo-linear-1";
constexpr const char* kFormatWithTexts = "elmo-linear-2";    // with neighbours, which version 1 does not know
constexpr const char* kFormatWithLetters = "elmo-linear-3";  // with shorter letters, and maybe neighbours
constexpr const char* kFormatOfText = "elmo-linear-4";       // of split texts, and maybe both
constexpr std::size_t kPiece = std::size_t{8} << 20;         // bytes that are read at once
constexpr const char* kMeaning =
    "trees of labels, one after another. roots: first node of each. A node n has children "
    "children[child_begin[n]:child_begin[n+1]] (labels where leaf[n] is 1, else nodes) with a bias each, and "
    "the columns "
    "columns[column_begin[n]:column_begin[n+1]]; column j has weights[weight_begin[j]:weight_begin[j+1]], "
    "each of the "
    "child with that number in weight_child. feature_hashes, feature_weights: the vocabulary";
constexpr const char* kMeaningOfTexts =
    ". Training texts with column c are text_rows[text_begin[c]:text_begin[c+1]], their values there "
    "text_values; text i has the labels text_labels[text_label_begin[i]:text_label_begin[i+1]]";

template <class T>
constexpr const char* dtype_of() {
    if constexpr (std::is_same_v<T, std::uint64_t>) return "U64";
    if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
    if constexpr (std::is_same_v<T, std::int32_t>) return "I32";
    if constexpr (std::is_same_v<T, std::uint16_t>) return "U16";
    if constexpr (std::is_same_v<T, std::uint8_t>) return "U8";
    if constexpr (std::is_same_v<T, float>) return "F32";
    return "BF16";
}

template <class T>
TensorSpec spec_of(const char* name, const std::vector<T>& values) {
    return {name, dtype_of<T>(), {static_cast<std::int64_t>(values.size())}};
}

// One list of the tree's tensors: writing and reading walk it.
template <class Trees, class Visit>
void visit_trees(Trees& trees, const Visit& visit) {
    visit("roots", trees.roots);
    visit("leaf", trees.leaf);
    visit("child_begin", trees.child_begin);
    visit("children", trees.children);
    visit("bias", trees.bias);
    visit("column_begin", trees.column_begin);
    visit("columns", trees.columns);
    visit("weight_begin", trees.weight_begin);
    visit("weight_child", trees.weight_child);
    visit("weights", trees.weights);
}

template <class Index, class Visit>
void visit_neighbours(Index& index, const Visit& visit) {
    visit("text_begin", index.row_begin);
    visit("text_rows", index.rows);
    visit("text_values", index.values);
    visit("text_label_begin", index.label_begin);
    visit("text_labels", index.labels);
}

class Reader {
  public:
    explicit Reader(const InputFolder& folder) : file_(SafeTensors::open(folder.map(kLinearFile))) {}

    template <class T>
    void read(const char* name, std::vector<T>& values) const {
        const TensorInfo& tensor = file_.at(name);
        require(tensor.dtype == dtype_of<T>() && tensor.shape.size() == 1,
                fmt::format("tensor '{}' as a list of {}", name, dtype_of<T>()));
        values.resize(static_cast<std::size_t>(tensor.num_elements()));
        // What is copied leaves this process's memory at once: else the model would be there twice.
        const std::span<std::byte> out = std::as_writable_bytes(std::span(values));
        for (std::size_t at = 0; at < out.size(); at += kPiece) {
            std::memcpy(out.data() + at, tensor.data.data() + at, std::min(kPiece, out.size() - at));
            file_.mapping().advise(MappedFile::Access::kDone);
        }
    }
    template <class Number = std::int64_t>
    Number number(const char* name) const {
        const auto found = file_.metadata().find(name);
        Number value = -1;
        if (found != file_.metadata().end()) {
            const std::string& text = found->second;
            const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (status != std::errc() || rest != text.data() + text.size()) value = -1;
        }
        require(value >= 0, fmt::format("a number as metadata \"{}\"", name));
        return value;
    }
    void require(bool holds, const std::string& expected) const {
        if (!holds)
            throw DataError(fmt::format("{}: expected {}; the file is damaged, or of another program",
                                        file_.file(), expected));
    }
    const SafeTensors& file() const { return file_; }

  private:
    SafeTensors file_;
};

// From 0 up to `end`, never falling.
bool are_bounds(const std::vector<std::int64_t>& bounds, std::size_t count, std::size_t end) {
    return bounds.size() == count + 1 && bounds.front() == 0 &&
           bounds.back() == static_cast<std::int64_t>(end) && std::is_sorted(bounds.begin(), bounds.end());
}

bool are_finite(const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Every node is below one root, at one depth, and all nodes of a tree's depth are leaves or none is.
bool is_forest(const LabelTrees& trees, std::int64_t num_labels) {
    const std::size_t nodes = trees.leaf.size();
    std::vector<std::int64_t> depth(nodes, -1);
    for (std::size_t t = 0; t < trees.roots.size(); ++t) {
        const std::int64_t begin = trees.roots[t];
        const std::int64_t end =
            t + 1 < trees.roots.size() ? trees.roots[t + 1] : static_cast<std::int64_t>(nodes);
        if (begin < 0 || begin >= end || end > static_cast<std::int64_t>(nodes) || (t == 0 && begin != 0))
            return false;
        depth[static_cast<std::size_t>(begin)] = 0;
        std::vector<int> leaf_at;  // of each depth; -1 where it is not known yet
        for (std::int64_t n = begin; n < end; ++n) {
            const auto i = static_cast<std::size_t>(n);
            if (depth[i] < 0 || trees.leaf[i] > 1) return false;
            const auto d = static_cast<std::size_t>(depth[i]);
            if (leaf_at.size() <= d) leaf_at.resize(d + 1, -1);
            if (leaf_at[d] >= 0 && leaf_at[d] != trees.leaf[i]) return false;
            leaf_at[d] = trees.leaf[i];
            for (std::int64_t c = trees.child_begin[i]; c < trees.child_begin[i + 1]; ++c) {
                const std::int64_t child = trees.children[static_cast<std::size_t>(c)];
                if (trees.leaf[i] != 0) {
                    if (child < 0 || child >= num_labels) return false;
                } else {
                    if (child <= n || child >= end || depth[static_cast<std::size_t>(child)] >= 0)
                        return false;
                    depth[static_cast<std::size_t>(child)] = depth[i] + 1;
                }
            }
        }
    }
    return !trees.roots.empty();
}

void check_trees(const Reader& reader, const LabelTrees& trees, std::int64_t num_labels,
                 std::int64_t num_columns) {
    const std::size_t nodes = trees.leaf.size();
    reader.require(are_bounds(trees.child_begin, nodes, trees.children.size()) &&
                       trees.bias.size() == trees.children.size() && are_finite(trees.bias),
                   "children of every node with a finite bias each");
    reader.require(is_forest(trees, num_labels), "trees whose leaves hold labels of the run");
    reader.require(are_bounds(trees.column_begin, nodes, trees.columns.size()) &&
                       are_bounds(trees.weight_begin, trees.columns.size(), trees.weights.size()) &&
                       trees.weight_child.size() == trees.weights.size(),
                   "as many columns and weights as their bounds say");
    for (std::size_t n = 0; n < nodes; ++n) {
        const std::int64_t children = trees.child_begin[n + 1] - trees.child_begin[n];
        std::int64_t before = -1;
        bool sound = true;
        for (auto j = static_cast<std::size_t>(trees.column_begin[n]);
             j < static_cast<std::size_t>(trees.column_begin[n + 1]); ++j) {
            sound = sound && trees.columns[j] > before && trees.columns[j] < num_columns;
            before = trees.columns[j];
        }
        const auto first = static_cast<std::size_t>(
                       trees.weight_begin[static_cast<std::size_t>(trees.column_begin[n])]),
                   end = static_cast<std::size_t>(
                       trees.weight_begin[static_cast<std::size_t>(trees.column_begin[n + 1])]);
        for (std::size_t e = first; e < end; ++e)
            sound = sound && trees.weight_child[e] < children && std::isfinite(to_float(trees.weights[e]));
        reader.require(sound, fmt::format("columns and children of node {} within their ranges", n));
    }
}

bool are_below(const std::vector<std::int32_t>& values, std::int64_t end) {
    return std::all_of(values.begin(), values.end(), [&](std::int32_t v) { return v >= 0 && v < end; });
}

void read_neighbours(const Reader& reader, LinearModel& model) {
    Neighbours& index = model.neighbours;
    index.votes = {reader.number<float>("neighbours"), reader.number<float>("neighbour_power")};
    reader.require(index.votes.share < 1 && index.votes.power <= 100, "a share of neighbours below 1");
    visit_neighbours(index, [&](const char* name, auto& values) { reader.read(name, values); });
    reader.require(!index.label_begin.empty() &&
                       are_bounds(index.label_begin, index.label_begin.size() - 1, index.labels.size()) &&
                       are_below(index.labels, model.num_labels),
                   "training texts with labels of the run");
    reader.require(
        are_bounds(index.row_begin, static_cast<std::size_t>(model.vocabulary.size()), index.rows.size()) &&
            are_below(index.rows, index.texts()) && index.values.size() == index.rows.size() &&
            std::all_of(index.values.begin(), index.values.end(),
                        [](Bf16 v) { return std::isfinite(to_float(v)); }),
        "training texts of every column with a finite value each");
}

}  // namespace

void save_linear_model(const std::filesystem::path& folder, const LinearModel& model) {
    std::vector<TensorSpec> tensors = {{"feature_hashes", "U64", {model.vocabulary.size()}},
                                       {"feature_weights", "F32", {model.vocabulary.size()}}};
    visit_trees(model.trees,
                [&](const char* name, const auto& values) { tensors.push_back(spec_of(name, values)); });
    const Neighbours& index = model.neighbours;
    const bool with_texts = index.texts() > 0;
    const char* const format = model.features.splits_text       ? kFormatOfText
                               : model.features.shorter_letters ? kFormatWithLetters
                               : with_texts                     ? kFormatWithTexts
                                                                : kFormat;
    std::map<std::string, std::string> facts = {{"format", format},
                                                {"meaning", kMeaning},
                                                {"labels", std::to_string(model.num_labels)},
                                                {"tokens_only", model.features.tokens_only ? "1" : "0"},
                                                {"letters", std::to_string(model.features.letters)}};
    if (model.features.splits_text) facts["shorter_letters"] = model.features.shorter_letters ? "1" : "0";
    if (with_texts) {
        facts["meaning"] += kMeaningOfTexts;
        facts["neighbours"] = fmt::format("{}", index.votes.share);
        facts["neighbour_power"] = fmt::format("{}", index.votes.power);
        visit_neighbours(
            index, [&](const char* name, const auto& values) { tensors.push_back(spec_of(name, values)); });
    }
    SafeTensorsWriter out(folder / kLinearFile, tensors, facts);
    out.write("feature_hashes", model.vocabulary.hashes());
    out.write("feature_weights", model.vocabulary.weights());
    visit_trees(model.trees,
                [&](const char* name, const auto& values) { out.write(name, std::span(values)); });
    if (with_texts)
        visit_neighbours(index,
                         [&](const char* name, const auto& values) { out.write(name, std::span(values)); });
    out.commit();
}

LinearModel load_linear_model(const InputFolder& folder, std::int64_t num_labels) {
    const Reader reader(folder);
    const auto& metadata = reader.file().metadata();
    const auto format = metadata.find("format");
    const std::string found = format != metadata.end() ? format->second : std::string();
    reader.require(
        found == kFormat || found == kFormatWithTexts || found == kFormatWithLetters ||
            found == kFormatOfText,
        fmt::format("format {}, {}, {} or {}", kFormat, kFormatWithTexts, kFormatWithLetters, kFormatOfText));
    LinearModel model;
    model.features.splits_text = found == kFormatOfText;
    model.features.shorter_letters =
        found == kFormatWithLetters || (found == kFormatOfText && reader.number("shorter_letters") != 0);
    const bool with_texts =
        found == kFormatWithTexts || (found != kFormat && metadata.contains("neighbours"));
    model.num_labels = reader.number("labels");
    reader.require(model.num_labels == num_labels, fmt::format("a model of {} labels", num_labels));
    model.features.tokens_only = reader.number("tokens_only") != 0;
    model.features.letters = reader.number("letters");
    reader.require(model.features.letters <= 16, "letters up to 16");
    std::vector<std::uint64_t> hashes;
    std::vector<float> weights;
    reader.read("feature_hashes", hashes);
    reader.read("feature_weights", weights);
    const auto ascend = [](std::uint64_t a, std::uint64_t b) { return a >= b; };
    reader.require(hashes.size() == weights.size() && are_finite(weights) &&
                       hashes.size() < (std::size_t{1} << 31) &&
                       std::adjacent_find(hashes.begin(), hashes.end(), ascend) == hashes.end(),
                   "ascending hashes with a finite weight each");
    model.vocabulary = Vocabulary(std::move(hashes), std::move(weights));
    visit_trees(model.trees, [&](const char* name, auto& values) { reader.read(name, values); });
    check_trees(reader, model.trees, model.num_labels, model.vocabulary.size());
    if (with_texts) read_neighbours(reader, model);
    return model;
}

}  // namespace elmo
