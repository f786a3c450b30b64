#include "linear/train_model.h"

#include <algorithm>

#include "linear/fit_neighbours.h"

namespace elmo {
namespace {

constexpr float kBagCost = 0.2f;  // bibtex: P@1 65.0 with 0.3, 63.9 with 1
constexpr std::int64_t kBagLeaf = 1000;
constexpr std::int64_t kFewTexts = 15000, kTreesOfFew = 5;  // where more trees cost seconds only
constexpr double kShortTexts = 40;  // tokens per text up to which letters are features too
constexpr std::int64_t kLettersInARow = 5;
constexpr double kFewWords = 3;   // words per text up to which fewer letters in a row are features too
constexpr float kUsualPower = 3;  // of likeness, where the share of neighbours is given

}  // namespace

LinearTraining choose_training(const Split& split, const Tokenizer& tokenizer, bool is_bag_of_words) {
    LinearTraining training;
    if (split.rows() <= kFewTexts) training.trees = kTreesOfFew;
    if (is_bag_of_words) {
        training.features.tokens_only = true;
        training.cost = kBagCost;
        training.leaf = kBagLeaf;
    }
    training.features.splits_text = !is_bag_of_words && cuts_words_otherwise(tokenizer);
    const auto texts = static_cast<double>(std::max<std::int64_t>(split.tokens.rows(), 1));
    if (is_bag_of_words || static_cast<double>(split.tokens.values.size()) > kShortTexts * texts)
        return training;
    training.features.letters = kLettersInARow;
    const Analyser analyser(tokenizer, {.splits_text = training.features.splits_text});
    std::int64_t words = 0;
    for (std::int64_t row = 0; row < split.tokens.rows(); ++row)
        words += analyser.count_words(split.tokens.row(row));
    training.features.shorter_letters = static_cast<double>(words) <= kFewWords * texts;
    return training;
}

std::optional<LinearModel> train_linear_model(const Context& context, const Tokenizer& tokenizer,
                                              const Split& split, std::span<const std::int64_t> rows,
                                              std::int64_t num_labels, const LinearTraining& training) {
    LinearModel model;
    model.features = training.features;
    model.num_labels = num_labels;
    const Analyser analyser(tokenizer, training.features);
    const TokensOf tokens = [&](std::int64_t i) {
        return split.tokens.row(rows[static_cast<std::size_t>(i)]);
    };
    const auto count = static_cast<std::int64_t>(rows.size());
    model.vocabulary = learn_vocabulary(context, analyser, tokens, count);
    const SparseRows features = make_rows(context, analyser, model.vocabulary, tokens, count);
    const LabelsOfRows labels{split.labels, rows};
    VoteOptions votes{.share = training.neighbours.value_or(0), .power = kUsualPower};
    if (!training.neighbours && training.label_weights.empty())
        votes = fit_neighbours(context, tokenizer, tokens, features, labels, training, model);
    if (!train_trees(context, features, rows_of_labels(labels, num_labels), model.vocabulary.weights(),
                     training, "training", model.trees))
        return std::nullopt;
    if (votes.share > 0) model.neighbours = index_rows(features, labels, model.vocabulary.size(), votes);
    return model;
}

}  // namespace elmo
