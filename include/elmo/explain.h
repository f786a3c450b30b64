// `elmo explain`: which words of a text carried its labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/predictor.h"

namespace elmo {

// A word, by its bytes in the text; a few words in a row where a text has very many.
struct ExplainedWord {
    std::string word;
    std::int64_t begin = 0, end = 0;
};

template <typename Visit>
void visit_fields(const ExplainedWord& word, Visit&& visit) {
    visit("word", word.word);
    visit("begin", word.begin);
    visit("end", word.end);
}

struct ExplainedLabel {
    Prediction answer;
    // Of each word: the label's score less its score in the text without this word. Above 0, the word speaks
    // for the label.
    std::vector<float> effects;
};

template <typename Visit>
void visit_fields(const ExplainedLabel& label, Visit&& visit) {
    visit_fields(label.answer, visit);
    visit("effects", label.effects);
}

struct Explanation {
    std::vector<ExplainedWord> words;
    std::int64_t words_each =
        1;  // in each of `words` (the last may have fewer): more where a text has very many
    std::vector<ExplainedLabel> labels;
    std::optional<std::vector<NearText>> nearest;  // see add_nearest_texts; nothing without an index of them
};

template <typename Visit>
void visit_fields(const Explanation& explanation, Visit&& visit) {
    visit("words", explanation.words);
    visit("labels", explanation.labels);
    if (explanation.nearest) visit("nearest", *explanation.nearest);
}

// Explains the answers to a question: each word is left out in turn, and the answered labels are scored
// again. Labels that the question names may be more than the predictor's top. This asks the model itself,
// whatever it is: nothing is approximated, and nothing is said about words that only count together.
ELMO_API Explanation explain_answers(Predictor& predictor, const std::string& text, const Question& question);

// Adds the training texts that are most like the text, where the run has an index of them
// (Predictor::nearest_texts). Their texts are read from the run's data, or from config.data, if that holds
// the rows that trained the run, unchanged; `why_not` says why not, and is empty if they were found.
ELMO_API void add_nearest_texts(const Context& context, const std::string& run, const Config& config,
                                Predictor& predictor, const std::string& text, std::int64_t limit,
                                Explanation& explanation, std::string& why_not);

}  // namespace elmo
