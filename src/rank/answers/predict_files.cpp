// Prediction from files into a file, which can be interrupted and continued.
//
// Lines go to OUT.partial, batch by batch; OUT.partial.json records which call writes them, and
// OUT.partial.texts which texts they answer. When it is complete, the partial file is renamed, and the record
// of the call becomes the hidden file .OUT.call. A continued call removes a truncated last line and continues
// after the answered texts, which must be the same.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/progress.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/predictor.h"
#include "elmo/resolve.h"
#include "elmo/text_reader.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/file_error.h"
#include "io/folder_lock.h"
#include "io/output_file.h"
#include "rank/answers/answered_texts.h"
#include "rank/answers/answers_csv.h"
#include "rank/index/index_file.h"
#include "rank/shared_ranking.h"
#include "ranks/collectives.h"
#include "run/calibration_file.h"
#include "run/checkpoint.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using OrderedJson = nlohmann::ordered_json;

// Options that affect the content of an answer.
constexpr OptionKey kAnswerKeys[] = {"top",        "threshold",        "format",    "probabilities",
                                     "input",      "text_column",      "encoding",  "allow_invalid_utf8",
                                     "device",     "columns",          "delimiter", "allow_stray_quotes",
                                     "quotes",     "id_column",        "with_text", "cpu_products",
                                     "batch_size", "label_thresholds", "search"};

OrderedJson file_entry(const std::string& file) {
    std::error_code error;
    if (fs::exists(file, error) && !fs::is_regular_file(file, error))
        throw DataError(
            fmt::format("{}: expected a file, found a pipe or a device; with --out it may be read again: "
                        "save it to a file "
                        "first",
                        file));
    const auto size = fs::file_size(file, error);
    if (error) throw DataError(fmt::format("{}: cannot be read: {}", file, error.message()));
    return {{"file", file}, {"bytes", size}};
}

std::string hash_or_none(const std::string& file) {
    return file.empty() ? "none" : hash_text(hash_file(file));
}

// Everything that affects the content of the lines.
OrderedJson describe_call(const fs::path& checkpoint, const std::string& hash,
                          const std::vector<std::string>& files, const LabelScope& scope,
                          const Config& config) {
    std::error_code error;
    const auto of_run = [&](const fs::path& file) {
        return hash_or_none(fs::exists(file, error) ? file.string() : std::string());
    };
    OrderedJson json = {{"checkpoint", checkpoint.string()},
                        {"manifest_xxh64", hash},
                        {"calibration_xxh64", of_run(calibration_file(checkpoint))},
                        {"labels_xxh64", hash_or_none(scope.labels)},
                        {"without_xxh64", hash_or_none(scope.without)}};
    for (const OptionKey key : kAnswerKeys) json[std::string(key)] = get_option(config, key);
    json["index_xxh64"] = config.search == "approximate" ? of_run(index_file(checkpoint)) : "none";
    for (const std::string& file : files) json["files"].push_back(file_entry(file));
    return json;
}

// ConfigError if `file` records another call than `wanted`. A checkpoint may have moved: its hash counts.
void require_same_call(const fs::path& file, const OrderedJson& wanted, const std::string& answers,
                       const char* advice) {
    nlohmann::json was = read_json(file);
    const nlohmann::json now = wanted;
    if (was.is_object() && !was.contains("search")) {  // of earlier versions
        was["search"] = "exact";
        was["index_xxh64"] = "none";
    }
    if (was.is_object() && !was.contains("batch_size")) was["batch_size"] = now["batch_size"];
    const auto text = [](const nlohmann::json& call, const std::string& key) {
        return call.is_object() && call.contains(key) ? json_string(call[key]) : std::string("nothing");
    };
    // In the order of describe_call: another run also has another calibration, but that is not what to say.
    for (const auto& [key, unused] : wanted.items()) {
        const std::string expected = text(was, key), found = text(now, key);
        if (key == "checkpoint" || expected == found) continue;
        if (key == "manifest_xxh64")
            throw ConfigError(fmt::format(
                "resume: {} by another checkpoint: expected {} (xxh64 {}), found {} "
                "(xxh64 {}); {}",
                answers, text(was, "checkpoint"), expected, text(now, "checkpoint"), found, advice));
        const std::string_view hash = "_xxh64";
        const std::string what =
            key.ends_with(hash) ? key.substr(0, key.size() - hash.size()) + " (xxh64)" : key;
        throw ConfigError(fmt::format("resume: {} with {}: expected {}, found {}; {}", answers,
                                      key == "files" ? "other files" : "another " + what, expected, found,
                                      advice));
    }
}

// The lines of one JSON object each at the front of the file, at most `limit`. `end` is where they end:
// before a truncated last line, or before what a crash left in the disk's blocks.
std::int64_t count_answers(const fs::path& file, std::uintmax_t& end,
                           std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
    std::ifstream in(file, std::ios::binary);
    std::vector<char> buffer(std::size_t{1} << 20);
    std::int64_t answers = 0, length = 0;
    std::uintmax_t offset = 0;
    char first = 0, last = 0;
    bool is_text = true;
    end = 0;
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
        for (std::streamsize i = 0; i < in.gcount(); ++i) {
            const char c = buffer[static_cast<std::size_t>(i)];
            if (c != '\n') {
                if (length++ == 0) first = c;
                last = c;
                is_text = is_text && static_cast<unsigned char>(c) >= 0x20;
                continue;
            }
            if (answers == limit || length < 2 || first != '{' || last != '}' || !is_text) return answers;
            ++answers;
            length = 0;
            end = offset + static_cast<std::uintmax_t>(i) + 1;
        }
        offset += static_cast<std::uintmax_t>(in.gcount());
    }
    if (in.bad()) throw_file_error(file, "read");
    return answers;
}

// Removes what is not an answer, or beyond `limit`; returns the number of answers.
std::int64_t keep_answers(const fs::path& file, std::int64_t limit) {
    std::uintmax_t end = 0;
    const std::int64_t answers = count_answers(file, end, limit);
    std::error_code error;
    if (fs::file_size(file, error) != end && !error) fs::resize_file(file, end, error);
    if (error) throw_file_error(file, "cut off what follows the last answer", error.value());
    return answers;
}

// The files of one call.
struct Target {
    explicit Target(const Config& config)
        : out(config.out),
          partial(config.out + ".partial"),
          call(config.out + ".partial.json"),
          texts(config.out + ".partial.texts"),
          made(out.parent_path() / ("." + out.filename().string() + ".call")) {}
    Target(const Target&) = delete;
    // A call that failed at its first text (a slip in its options) leaves nothing.
    ~Target() {
        std::error_code error;
        if (lock && fs::is_empty(partial, error) && !error)
            for (const fs::path& file : {partial, call, texts}) fs::remove(file, error);
    }

    // The number of existing lines; 0 for a fresh start.
    std::int64_t open(const Config& config, const OrderedJson& wanted) {
        std::error_code error;
        if (fs::exists(out, error) && !fs::is_regular_file(out, error))
            throw ConfigError(fmt::format("out: expected a file for the answers, found the {} {}",
                                          fs::is_directory(out, error) ? "folder" : "pipe or device",
                                          out.string()));
        // Without an answer there is nothing to continue, or to lose: the call failed at its first text.
        const bool answers = fs::exists(partial, error) && !fs::is_empty(partial, error);
        const bool begun = answers && fs::exists(call, error);
        if (!config.overwrite && !config.resume)
            for (const fs::path& file : {out, partial})
                if (file == out ? fs::exists(file, error) : answers)
                    throw ConfigError(fmt::format(
                        "out: {} exists; give --resume to continue the same call, --overwrite to replace it, "
                        "or another file",
                        file.string()));
        error.clear();
        if (out.has_parent_path()) fs::create_directories(out.parent_path(), error);
        if (error) throw_file_error(out.parent_path(), "create", error.value());
        lock.emplace(partial);
        if (config.resume && begun) {
            require_same_call(call, wanted, partial.string() + " was begun",
                              "repeat that call, or start again with --overwrite");
            answered.emplace(texts);
            const std::int64_t kept = keep_answers(partial, answered->count());
            answered->keep(kept);
            return kept;
        }
        fs::resize_file(partial, 0, error);
        if (error) throw_file_error(partial, "begin again", error.value());
        write_file_atomically(call, json_string(wanted, 2) + "\n");
        fs::remove(texts, error);
        answered.emplace(texts);
        answered->keep(0);
        return 0;
    }

    void finish() const {
        std::error_code error;
        fs::remove(made, error);  // never beside answers of another call
        if (is_csv(out)) {
            write_csv_answers(partial, out);
            fs::remove(partial, error);
        } else {
            fs::rename(partial, out, error);
        }
        if (error) throw_file_error(out, "put in its place", error.value());
        fs::rename(call, made, error);
        fs::remove(texts, error);
        sync_folder(fs::absolute(out).parent_path());
    }

    fs::path out, partial, call, texts;
    fs::path made;  // the call that made a complete `out`
    std::optional<AnsweredTexts> answered;
    std::optional<FileLock> lock;  // of the partial file: two writers would mix their answers
};

// Skips the answered texts of a file, from number `first` of all, at most `count`; returns how many there
// were. `begun`: those of a batch whose other texts have no answer. ConfigError if one has changed.
std::int64_t skip(TextReader& reader, const std::string& file, const AnsweredTexts& answered,
                  std::int64_t first, std::int64_t count, std::int64_t batch,
                  std::vector<std::string>& begun) {
    std::int64_t done = 0;
    while (done < count) {
        auto texts = reader.next(std::min(count - done, batch));
        if (texts.empty()) break;
        for (const std::string& text : texts)
            if (!answered.is(first + done++, text))
                throw ConfigError(
                    fmt::format("resume: {}: text {} is another than the one that was answered; give the "
                                "files as they were, or start again with --overwrite",
                                file, done));
        if (std::ssize(texts) < batch) begun = std::move(texts);
    }
    return done;
}

}  // namespace

PredictedFiles predict_files(const Context& context, const std::string& run,
                             const std::vector<std::string>& files, const LabelScope& scope,
                             const Config& given) {
    const Config config = resolve_prediction(resolve_for_run(run, given));
    validate(config);
    if (!ranks_of(context).is_first()) {
        follow_predictor(context, run, config);
        return {};
    }
    if (config.out.empty()) throw ConfigError("out: expected a file for the answers, found none");
    refuse_other_format(config.out);
    if (files.empty()) throw ConfigError("predict: expected files of texts, found none");
    for (const std::string& file : files) {
        if (file == "-")
            throw ConfigError(
                "predict: standard input cannot be continued; give files with --out, or leave --out out");
        std::error_code ignored;
        if (fs::equivalent(file, config.out, ignored))
            throw ConfigError(
                fmt::format("out: {} holds the texts to answer; give another file", config.out));
        if (find_invalid_utf8(file) != std::string::npos)
            throw ConfigError(
                fmt::format("predict: expected file names of valid UTF-8 with --out, whose JSON names them, "
                            "found '{}'; rename the file",
                            quoted(file)));
    }
    PredictedFiles result;
    result.out = config.out;
    Target target(config);
    std::error_code error;
    if (config.resume && fs::exists(target.out, error) && !fs::exists(target.partial, error)) {
        if (fs::exists(target.made, error)) {
            const Checkpoint checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead);
            require_same_call(
                target.made,
                describe_call(checkpoint.folder(), checkpoint.manifest_hash(), files, scope, config),
                config.out + " is complete, but was made", "give another file, or --overwrite to replace it");
        } else {
            context.warning(fmt::format("{}: which run made it is not known: {} is gone", config.out,
                                        target.made.string()));
        }
        context.info(
            fmt::format("{} is complete already and stays as it is; --overwrite answers again", config.out));
        std::uintmax_t end = 0;
        result.texts = result.resumed =
            is_csv(target.out) ? count_csv_answers(target.out) : count_answers(target.out, end);
        lead_nothing(context);
        return result;
    }
    // All headers, before the first answer. A pipe can be opened once.
    for (const std::string& file : files)
        if (fs::is_regular_file(file, error) || !fs::exists(file, error))
            const TextReader opened(file, config);
    Predictor predictor(context, run, config, scope);
    result.resumed = target.open(config, describe_call(predictor.checkpoint_folder(),
                                                       predictor.checkpoint_hash(), files, scope, config));
    if (result.resumed > 0)
        context.info(fmt::format("continuing after {}", counted(result.resumed, "answer")));
    OutputFile out(target.partial, OutputFile::Open::kAppend);

    std::int64_t total_bytes = 0, bytes_before = 0, to_skip = result.resumed;
    for (const std::string& file : files)
        total_bytes += static_cast<std::int64_t>(fs::file_size(file, error));
    Progress progress(context, "predicting", total_bytes >> 10, "KiB");
    const auto start = std::chrono::steady_clock::now();
    std::int64_t answered = 0;
    for (const std::string& file : files) {
        TextReader reader(file, config);
        std::vector<std::string> begun;
        std::int64_t line =
            skip(reader, file, *target.answered, result.resumed - to_skip, to_skip, config.batch_size, begun);
        to_skip -= line;
        while (true) {
            const auto texts = reader.next(config.batch_size - std::ssize(begun));
            if (texts.empty()) break;
            if (file == files.front() && !reader.detected().empty()) context.info(reader.detected());
            for (const std::string& text : texts) target.answered->add(text);
            target.answered->flush();  // before the answers: those without a text are not kept
            // In the batches of a call that nothing interrupts: their sizes decide the last digits.
            const std::size_t before = begun.size();
            begun.insert(begun.end(), texts.begin(), texts.end());
            auto answers = predictor.predict(begun);
            begun.clear();
            for (std::size_t i = 0; i < texts.size(); ++i) {
                Answer answer{files.size() > 1 ? file : std::string(),
                              ++line,
                              reader.ids()[i],
                              {},
                              std::move(answers[before + i])};
                if (config.with_text) answer.text = texts[i];
                out.write(to_json(answer) + "\n");
            }
            out.flush();
            answered += static_cast<std::int64_t>(texts.size());
            progress.update((bytes_before + reader.bytes_read()) >> 10,
                            fmt::format("{} texts", with_commas(result.resumed + answered)));
            if (context.stop_requested()) {
                out.sync();
                throw Interrupted(
                    fmt::format("stopped; {} in {}: the same call with --resume continues",
                                result.resumed + answered == 1
                                    ? std::string("1 answer is")
                                    : fmt::format("{} answers are", with_commas(result.resumed + answered)),
                                target.partial.string()));
            }
        }
        bytes_before += static_cast<std::int64_t>(fs::file_size(file, error));
        result.replaced_utf8 += reader.replaced_utf8();
        result.dropped_ids += reader.dropped_ids();
    }
    progress.finish(fmt::format("{} texts", with_commas(result.resumed + answered)));
    if (to_skip > 0)
        throw DataError(
            fmt::format("{}: expected at most {} answers, one a text, found {}; start again with --overwrite",
                        target.partial.string(), result.resumed - to_skip, result.resumed));
    out.sync();
    out.close();
    target.finish();
    result.texts = result.resumed + answered;
    result.cut = predictor.cut_answers();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

}  // namespace elmo
