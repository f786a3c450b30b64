// elmo predict: labels of texts from a file or standard input, in a stream.
#include <fmt/format.h>

#include "elmo/elmo.h"
#include "elmo/text_reader.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

Json to_json(std::int64_t line, const std::vector<Prediction>& predictions) {
    Json labels = Json::array();
    for (const Prediction& prediction : predictions)
        labels.push_back({{"label", prediction.label},
                          {"name", prediction.name},
                          {"probability", printable(prediction.probability)},
                          {"score", printable(prediction.score)}});
    return {{"line", line}, {"labels", labels}};
}

std::string block(std::string_view text, const std::vector<Prediction>& predictions) {
    std::string out = fmt::format("{}\n", text);
    for (const Prediction& prediction : predictions)
        out += fmt::format("  {:.4f}\t{}\t{}\n", prediction.probability, prediction.label, prediction.name);
    return out;
}

void run_predict(Invocation& call) {
    Predictor predictor(call.words[0], call.config);
    TextReader reader(call.words.size() > 1 ? call.words[1] : "-", call.config);
    std::int64_t line = 0;
    for (;;) {
        const std::vector<std::string> texts = reader.next(call.config.batch_size);
        if (texts.empty()) break;
        const auto answers = predictor.predict(texts);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            ++line;
            if (call.json)
                write_json(to_json(line, answers[i]));
            else
                write_stdout(block(texts[i], answers[i]));
        }
        flush_stdout();
    }
    if (reader.replaced_utf8() > 0)
        fmt::print(stderr, "{} texts held invalid UTF-8, which was replaced\n", reader.replaced_utf8());
}

}  // namespace

Verb predict_verb() {
    return {"predict",
            'p',
            "Answer texts with labels and probabilities",
            "RUN [FILE] [options]",
            {{"RUN", "Folder that elmo train wrote"},
             {"FILE", "Texts, one a line, or JSON lines; standard input when left out or '-'"}},
            1,
            2,
            true,
            {},
            {{"echo 'a small domesticated feline' | elmo predict runs/first", "Five best labels of one text"},
             {"elmo predict runs/first texts.txt --top 10 --threshold 0.2 --json > labels.jsonl",
              "A file, one JSON object a line: label, name, probability, score"},
             {"elmo predict runs/first items.jsonl --text-column title+content", "JSON lines"}},
            "Streams in batches: memory does not grow with the input, and a line that comes through a pipe "
            "is answered "
            "when it comes. For people each text is followed by lines of probability, label number and name.",
            run_predict};
}

}  // namespace elmo::cli
