// elmo predict: streams texts from a file or standard input and answers with their labels.
#include <fmt/format.h>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "elmo/text_reader.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string block(std::string_view text, const std::vector<Prediction>& predictions) {
    std::string out = fmt::format("{}\n", text);
    for (const Prediction& prediction : predictions)
        out += fmt::format("  {:.4f}\t{}\t{}\n", prediction.probability, prediction.label, prediction.name);
    return out;
}

void say_replaced(std::int64_t count) {
    if (count > 0)
        std::fputs(fmt::format("{} texts held invalid UTF-8, which was replaced\n", count).c_str(), stderr);
}

// Answers to standard output as the texts come.
void stream(Invocation& call, const LabelScope& scope) {
    Predictor predictor(call.context, call.words[0], call.config, scope);
    TextReader reader(call.words.size() > 1 ? call.words[1] : "-", call.config);
    std::int64_t line = 0;
    for (;;) {
        const std::vector<std::string> texts = reader.next(call.config.batch_size);
        if (texts.empty()) break;
        const auto answers = predictor.predict(texts);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            ++line;
            write_stdout(call.json ? to_json("", line, answers[i]) + "\n" : block(texts[i], answers[i]));
        }
        flush_stdout();
    }
    say_replaced(reader.replaced_utf8());
}

void run_predict(Invocation& call) {
    const LabelScope scope{call.extra.at("labels"), call.extra.at("without")};
    if (call.config.out.empty()) {
        if (call.words.size() > 2)
            usage_error(predict_verb(), "several files need --out FILE for their answers");
        if (call.config.resume || call.config.overwrite)
            usage_error(predict_verb(), "--resume and --overwrite belong to --out FILE");
        return stream(call, scope);
    }
    const std::vector<std::string> files(call.words.begin() + 1, call.words.end());
    if (files.empty()) usage_error(predict_verb(), "--out needs FILE...: the texts to answer");
    const PredictedFiles done = predict_files(call.context, call.words[0], files, scope, call.config);
    say_replaced(done.replaced_utf8);
    if (call.json) return write_json(done);
    Facts facts = {{"answers", call.config.out}, {"texts", with_commas(done.texts)}};
    if (done.resumed > 0) facts.push_back({"of these, from before", with_commas(done.resumed)});
    if (done.seconds > 0) {
        facts.push_back({"time", duration_text(done.seconds)});
        facts.push_back(
            {"speed",
             fmt::format("{:.0f} texts/s", static_cast<double>(done.texts - done.resumed) / done.seconds)});
    }
    write_stdout(aligned(facts));
}

}  // namespace

Verb predict_verb() {
    return {"predict",
            'p',
            "Answer texts with labels and probabilities",
            "RUN [FILE] [options] | elmo predict RUN FILE... --out ANSWERS [options]",
            {{"RUN", "Folder that elmo train wrote"},
             {"FILE",
              "Texts, one per line, JSON lines or a table with a header (.csv, .tsv; --text-column), plain "
              "or compressed; standard input when left out or '-'"}},
            1,
            1 << 20,
            true,
            {{"labels", "",
              "File of labels, one name or number per line: answers come only from these, and only their "
              "weights are read"},
             {"without", "", "File of labels, one name or number per line, that are never answered"}},
            {{"echo 'a small domesticated feline' | elmo predict runs/first", "Five best labels of one text"},
             {"elmo predict runs/first texts.txt --top 10 --threshold 0.2 --json > labels.jsonl",
              "A file, one JSON object per line: label, name, probability, score"},
             {"elmo predict runs/first items.jsonl --text-column title+content", "JSON lines"},
             {"elmo predict runs/first texts.txt --labels in-stock.txt", "The best of the labels in a file"},
             {"elmo predict runs/first part-*.txt.gz --out answers.jsonl --resume",
              "Many files into one, with progress; continues an interrupted call"}},
            "Streams in batches: memory does not grow with the input, and a line from a pipe is answered at "
            "once. Without --json each text is followed by lines of probability, label number and name. "
            "With --out the answers go to a file, one line of JSON per text, which appears when it is "
            "complete.",
            run_predict};
}

}  // namespace elmo::cli
