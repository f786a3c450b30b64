// Which words carried a label: the text without each of its words, scored again.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "elmo/error.h"
#include "elmo/explain.h"
#include "sources/detect.h"
#include "text/unicode/words.h"

namespace elmo {
namespace {

// More words than this are left out several at a time.
constexpr std::size_t kMostWords = 256;

enum class Script { kOther, kIdeograph, kHiragana, kKatakana };

Script script_of(char32_t c) {
    if (unicode::is_cjk(c)) return Script::kIdeograph;
    if (c >= 0x3040 && c <= 0x309f) return Script::kHiragana;
    const bool katakana =
        (c >= 0x30a0 && c <= 0x30ff) || (c >= 0x31f0 && c <= 0x31ff) || (c >= 0xff66 && c <= 0xff9f);
    return katakana ? Script::kKatakana : Script::kOther;
}

// Chinese and Japanese have no spaces between words: an ideograph is one, and so are kana of one kind in a
// row.
template <class OnPart>
void split_scripts(std::string_view word, const OnPart& part) {
    std::size_t begin = 0;
    Script before = Script::kOther;
    for (std::size_t i = 0; i < word.size();) {
        const std::size_t at = i;
        const Script script = script_of(unicode::decode(word, i));
        if (at > begin && (script != before || script == Script::kIdeograph)) {
            part(word.substr(begin, at - begin));
            begin = at;
        }
        before = script;
    }
    part(word.substr(begin));
}

// Punctuation marks are words too: models read them.
std::vector<ExplainedWord> words_of(const std::string& text, std::int64_t& words_each) {
    std::vector<ExplainedWord> words;
    const auto add = [&](std::string_view word) {
        const std::int64_t begin = word.data() - text.data();
        words.push_back({{}, begin, begin + static_cast<std::int64_t>(word.size())});
    };
    if (is_sparse_row(text))  // a feature with its value is one word
        for (std::size_t end, i = text.find_first_not_of(" \t"); i < text.size();
             i = text.find_first_not_of(" \t", end)) {
            end = std::min(text.find_first_of(" \t", i), text.size());
            add(std::string_view(text).substr(i, end - i));
        }
    else
        split_bert_words(text, [&](std::string_view word) { split_scripts(word, add); });
    const std::size_t group = (words.size() + kMostWords - 1) / kMostWords;
    words_each = static_cast<std::int64_t>(std::max<std::size_t>(group, 1));
    if (group > 1) {
        std::vector<ExplainedWord> groups;
        for (std::size_t i = 0; i < words.size(); i += group)
            groups.push_back({{}, words[i].begin, words[std::min(i + group, words.size()) - 1].end});
        words = std::move(groups);
    }
    for (ExplainedWord& word : words)
        word.word = text.substr(static_cast<std::size_t>(word.begin),
                                static_cast<std::size_t>(word.end - word.begin));
    return words;
}

// A blank goes with the word only where it would be doubled, first or last: "open. cat" without its mark is
// "open cat", not another word.
std::string without_word(const std::string& text, const ExplainedWord& word) {
    auto begin = static_cast<std::size_t>(word.begin), end = static_cast<std::size_t>(word.end);
    const auto is_gap = [&](std::size_t i) {
        return std::string_view(" \t\r\n").find(text[i]) != std::string::npos;
    };
    if (end < text.size() && text[end] == ' ' && (begin == 0 || is_gap(begin - 1)))
        ++end;
    else if (begin > 0 && text[begin - 1] == ' ' && (end == text.size() || is_gap(end)))
        --begin;
    return text.substr(0, begin) + text.substr(end);
}

// The labels that a question names, in each text: as many at a time as the predictor has room for.
std::vector<std::vector<Prediction>> predict_named(Predictor& predictor,
                                                   const std::vector<std::string>& texts,
                                                   const Question& question) {
    if (question.top < 1)
        throw ConfigError(fmt::format("top: expected 1 or more labels, found {}", question.top));
    std::vector<std::vector<Prediction>> result(texts.size());
    const auto room = static_cast<std::ptrdiff_t>(predictor.top());
    for (auto first = question.labels.begin(); first != question.labels.end();) {
        const auto last = first + std::min(room, question.labels.end() - first);
        Question part = question;
        part.labels.assign(first, last);
        part.top = last - first;
        const auto answers = predictor.predict(texts, part);
        for (std::size_t i = 0; i < texts.size(); ++i)
            result[i].insert(result[i].end(), answers[i].begin(), answers[i].end());
        first = last;
    }
    for (auto& of_text : result) {
        std::ranges::stable_sort(of_text, std::greater(), &Prediction::score);
        if (std::ssize(of_text) > question.top) of_text.resize(static_cast<std::size_t>(question.top));
    }
    return result;
}

}  // namespace

Explanation explain_answers(Predictor& predictor, const std::string& text, const Question& question) {
    Explanation result;
    result.words = words_of(text, result.words_each);
    Question again;
    std::vector<std::vector<Prediction>> answers = question.labels.empty()
                                                       ? predictor.predict({text}, question)
                                                       : predict_named(predictor, {text}, question);
    for (Prediction& answer : answers.front()) {
        again.labels.push_back(answer.label);
        result.labels.push_back({std::move(answer), {}});
    }
    if (result.labels.empty()) return result;
    std::sort(again.labels.begin(), again.labels.end());
    again.top = static_cast<std::int64_t>(again.labels.size());
    std::vector<std::string> texts = {text};
    for (const ExplainedWord& word : result.words) texts.push_back(without_word(text, word));
    // Scores of the labels in each text, the whole one first: labels that are given are scored one by one,
    // also by a model that otherwise looks at a part of its labels.
    std::vector<std::unordered_map<std::int64_t, float>> scores;
    for (const auto& again_answered : predict_named(predictor, texts, again)) {
        auto& of_text = scores.emplace_back();
        for (const Prediction& answer : again_answered) of_text[answer.label] = answer.score;
    }
    for (ExplainedLabel& label : result.labels)
        for (std::size_t i = 0; i < result.words.size(); ++i)
            label.effects.push_back(scores[0][label.answer.label] - scores[i + 1][label.answer.label]);
    return result;
}

}  // namespace elmo
