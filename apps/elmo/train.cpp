// elmo train: trains a run and prints a summary.
#include <fmt/format.h>
#include <malloc.h>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "launch.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string table(const TrainResult& result, const Config& config) {
    const bool in_steps = result.last_loss > 0;  // a linear model is solved, not stepped
    Facts facts = {{"run", config.out}};
    if (in_steps)
        facts.push_back({"steps", fmt::format("{} ({:.4g} epoch{})", with_commas(result.steps), result.epochs,
                                              result.epochs == 1 ? "" : "s")});
    facts.push_back({"training time", duration_text(result.train_seconds) +
                                          (in_steps ? " in steps; validating and saving come on top" : "")});
    if (result.texts_per_second > 0)  // a finished run that is continued trains nothing
        facts.push_back({"speed", fmt::format("{:.0f} texts/s", result.texts_per_second)});
    if (in_steps)
        facts.push_back({"last loss", fmt::format("{:.3g} per text and label", result.last_loss_per_label)});
    if (result.best_step > 0 && result.select != "last")
        facts.push_back(
            {fmt::format("{} of best/ on validation", result.select),
             fmt::format("{:.2f}", result.best_score) +
                 (in_steps ? fmt::format(" (step {})", with_commas(result.best_step)) : std::string())});
    facts.push_back({"peak memory, planned", human_bytes(result.planned.total_bytes())});
    facts.push_back({"peak memory, measured", measured_memory(result.measured_peak_bytes, result.planned)});
    if (result.saturations > 0) facts.push_back({"saturated weights", with_commas(result.saturations)});
    if (result.skipped_steps > 0)
        facts.push_back(
            {"skipped steps", with_commas(result.skipped_steps) + " of the encoder (gradients beyond FP16)"});
    if (result.interrupted)
        facts.push_back(
            {"stopped early", in_steps ? "continue with --resume" : "--resume trains from the beginning"});
    return aligned(facts);
}

// Large arrays go back to the system when they are freed. By itself glibc keeps more and more of them, which
// took the linear model a third more memory than it uses.
void give_back_large_arrays() {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

void run_train(Invocation& call) {
    give_back_large_arrays();
    const bool has_run = call.config.resume || !call.config.init.empty();  // which knows its data
    if (call.config.data.empty() && !has_run)
        usage_error(train_verb(), "DATA is missing; usage: elmo train DATA --out RUN");
    if (call.config.out.empty())
        usage_error(train_verb(), "--out is missing: the folder to write the run to");
    const TrainResult result = train(call.context.with_stop(stop_on_signal()), call.config);
    if (!is_first_rank()) return;
    if (call.json)
        write_json(result);
    else
        write_stdout(table(result, call.config));
    if (result.interrupted && result.steps == 0) throw Interrupted("train: stopped before there was a model");
}

Config resolve_train(const Invocation& call) {
    return resolve_training(call.context, call.config);
}

}  // namespace

Verb train_verb() {
    return {
        "train",
        't',
        "Train a classifier on a data set",
        "DATA --out RUN [options]",
        {{"DATA",
          "Folder or file of the data set (also --data; with --resume the run's own when left out); '-': "
          "standard input, kept in the user's cache"}},
        0,
        1,
        false,
        {},
        {{"elmo train data/wordnet --out runs/first", "The linear model on a CPU; nothing else to choose"},
         {"elmo train --out runs/first --resume", "Continue where it stopped, bit for bit"},
         {"elmo train more.csv --out runs/second --init runs/first --epochs 3",
          "Train a run on: new rows, new labels or more epochs, in a new folder (not a linear run)"},
         {"mpirun -n 4 elmo train data/wordnet --out runs/first --encoder bag",
          "Four processes; it continues on any number of them, with the same bytes (docs/cluster.md)"},
         {"elmo train tickets.tsv --out runs/tickets --precision e3m4 --epochs 20",
          "One plain file of text<TAB>label,label lines; 8-bit weights"},
         {"elmo train data/wordnet --out runs/minilm --encoder models/all-MiniLM-L6-v2 --max-memory 8GiB",
          "Fine-tune a Hugging Face encoder within a memory budget"}},
        "Imports the data (or reuses the cache), trains, validates, and keeps the best and the last "
        "checkpoint in RUN beside the run log. Ctrl-C, SIGTERM or SIGUSR1 finishes the step, saves and "
        "ends with status 0 (130 where nothing was learnt yet); a second one ends at once.",
        run_train,
        {},
        nullptr,
        resolve_train,
        first_word,
        " (texts and labels in two files: name a folder that holds them as train_raw_texts.txt and "
        "train_labels.txt; training and test rows: as NAME_train and NAME_test; see docs/formats.md)"};
}

}  // namespace elmo::cli
