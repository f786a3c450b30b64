#include "run/linear_plan.h"

#include <algorithm>

#include "linear/train_model.h"
#include "sources/layout.h"

namespace elmo {
namespace {

// Measured: bytes of a resident program, and of a text's and a label's share beyond what is counted.
constexpr std::int64_t kProgram = std::int64_t{24} << 20;

}  // namespace

MemoryReport plan_linear(const Context& context, const RunData& data) {
    const Split& train = data.dataset().train();
    const LinearTraining training =
        choose_training(train, find_layout(data.config()).format == DataFormat::kSparse);
    const FeatureOptions& features = training.features;
    const auto tokens = static_cast<std::int64_t>(train.tokens.values.size());
    // Words and pairs; of short texts letters too, about four for each word. A bag has half of that, and more
    // weights: all labels in one node.
    const std::int64_t entries = tokens * (features.letters > 0 ? 6 : 2);
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
    add("linear/weights (estimate)", (labels > training.leaf ? training.trees : 1) * 8 * entries);
    // Sixteen numbers of each row and column; of the columns a quarter of the tokens is one to the solver.
    add("linear/solvers (estimate)", context.num_threads() * 64 * (train.rows() + tokens / 4));
    std::vector<std::size_t> all = {0, 1, 2, 3, 4};
    if (data.config().neighbours.value_or(1) > 0) {  // a row and two bytes of value per entry, and the labels
        add("linear/neighbours (estimate)", 6 * entries + 4 * positives);
        all.push_back(5);
    }
    report.phases.push_back({"training (estimate)", report.arena_bytes, all});
    report.mapped_bytes = data.dataset().mapped_bytes();
    report.program_bytes = kProgram;
    return report;
}

}  // namespace elmo
