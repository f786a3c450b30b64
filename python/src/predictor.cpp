// Predictor and Tokenizer: texts in, arrays out. A lock makes a predictor safe to share between Python
// threads, which the GIL does not, because it is released.
#include "elmo/predictor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <utility>

#include "elmo/config.h"
#include "elmo/explain.h"
#include "elmo/fields.h"
#include "elmo/resolve.h"
#include "elmo/tokenizer.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Messages from whatever thread, until Python takes them after the call: so nobody waits for the GIL while
// he holds a lock, and a handler of Python's logging may use the predictor.
class Messages {
  public:
    using Message = std::pair<int, std::string>;  // severity and text
    Sinks sinks() {
        Sinks sinks;
        sinks.message = [this](Severity severity, std::string_view text) {
            const std::lock_guard lock(mutex_);
            messages_.emplace_back(static_cast<int>(severity), text);
        };
        return sinks;
    }
    std::vector<Message> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(messages_, {});
    }

  private:
    std::mutex mutex_;
    std::vector<Message> messages_;
};

class SharedPredictor {
  public:
    SharedPredictor(const std::string& run, const Config& config, std::vector<std::string> labels,
                    std::vector<std::string> without)
        : run_(run),
          predictor_(Context({.sinks = messages_.sinks()}), run, resolve_for_run(run, config),
                     {.label_list = std::move(labels), .without_list = std::move(without)}) {}

    // Offsets of the texts' answers, then labels, scores and probabilities of the answers one after another;
    // and how many texts may have more labels above the threshold than top().
    using Answers =
        std::tuple<Array<std::int64_t>, Array<std::int64_t>, Array<float>, Array<float>, std::int64_t>;
    Answers predict(nb::list list, std::int64_t first) {
        const std::vector<std::string> texts = strings_of(list, "texts", first);
        return answers_of([&] { return predictor_.predict(texts); });
    }

    Answers predict_vectors(const Matrix& matrix) {
        Embeddings vectors;
        vectors.rows = static_cast<std::int64_t>(matrix.shape(0));
        vectors.width = static_cast<std::int64_t>(matrix.shape(1));
        vectors.values.assign(matrix.data(), matrix.data() + matrix.size());
        return answers_of([&] { return predictor_.predict_vectors(vectors); });
    }

    Array<float> embed(nb::list list, std::int64_t first) {
        const std::vector<std::string> texts = strings_of(list, "texts", first);
        Embeddings vectors;
        {
            const nb::gil_scoped_release release;
            const std::lock_guard lock(mutex_);
            vectors = predictor_.embed(texts);
        }
        return to_array(std::move(vectors.values),
                        {static_cast<std::size_t>(vectors.rows), static_cast<std::size_t>(vectors.width)});
    }

    // Whether the run has an index of its training texts that finds some for the text.
    bool has_nearest(nb::list list) {
        const std::vector<std::string> texts = strings_of(list, "text");
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        const auto nearest = predictor_.nearest_texts(texts.at(0), 1);
        return nearest && !nearest->empty();
    }

    // The JSON that `elmo explain --json` prints. Without a top, the three best labels or all that are given.
    // The texts of up to `nearest` training texts are read from the data of the configuration, or of the run;
    // without a configuration they are empty.
    std::string explain(nb::list list, const std::vector<std::string>& labels,
                        std::optional<std::int64_t> top, std::int64_t nearest, const Config* config) {
        const std::vector<std::string> texts = strings_of(list, "text");
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        Question question;
        if (!labels.empty()) question.labels = predictor_.find_labels(labels, "labels");
        question.top = top.value_or(labels.empty() ? 3 : std::ssize(question.labels));
        Explanation explanation = explain_answers(predictor_, texts.at(0), question);
        std::string why_not;
        if (nearest > 0 && config != nullptr)
            add_nearest_texts(Context({.sinks = silent()}), run_, *config, predictor_, texts.at(0), nearest,
                              explanation, why_not);
        else
            explanation.nearest = predictor_.nearest_texts(texts.at(0), nearest);
        if (!why_not.empty())  // without the advice to name other data, which Python's explain does not take
            messages_.sinks().message(
                Severity::kWarning, "training texts are not shown: " + why_not.substr(0, why_not.find(';')) +
                                        "; they are read by the path that trained the run, from data that "
                                        "has not changed");
        return to_json(explanation);
    }

    std::vector<std::int64_t> find_labels(const std::vector<std::string>& labels, const std::string& what) {
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        return labels.empty() ? std::vector<std::int64_t>() : predictor_.find_labels(labels, what);
    }

    const Predictor& get() const { return predictor_; }
    std::vector<Messages::Message> take_messages() { return messages_.take(); }

  private:
    template <typename Predict>
    Answers answers_of(const Predict& predict_all) {
        std::vector<std::int64_t> offsets = {0}, labels;
        std::vector<float> scores, probabilities;
        std::int64_t cut = 0;
        {
            const nb::gil_scoped_release release;
            const std::lock_guard lock(mutex_);
            cut = -predictor_.cut_answers();
            for (const auto& answers : predict_all()) {
                for (const Prediction& answer : answers) {
                    labels.push_back(answer.label);
                    scores.push_back(answer.score);
                    probabilities.push_back(answer.probability);
                }
                offsets.push_back(static_cast<std::int64_t>(labels.size()));
            }
            cut += predictor_.cut_answers();
        }
        return {to_array(std::move(offsets)), to_array(std::move(labels)), to_array(std::move(scores)),
                to_array(std::move(probabilities)), cut};
    }

    std::mutex mutex_;
    std::string run_;
    Messages messages_;  // before the predictor, which writes to it
    Predictor predictor_;
};

// Offsets of the texts' ids, then the ids.
std::tuple<Array<std::int64_t>, Array<std::int32_t>> encode(const TextEncoder& encoder, nb::list list,
                                                            std::int64_t first) {
    const std::vector<std::string> texts = strings_of(list, "texts", first);
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> ids;
    {
        const nb::gil_scoped_release release;
        for (const std::string& text : texts) {
            const auto of_text = encoder.encode(text);
            ids.insert(ids.end(), of_text.begin(), of_text.end());
            offsets.push_back(static_cast<std::int64_t>(ids.size()));
        }
    }
    return {to_array(std::move(offsets)), to_array(std::move(ids))};
}

}  // namespace

void bind_predictor(nb::module_& module) {
    const nb::call_guard<nb::gil_scoped_release> without_gil;
    nb::class_<SharedPredictor>(module, "Predictor")
        .def(
            nb::init<const std::string&, const Config&, std::vector<std::string>, std::vector<std::string>>(),
            nb::arg("run"), nb::arg("config"), nb::arg("labels"), nb::arg("without"), without_gil)
        .def("predict", &SharedPredictor::predict, nb::arg("texts"), nb::arg("first"))
        .def("predict_vectors", &SharedPredictor::predict_vectors, nb::arg("vectors"))
        .def("embed", &SharedPredictor::embed, nb::arg("texts"), nb::arg("first"))
        .def("has_nearest", &SharedPredictor::has_nearest, nb::arg("text"),
             "Whether a list of one text has nearest training texts.")
        .def("explain", &SharedPredictor::explain, nb::arg("text"), nb::arg("labels"), nb::arg("top").none(),
             nb::arg("nearest"), nb::arg("config").none(), "Of a list of one text: JSON.")
        .def(
            "label_name",
            [](const SharedPredictor& p, std::int64_t label) { return p.get().label_name(label); },
            nb::arg("label"))
        .def("find_labels", &SharedPredictor::find_labels, nb::arg("labels"), nb::arg("what"),
             "The numbers of labels by name or number, ascending.")
        .def("take_messages", &SharedPredictor::take_messages,
             "Severities and texts of what was said since the last call.")
        .def_prop_ro("top", [](const SharedPredictor& p) { return p.get().top(); })
        .def_prop_ro("num_labels", [](const SharedPredictor& p) { return p.get().num_labels(); })
        .def_prop_ro("num_answers", [](const SharedPredictor& p) { return p.get().num_answers(); })
        .def_prop_ro("calibrated", [](const SharedPredictor& p) { return p.get().calibrated(); })
        .def_prop_ro("checkpoint", [](const SharedPredictor& p) { return p.get().checkpoint_folder(); });
    nb::class_<TextEncoder>(module, "TextEncoder")
        .def(
            "__init__",
            [](TextEncoder* place, const Config& config) {
                new (place) TextEncoder(Context({.sinks = silent()}), config);
            },
            nb::arg("config"), without_gil)
        .def("encode", &encode, nb::arg("texts"), nb::arg("first"));
}

}  // namespace elmo::python
