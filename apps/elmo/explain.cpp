// elmo explain: which words of a text carried its labels.
#include "elmo/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

constexpr std::size_t kShownWords = 8;  // of a label, those of largest effect; --json has all

std::string block(const Explanation& explanation, const ExplainedLabel& label) {
    std::string out =
        fmt::format("{:.4f}\t{}\t{}\n", label.answer.probability, label.answer.label, label.answer.name);
    std::vector<std::size_t> order(explanation.words.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(label.effects[a]) > std::abs(label.effects[b]);
    });
    const std::size_t left_out = order.size() - std::min(order.size(), kShownWords);
    order.resize(order.size() - left_out);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return label.effects[a] != label.effects[b] ? label.effects[a] > label.effects[b] : a < b;
    });
    for (const std::size_t i : order)
        out += fmt::format("  {:+.3f}  {}\n", label.effects[i], explanation.words[i].word);
    const std::int64_t each = explanation.words_each;
    if (left_out > 0)
        out += fmt::format("  {} of less effect (--json has all)\n",
                           each == 1 ? counted(left_out, "word")
                                     : fmt::format("{} of {} words", counted(left_out, "group"), each));
    return out;
}

constexpr std::int64_t kShownTexts = 5;

std::string block(const NearText& near) {
    std::string labels;
    for (std::size_t i = 0; i < near.labels.size(); ++i)
        labels +=
            (i > 0 ? ", " : "") + (near.names[i].empty() ? std::to_string(near.labels[i]) : near.names[i]);
    return fmt::format(
        "  {:.3f}  {}  [{}]\n", near.similarity,
        near.text.empty() ? fmt::format("training text {}", near.training_text) : quoted(near.text, 100),
        labels);
}

void run_explain(Invocation& call) {
    const std::vector<std::string>& texts = call.lists.at("text");
    if (texts.empty()) usage_error(explain_verb(), "--text is missing: the text to explain");
    for (const std::string& text : texts)
        if (find_invalid_utf8(text) != std::string::npos)
            usage_error(explain_verb(), fmt::format("--text: expected UTF-8, found '{}'", quoted(text)));
    Predictor predictor(call.context, call.words[0], call.config);
    Question question;
    for (const std::string& label : call.lists.at("label"))
        for (const std::int64_t number : predictor.find_label(label, "--label"))
            question.labels.push_back(number);
    std::sort(question.labels.begin(), question.labels.end());
    question.labels.erase(std::unique(question.labels.begin(), question.labels.end()), question.labels.end());
    question.top = given(call.config, "top") ? call.config.top
                   : question.labels.empty() ? 3
                                             : static_cast<std::int64_t>(question.labels.size());
    for (const std::string& text : texts) {
        Explanation explanation = explain_answers(predictor, text, question);
        std::string why_not;
        add_nearest_texts(call.context, call.words[0], call.config, predictor, text, kShownTexts, explanation,
                          why_not);
        if (!why_not.empty()) call.context.info(fmt::format("training texts are not shown: {}", why_not));
        if (call.json) {
            write_json(explanation);
            continue;
        }
        write_stdout(text + "\n");
        for (const ExplainedLabel& label : explanation.labels) write_stdout(block(explanation, label));
        const std::vector<NearText> nearest = explanation.nearest.value_or(std::vector<NearText>());
        if (!nearest.empty()) write_stdout("nearest training texts:\n");
        for (const NearText& near : nearest) write_stdout(block(near));
    }
}

}  // namespace

Verb explain_verb() {
    return {
        "explain",
        'x',
        "Show which words of a text carried its labels",
        "RUN --text TEXT [options]",
        {{"RUN", "Folder that elmo train wrote"}},
        1,
        1,
        true,
        {{"text", "", "A text to explain; may be given several times", false, true},
         {"label", "",
          "Explain this label, by name or number, instead of the best ones; may be given several times",
          false, true}},
        {{"elmo explain runs/first --text 'a small domesticated feline'",
          "The three best labels, word by word"},
         {"elmo explain runs/first --text 'a small domesticated feline' --label animal --json",
          "Why this label was, or was not, answered"}},
        "Leaves out one word after another and scores the labels again: a word's figure is the label's "
        "score with it "
        "less its score without it. Above 0 the word speaks for the label. This holds for every kind of "
        "model and "
        "approximates nothing, but words that count only together show little each. A text of more than "
        "256 words is "
        "taken a few words at a time. Of a linear run whose answers also follow the nearest training texts "
        "(--neighbours) these are shown too, with their labels; their texts are read from the run's data "
        "if it has not changed.",
        run_explain};
}

}  // namespace elmo::cli
