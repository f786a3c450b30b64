// Rows of the head for labels that a trained run does not have yet.
//
// Trained rows follow the texts of their labels: over the run's own labels, with v the encoder's vector of a
// label's name, w is about w_mean + slope (v - v_mean), slope by least squares. A new label gets the row that
// this predicts for the vector of its own text. With data, v is the mean vector of the texts that carry a
// label, and the fit uses labels of the run that the data also has. The means matter: texts share a common
// direction, on which trained rows are negative because most labels are wrong for most texts. Labels are
// sampled by their share of the training positives, since rows of rare labels have hardly left their start.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "elmo/context.h"
#include "elmo/labels.h"
#include "engine/train_step.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"

namespace elmo {

// Labelled texts, and the numbers of their labels among the new ones.
struct NewLabelData {
    const Split* split = nullptr;           // null: none
    std::vector<std::int64_t> new_label;    // of each label of the data set, -1 for others
    std::vector<std::int64_t> known_label;  // of each label of the data set its number in the run, or -1
};

class NewRows {
  public:
    // A head of texts.size() rows beside the checkpoint's encoder; `training` plans for train().
    NewRows(const Context& context, const Checkpoint& checkpoint, const Tokenizer& tokenizer,
            const Config& config, std::int64_t max_length, std::int64_t labels, const NewLabelData& data,
            bool training);

    // Measures how rows follow vectors on a sample of the run's labels, then sets every new row: from data
    // where the label has rows there, else from its text.
    void start(const LabelTable& run_labels, std::span<const std::string_view> texts, LabelChange& change);
    // config.steps steps of the head on the new rows only; the encoder stays. NumericError.
    void train(LabelChange& change);

    Backend& backend() { return engine_.backend(); }
    View weights() { return engine_.head().weights(); }
    View row_exponents() { return engine_.head().row_exponents(); }

  private:
    // w = w_mean + slope (v - v_mean)
    struct Rule {
        std::vector<double> w_mean, v_mean;
        double slope = 0;
    };
    static Rule fit(std::span<const float> w, std::span<const float> v, std::int64_t width);

    std::vector<float> vectors_of(std::span<const std::string_view> texts);
    // The mean vector over rows of the data for each of `count` targets, label_of[data label] or -1, and the
    // number of rows. Rows without a target are not encoded; at most `most` rows, evenly spaced.
    struct Means {
        std::vector<float> vectors;
        std::vector<std::int64_t> rows;
    };
    Means means_of(const std::vector<std::int64_t>& label_of, std::int64_t count, std::int64_t most);
    std::vector<float> forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> offsets);

    Context context_;
    const Checkpoint& checkpoint_;
    const Tokenizer& tokenizer_;
    const Config& config_;
    std::int64_t max_length_;
    std::int64_t labels_;
    const NewLabelData& data_;
    Engine engine_;
    std::int64_t width_ = 0;
};

}  // namespace elmo
