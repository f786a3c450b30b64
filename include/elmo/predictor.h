// `elmo predict`: the best labels of texts.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elmo/api.h"
#include "elmo/context.h"
#include "elmo/fields.h"
#include "elmo/index.h"
#include "elmo/memory.h"
#include "elmo/text_reader.h"

namespace elmo {

struct Config;

struct Prediction {
    std::int64_t label = 0;
    std::string name;  // "" if the data set had no label names
    float score = 0;   // logit
    float probability = 0;
};

template <typename Visit>
void visit_fields(const Prediction& prediction, Visit&& visit) {
    visit("label", prediction.label);
    visit("name", prediction.name);
    visit("probability", prediction.probability);
    visit("score", prediction.score);
}

// The answer to one text of a file.
struct Answer {
    std::string file;  // left out when empty
    std::int64_t line = 0;
    TextId id;                        // left out when empty
    std::optional<std::string> text;  // left out when absent
    std::vector<Prediction> labels;
};

template <typename Visit>
void visit_fields(const Answer& answer, Visit&& visit) {
    if (!answer.file.empty()) visit("file", answer.file);
    visit("line", answer.line);
    const bool is_whole = answer.id.text.find_first_not_of("-0123456789") == std::string::npos;
    if (answer.id.is_number && is_whole)
        visit("id", static_cast<std::int64_t>(std::strtoll(answer.id.text.c_str(), nullptr, 10)));
    else if (answer.id.is_number)
        visit("id", std::strtod(answer.id.text.c_str(), nullptr));
    else if (!answer.id.text.empty())
        visit("id", answer.id.text);
    if (answer.text) visit("text", *answer.text);
    visit("labels", answer.labels);
}

// One line of JSON; `file` is left out when empty.
ELMO_API std::string to_json(const std::string& file, std::int64_t line,
                             const std::vector<Prediction>& predictions);

// Which labels may be answered, by name or number: files of a label per line ("" for no restriction), or
// lists in the place of a file (empty for no restriction).
struct LabelScope {
    std::string labels = {};   // only these, and only their weights are read
    std::string without = {};  // all but these
    std::vector<std::string> label_list = {};
    std::vector<std::string> without_list = {};

    bool chooses() const { return !labels.empty() || !label_list.empty(); }
    bool leaves_out() const { return !without.empty() || !without_list.empty(); }
};

// What one call asks for, where a predictor answers several kinds of them.
struct Question {
    std::int64_t top = 5;  // labels per answer, at most
    double threshold = 0;  // no label below this probability; -1: the one with the largest F1
    std::vector<std::int64_t> labels = {};   // only these, ascending; empty: all that may be answered
    std::vector<std::int64_t> without = {};  // none of these, ascending

    bool operator==(const Question&) const = default;
};

// A label of the run.
struct LabelInfo {
    std::int64_t label = 0;
    std::string name;             // "" if the data set had no label names
    std::int64_t train_rows = 0;  // that carry it
};

template <typename Visit>
void visit_fields(const LabelInfo& label, Visit&& visit) {
    visit("label", label.label);
    visit("name", label.name);
    visit("train_rows", label.train_rows);
}

// A label that is like another one.
struct NearLabel {
    std::int64_t label = 0;
    std::string name;
    double similarity = 0;  // 1 for the same
};

template <typename Visit>
void visit_fields(const NearLabel& label, Visit&& visit) {
    visit("label", label.label);
    visit("name", label.name);
    visit("similarity", label.similarity);
}

// A training text that is like another text.
struct NearText {
    double similarity = 0;           // from 0 to 1; features of very many texts do not count
    std::int64_t training_text = 0;  // its number among the rows that trained the run, from 0
    std::string text;                // "" where it is not known
    std::vector<std::int64_t> labels;
    std::vector<std::string> names;  // of the labels; "" where they have none
};

template <typename Visit>
void visit_fields(const NearText& near, Visit&& visit) {
    visit("similarity", near.similarity);
    visit("training_text", near.training_text);
    visit("text", near.text);
    visit("labels", near.labels);
    visit("names", near.names);
}

// Labels that a search found.
struct FoundLabels {
    std::int64_t found = 0;  // all of them
    std::vector<LabelInfo> labels;
};

template <typename Visit>
void visit_fields(const FoundLabels& labels, Visit&& visit) {
    visit("found", labels.found);
    visit("labels", labels.labels);
}

// The vectors of texts, a row per text.
struct Embeddings {
    std::int64_t rows = 0, width = 0;
    std::vector<float> values;  // row after row
    std::span<const float> row(std::int64_t i) const {
        return std::span(values).subspan(static_cast<std::size_t>(i * width),
                                         static_cast<std::size_t>(width));
    }
};

// The vectors in a safetensors file: its tensor `vectors`, or its only one, with a row per text, of F32, F16,
// BF16 or F64. DataError.
ELMO_API Embeddings read_vectors(const std::string& file);

// Texts as token ids, one after another.
struct TokenizedTexts {
    std::vector<std::int32_t> tokens, offsets = {0};

    std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
    std::span<const std::int32_t> row(std::int64_t i) const {
        const auto at = static_cast<std::size_t>(i);
        return std::span(tokens).subspan(static_cast<std::size_t>(offsets[at]),
                                         static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
    }
    // Adds texts behind the last one. ConfigError beyond 2^31 tokens.
    ELMO_API void append(const TokenizedTexts& more);
};

// The best labels of texts by their numbers and scores: what Predictor::rank makes and Predictor::answer
// reads.
struct Rankings;

// What Predictor and predict_files use: with a threshold and no given `top`, all labels above the threshold
// are answered, up to 100 per text.
ELMO_API Config resolve_prediction(const Config& config);

// A run that answers texts. One thread at a time may call it, except for its const functions; several
// predictors do not affect each other. Keeps the files of its checkpoint open.
class ELMO_API Predictor {
  public:
    // Maps the checkpoint. Options used: checkpoint, device, threads, top, threshold, probabilities,
    // batch_size, max_memory, search.
    Predictor(const Context& context, const std::string& run, const Config& config,
              const LabelScope& scope = {});
    ~Predictor();
    Predictor(Predictor&&) noexcept;
    Predictor& operator=(Predictor&&) noexcept;

    // Best labels of each text, best first, ties by lower number. Any number of texts: they are taken
    // batch_size at a time.
    std::vector<std::vector<Prediction>> predict(const std::vector<std::string>& texts);
    // The same for a question: its top and the labels it leaves out are within the `top` that the predictor
    // was made with (ConfigError). Of given labels only their weights are used; the last few sets stay in
    // memory.
    std::vector<std::vector<Prediction>> predict(const std::vector<std::string>& texts,
                                                 const Question& question);
    // The same in three parts, of which only the second one needs the model: the first and the last may run
    // in many threads while it works for others. `answer` is of `count` texts from `first` on.
    TokenizedTexts tokenize(std::span<const std::string> texts) const;
    std::shared_ptr<const Rankings> rank(const TokenizedTexts& texts, const Question& question);
    std::shared_ptr<const Rankings> rank(const Embeddings& vectors, const Question& question);
    std::vector<std::vector<Prediction>> answer(const Rankings& rankings, std::int64_t first,
                                                std::int64_t count) const;
    // The same of vectors in the place of texts: what embed gives, or any other encoder whose vectors the
    // head was trained on. They are rounded to BF16. ConfigError for a linear model, DataError for another
    // width.
    std::vector<std::vector<Prediction>> predict_vectors(const Embeddings& vectors);
    std::vector<std::vector<Prediction>> predict_vectors(const Embeddings& vectors, const Question& question);
    // The text vector of each text: what the head scores.
    Embeddings embed(const std::vector<std::string>& texts);
    std::int64_t num_labels() const;   // of the run
    std::int64_t num_answers() const;  // labels that may be answered
    std::int64_t top() const;          // labels of an answer, at most
    // "" where the data set had no label names. DataError for a number that no label of the run has.
    std::string label_name(std::int64_t label) const;
    // The same with its number of training texts.
    LabelInfo label_info(std::int64_t label) const;
    // The numbers of labels that are listed by name or number, ascending; a name that several labels have
    // means all of them. DataError "WHAT[i]: ..." for one that the run does not have.
    std::vector<std::int64_t> find_labels(const std::vector<std::string>& list,
                                          const std::string& what) const;
    // The same of one name or number. DataError "WHAT: ...".
    std::vector<std::int64_t> find_label(const std::string& label, const std::string& what) const;
    // Labels whose name contains `part`, in order of number, from the `first` one on, at most `limit`.
    FoundLabels search_labels(std::string_view part, std::int64_t first, std::int64_t limit) const;
    // The labels that are most like this one, at most `limit`, best first, ties by lower number: by the
    // cosine of their weights, among those that may be answered and whose weights have the largest products
    // with its own (as many as a question may rank); of a linear model, the share of the label trees in which
    // both lie in one leaf, where it is not 0. DataError for a number that no label has.
    std::vector<NearLabel> nearest_labels(std::int64_t label, std::int64_t limit);
    // The training texts that are most like this one, at most `limit`, best first, without their texts, which
    // a run does not hold (explain.h finds them). Nothing where the run has no index of them: only a linear
    // model may have one (--neighbours).
    std::optional<std::vector<NearText>> nearest_texts(const std::string& text, std::int64_t limit);
    // Texts so far that may have more labels above the threshold than were ranked (see resolve_prediction).
    std::int64_t cut_answers() const;
    bool calibrated() const;  // probabilities are
    // How labels are found with search approximate; nothing where every label is scored (exact search, and
    // among given labels).
    std::optional<SearchIndex> index() const;
    bool has_vectors() const;  // embed works: a linear model has none, nor a head on vectors from elsewhere
    bool takes_texts() const;  // false of a head on vectors (elmo/vector_head.h)
    std::string checkpoint_folder() const;
    const std::string& checkpoint_hash() const;  // of its manifest: equal hashes mean equal files
    const MemoryReport& plan() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// On the ranks after the first one (elmo/ranks.h): works for the predictor of the first until that one ends.
ELMO_API void follow_predictor(const Context& context, const std::string& run, const Config& config);

struct PredictedFiles {
    std::string out;           // the file of answers
    std::int64_t texts = 0;    // in config.out now
    std::int64_t resumed = 0;  // of these, done by earlier calls
    std::int64_t replaced_utf8 = 0;
    std::int64_t dropped_ids = 0;  // as of TextReader
    std::int64_t cut = 0;          // answers that may lack labels above the threshold
    double seconds = 0;
};

template <typename Visit>
void visit_fields(const PredictedFiles& files, Visit&& visit) {
    visit("out", files.out);
    visit("texts", files.texts);
    visit("resumed", files.resumed);
    visit("seconds", files.seconds);
}

// Answers every text of the files into config.out with progress: one line of JSON per text, or, if the name
// ends in .csv, one CSV row per text. Until all are done the answers are in OUT.partial as JSON, which
// config.resume continues. ConfigError if OUT exists and neither
// resume nor overwrite is set, or if OUT.partial belongs to another call.
ELMO_API PredictedFiles predict_files(const Context& context, const std::string& run,
                                      const std::vector<std::string>& files, const LabelScope& scope,
                                      const Config& config);

}  // namespace elmo
