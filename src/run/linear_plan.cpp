#include "run/linear_plan.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/text_util.h"
#include "linear/train_model.h"
#include "sources/layout.h"

namespace elmo {
namespace {

// Measured: bytes of the resident program, and of those what comes while it works. A process that had more at
// the start, as of Python, has that too.
constexpr std::int64_t kProgram = std::int64_t{24} << 20, kWork = std::int64_t{12} << 20;

// Weights of a tree. A label's classifier has those features of its rows whose weights are not left out for
// their size: a row has length 1, so 1 / least² of its values are above `least` at most. Rows of a label
// share features; how many different ones there are grows with a power of the rows (Heaps' law; 0.4 to 0.6
// for words, more for pairs of them). Of this sum, trees of 12 sets of texts with 1 to 36 labels per text had
// 0.38 to 0.99, those of nodes above the leaves among them.
std::int64_t weights_of_tree(std::span<const std::int64_t> rows_of_labels, double features_of_row,
                             double least, std::int64_t features) {
    constexpr double kPower = 0.8;
    const double of_row = std::min(features_of_row, 1 / (least * least));
    double weights = 0;
    for (const std::int64_t rows : rows_of_labels)
        weights +=
            std::min(of_row * std::pow(static_cast<double>(rows), kPower), static_cast<double>(features));
    return static_cast<std::int64_t>(weights);
}

}  // namespace

MemoryReport plan_linear(const Context& context, const RunData& data) {
    const Split& train = data.dataset().train();
    const LinearTraining training =
        choose_training(train, data.tokenizer(), find_layout(data.config()).format == DataFormat::kSparse);
    const FeatureOptions& features = training.features;
    const auto tokens = static_cast<std::int64_t>(train.tokens.values.size());
    // Words and pairs; of short texts letters too, about four for each word, and of texts of a few words all
    // shorter ones. A bag has half of the first.
    const std::int64_t entries = tokens * (features.shorter_letters ? 12 : features.letters > 0 ? 6 : 2);
    const auto positives = static_cast<std::int64_t>(train.labels.values.size());
    const std::int64_t labels = data.dataset().num_labels();
    MemoryReport report;
    report.device = "cpu";
    const auto add = [&](const char* name, std::int64_t bytes) {
        report.segments.push_back({name, bytes, true});
        report.arena_bytes += bytes;
    };
    add("linear/features (estimate)", 8 * entries + 24 * entries / 4);
    add("linear/node (estimate)", 8 * entries);
    add("linear/labels (estimate)", 4 * positives + 8 * 256 * std::min(labels, positives));
    // A weight is its child and its value, and two share a column of a node and where its weights begin; the
    // tree that is being trained has them once more, with their columns.
    const std::int64_t trees = labels > training.leaf ? training.trees : 1;
    const double of_row =
        static_cast<double>(entries) / static_cast<double>(std::max<std::int64_t>(train.rows(), 1));
    const std::int64_t features_known =
        features.tokens_only ? data.tokenizer().vocab_size() : std::max<std::int64_t>(entries / 4, 1);
    add("linear/weights (estimate)",
        (trees * (4 + 12 / 2) + 8) * weights_of_tree(data.dataset().label_counts(), of_row,
                                                     kSmallWeight * training.cost, features_known));
    // Sixteen numbers of each row and column; of the columns a quarter of the tokens is one to the solver.
    add("linear/solvers (estimate)", context.num_threads() * 64 * (train.rows() + tokens / 4));
    std::vector<std::size_t> all = {0, 1, 2, 3, 4};
    if (data.config().neighbours.value_or(1) > 0) {  // a row and two bytes of value per entry, and the labels
        add("linear/neighbours (estimate)", 6 * entries + 4 * positives);
        all.push_back(5);
    }
    report.phases.push_back({"training (estimate)", report.arena_bytes, all});
    report.mapped_bytes = data.dataset().mapped_bytes();
    report.program_bytes = std::max(kProgram, context.start_bytes() + kWork);
    if (const std::string& most = data.config().max_memory; !most.empty())
        report.max_bytes = parse_bytes(most);
    return report;
}

}  // namespace elmo
