// elmo predict: streams texts from a file or standard input and answers with their labels.
#include <fmt/format.h>

#include <filesystem>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "elmo/text_reader.h"
#include "launch.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string block(std::string_view text, const std::vector<Prediction>& predictions) {
    std::string out = fmt::format("{}\n", text);
    for (const Prediction& prediction : predictions)
        out += fmt::format("  {:.4f}\t{}\t{}\n", prediction.probability, prediction.label, prediction.name);
    return out;
}

// What the user should know of the answers besides them.
void say(const Invocation& call, std::int64_t replaced_utf8, std::int64_t dropped_ids, std::int64_t cut) {
    if (replaced_utf8 > 0)
        std::fputs(fmt::format("invalid UTF-8 was replaced in {}\n", counted(replaced_utf8, "row")).c_str(),
                   stderr);
    if (dropped_ids > 0 && (call.json || !call.config.out.empty()))
        call.context.warning(fmt::format(
            "{} left out of the answers: expected a string or a number at '{}'",
            dropped_ids == 1 ? std::string("1 id that is an object or a list is")
                             : fmt::format("{} ids that are objects or lists are", with_commas(dropped_ids)),
            quoted(call.config.id_column)));
    if (cut > 0)
        call.context.warning(fmt::format(
            fmt::runtime(call.config.label_thresholds
                             ? "{} whose {} best labels are all above the lowest threshold, so that others "
                               "may be above theirs: --top raises this limit"
                             : "{} with {} labels above the threshold, and perhaps more: --top raises this "
                               "limit"),
            counted(cut, "text"), resolve_prediction(call.config).top));
}

std::string answer_text(const Invocation& call, Answer answer, const std::string& text) {
    if (!call.json) return block(text, answer.labels);
    if (call.config.with_text) answer.text = text;
    return to_json(answer) + "\n";
}

// Answers the texts on the command line.
void answer_words(Invocation& call, const LabelScope& scope, const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
        if (find_invalid_utf8(text) != std::string::npos)
            usage_error(predict_verb(), fmt::format("--text: expected UTF-8, found '{}'", quoted(text)));
    Predictor predictor(call.context, call.words[0], call.config, scope);
    auto answers = predictor.predict(texts);
    for (std::size_t i = 0; i < texts.size(); ++i)
        write_stdout(answer_text(call, {"", static_cast<std::int64_t>(i) + 1, {}, {}, std::move(answers[i])},
                                 texts[i]));
    say(call, 0, 0, predictor.cut_answers());
}

// Answers vectors, in the place of texts.
void answer_vectors(Invocation& call, const LabelScope& scope, const std::string& file) {
    Predictor predictor(call.context, call.words[0], call.config, scope);
    auto answers = predictor.predict_vectors(read_vectors(file));
    for (std::size_t i = 0; i < answers.size(); ++i)
        write_stdout(answer_text(call, {"", static_cast<std::int64_t>(i) + 1, {}, {}, std::move(answers[i])},
                                 fmt::format("vector {}", i + 1)));
    say(call, 0, 0, predictor.cut_answers());
}

// Answers to standard output as the texts come.
void stream(Invocation& call, const LabelScope& scope) {
    Predictor predictor(call.context, call.words[0], call.config, scope);
    TextReader reader(call.words.size() > 1 ? call.words[1] : "-", call.config);
    std::int64_t line = 0;
    for (;;) {
        const std::vector<std::string> texts = reader.next(call.config.batch_size);
        if (texts.empty()) break;
        if (!reader.detected().empty()) call.context.info(reader.detected());
        auto answers = predictor.predict(texts);
        for (std::size_t i = 0; i < texts.size(); ++i)
            write_stdout(
                answer_text(call, {"", ++line, reader.ids()[i], {}, std::move(answers[i])}, texts[i]));
        flush_stdout();
    }
    say(call, reader.replaced_utf8(), reader.dropped_ids(), predictor.cut_answers());
}

// A text or a number of labels where a file is expected is a habit of other programs.
void refuse_what_is_no_file(const std::vector<std::string>& words) {
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (std::error_code error; std::filesystem::exists(word, error)) continue;
        if (word.find(' ') != word.npos)
            usage_error(predict_verb(),
                        fmt::format("{}: no such file; if it is a text to answer, give --text before it",
                                    quoted(word)));
        if (!word.empty() && word.find_first_not_of("0123456789") == word.npos)
            usage_error(predict_verb(),
                        fmt::format("{}: no such file; if so many labels are to be answered, give --top {}",
                                    word, word));
    }
}

void run_predict(Invocation& call) {
    refuse_what_is_no_file(call.words);
    const LabelScope scope{call.extra.at("labels"), call.extra.at("without")};
    const std::vector<std::string>& texts = call.lists.at("text");
    if (!is_first_rank()) return follow_predictor(call.context, call.words[0], call.config);
    if (const std::string& vectors = call.extra.at("vectors"); !vectors.empty()) {
        if (call.words.size() > 1 || !texts.empty() || !call.config.out.empty() || call.config.with_text)
            usage_error(
                predict_verb(),
                "--vectors excludes FILE, --text, --with-text and --out: the answers go to standard output");
        return answer_vectors(call, scope, vectors);
    }
    if (!texts.empty()) {
        if (call.words.size() > 1 || !call.config.out.empty())
            usage_error(predict_verb(), "--text excludes FILE and --out: its answers go to standard output");
        return answer_words(call, scope, texts);
    }
    if (call.config.out.empty()) {
        if (call.words.size() > 2)
            usage_error(predict_verb(), "several files need --out FILE for their answers");
        if (call.config.resume || call.config.overwrite)
            usage_error(predict_verb(), "--resume and --overwrite belong to --out FILE");
        return stream(call, scope);
    }
    const std::vector<std::string> files(call.words.begin() + 1, call.words.end());
    if (files.empty()) usage_error(predict_verb(), "--out needs FILE...: the texts to answer");
    const PredictedFiles done =
        predict_files(call.context.with_stop(stop_on_signal()), call.words[0], files, scope, call.config);
    say(call, done.replaced_utf8, done.dropped_ids, done.cut);
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

Config resolve_predict(const Invocation& call) {
    return resolve_prediction(call.config);
}

}  // namespace

Verb predict_verb() {
    return {
        "predict",
        'p',
        "Answer texts with labels and probabilities",
        "RUN [FILE] [options] | elmo predict RUN FILE... --out ANSWERS [options]",
        {{"RUN", "Folder that elmo train wrote"},
         {"FILE",
          "Texts, one per line, JSON lines, a table with a header (.csv, .tsv; --text-column) or rows of "
          "fastText or the sparse format, whose labels are left out; plain or compressed; standard input "
          "when left out or '-'"}},
        1,
        1 << 20,
        true,
        {{"labels", "",
          "File of labels, one name or number per line: answers come only from these, and only their "
          "weights are read"},
         {"without", "", "File of labels, one name or number per line, that are never answered"},
         {"text", "", "A text to answer, instead of FILE; may be given several times", false, true},
         {"vectors", "",
          "A safetensors file of vectors, a row per text, instead of texts: its tensor `vectors`, or its "
          "only one; "
          "for a run that elmo.torch.Head saved, or of another program that makes the encoder's vectors"}},
        {{"elmo predict runs/first --text 'a small domesticated feline'", "Five best labels of one text"},
         {"elmo predict runs/first new.csv --threshold 0.3 --with-text --out answers.csv",
          "All labels above a probability; a CSV row per text with its id, text and labels"},
         {"elmo predict runs/first texts.txt --top 10 --threshold 0.2 --json > labels.jsonl",
          "A file, one JSON object per line: label, name, probability, score"},
         {"elmo predict runs/first items.jsonl --text-column title+content", "JSON lines"},
         {"elmo predict runs/first texts.txt --labels in-stock.txt", "The best of the labels in a file"},
         {"elmo predict runs/head --vectors vectors.safetensors --json",
          "Vectors of another encoder, for a head that was trained on them"},
         {"elmo predict runs/first part-*.txt.gz --out answers.jsonl --resume",
          "Many files into one, with progress; continues an interrupted call"}},
        "Streams in batches: memory does not grow with the input, and a line from a pipe is answered at "
        "once. Without --json each text is followed by lines of probability, label number and name. "
        "With --out the answers go to a file, one line of JSON per text (a name that ends in .csv: one CSV "
        "row), which appears when it is complete. With --threshold all labels above it are answered, up "
        "to 100 unless --top is given.",
        run_predict,
        {},
        nullptr,
        resolve_predict};
}

}  // namespace elmo::cli
