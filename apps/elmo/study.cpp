// elmo study: answers questions about precision, memory and speed with tables and a page with charts.
#include "elmo/study.h"

#include <fmt/format.h>

#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

StudyRequest request_of(const Invocation& call) {
    return {call.words[0], call.config, call.extra, call.command};
}

void run_study_verb(Invocation& call) {
    if (call.config.out.empty()) usage_error(study_verb(), "--out is missing: the folder to write to");
    const StudyFiles files = run_study(call.context, request_of(call));
    if (call.json)
        write_stdout(files.content);
    else
        write_stdout(fmt::format("{}\n{}\n{}\n{}\n", files.tables, files.json, files.csv, files.html));
}

Config resolve_study_call(const Invocation& call) {
    return resolve_study(call.context, request_of(call));
}

std::string names_and_summaries() {
    std::string text;
    for (const StudyInfo& study : studies())
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", study.name, study.summary);
    return text;
}

}  // namespace

Verb study_verb() {
    return {
        "study",
        's',
        "Study precision, memory or speed: tables as JSON and CSV, and a page with charts",
        "NAME [DATA] --out FOLDER [options]",
        {{"NAME", names_and_summaries()}, {"DATA", "Data set, for studies that train"}},
        1,
        2,
        false,
        {{"values", "",
          "What the study varies, separated by commas: numbers of labels (memory) or chunks (chunks), or "
          "the steps to look at (histogram)"},
         {"measure", "", "memory: also run the steps that fit in this machine, and show the measured memory",
          true},
         {"exponents", "", "bits: numbers of exponent bits, for example 2,3,4,5,8"},
         {"mantissas", "", "bits: numbers of mantissa bits, for example 1,2,3,4,5,7"},
         {"formats", "",
          "bits: these formats instead of a grid, separated by spaces: a precision, optionally with /nearest "
          "or its noise after it: /independent, /paired, /shared, /steps or /shared-steps"},
         {"plan-only", "", "paper: what the plan of memory answers, without data and without a GPU", true},
         {"only", "", "paper: these tables and figures, separated by commas, for example T2,T10,F4"},
         {"sets", "", "paper: these data sets, separated by commas, for example amazon-3m"},
         {"data-root", "",
          "paper: a folder with data sets, each in a folder of its name (amazon-3m or Amazon-3M): they are "
          "trained and scored, the others planned"},
         {"modes", "",
          "paper: train these of bf16, fp8, fp8+kahan20, fp8+refine, renee, fp32 and e2m5, separated by "
          "commas; otherwise those of the paper's tables"},
         {"epochs-scale", "", "paper: epochs and warm-up steps of the recipes times this number"},
         {"seeds", "", "bits, paper: seeds of the runs of each cell, for example 1,2,3; otherwise --seed"}},
        {{"elmo study memory --device cuda --shape amazon-3m --precision e3m4 --out studies/memory",
          "A step of three million labels, phase by phase"},
         {"elmo study histogram data/wordnet --steps 2000 --values 1,200,2000 --out studies/histogram",
          "Exponents at three steps of a run"},
         {"elmo study chunks --labels 500000 --width 384 --batch-size 128 --out studies/chunks",
          "What chunks cost and save"},
         {"elmo study paper --plan-only --out studies/paper",
          "The ELMO paper's memory, ours beside the paper's"},
         {"elmo study paper --data-root data --device cuda --modes bf16,fp8 --out studies/paper",
          "Scores too, of the data sets in the folder data; --resume continues"},
         {"elmo study bits data/tate --seeds 1,2,3 --epochs 5 --out studies/bits",
          "Exponent bits x mantissa bits, with and without stochastic rounding; --resume continues"}},
        "Writes study.json, study.csv and study.html to FOLDER; the page opens from disk. Options are "
        "those of "
        "train, plan and bench.",
        run_study_verb,
        "tmb",
        nullptr,
        resolve_study_call,
        second_word};
}

}  // namespace elmo::cli
