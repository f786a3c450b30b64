// elmo data: imports a data set, shows what is in it, writes it in another format, and makes some from public
// sources.
#include <fmt/format.h>

#include <algorithm>

#include "data_actions.h"
#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

std::string table(const DataSummary& summary) {
    Facts facts;
    const auto text = [&](const char* name, std::string value) { facts.push_back({name, std::move(value)}); };
    const auto count = [&](const char* name, std::int64_t value) { text(name, with_commas(value)); };
    const auto count_if_any = [&](const char* name, std::int64_t value) {
        if (value > 0) count(name, value);
    };
    text("format", summary.format);
    count("training texts", summary.train_rows);
    count("test texts", summary.test_rows);
    count("labels", summary.labels);
    text("label names", summary.has_label_names ? "yes" : "no");
    text("labels per text", fmt::format("{:.2f}", summary.labels_per_row));
    text("texts per label", fmt::format("{:.2f}", summary.rows_per_label));
    if (summary.tokens_per_row > 0) {
        text("tokens per text", fmt::format("{:.1f}", summary.tokens_per_row));
        count("longest text, tokens", summary.longest_row_tokens);
    }
    count_if_any("texts cut at max_length", summary.cut_rows);
    count_if_any("texts without labels", summary.rows_without_labels);
    count_if_any("labels not in training", summary.labels_unseen_in_train);
    count_if_any("rows with replaced UTF-8", summary.replaced_utf8);
    count_if_any("merged labels", summary.merged_labels);
    count_if_any("filter pairs, training", summary.train_filter_pairs);
    count_if_any("filter pairs, test", summary.test_filter_pairs);
    if (!summary.cache.empty()) text("cache", summary.cache + (summary.cache_reused ? " (reused)" : ""));
    if (summary.import_seconds > 0) text("time", duration_text(summary.import_seconds));
    return aligned(facts);
}

void show(const Invocation& call, const DataSummary& summary) {
    if (call.json)
        write_json(summary);
    else
        write_stdout(table(summary));
}

const std::vector<std::string> kActions = {"import", "inspect",        "convert",
                                           "filter", "paper2keywords", "wordnet"};

bool names_action(const std::string& word) {
    return std::count(kActions.begin(), kActions.end(), word) > 0;
}

// Not what some data sets are made from.
std::size_t data_word_of_data(const Invocation& call) {
    if (call.words.empty() || !names_action(call.words[0])) return 0;
    return call.words[0] == "wordnet" || call.words[0] == "paper2keywords" ? call.words.size() : 1;
}

Config resolve_data(const Invocation& call) {
    return resolve_training(call.context, call.config);
}

void run_data(Invocation& call) {
    std::string action = "import";
    std::vector<std::string> rest = call.words;
    if (!rest.empty() && names_action(rest[0])) {
        action = rest[0];
        rest.erase(rest.begin());
    }
    if (action == "wordnet") {
        if (!rest.empty()) usage_error(data_verb(), fmt::format("unexpected argument '{}'", quoted(rest[0])));
        if (call.config.out.empty())
            usage_error(data_verb(), "--out is missing: the folder to write the data set to");
        return show(call, make_wordnet(call.context, call.extra.at("wordnet"), call.config));
    }
    if (rest.size() > 1)
        usage_error(data_verb(), fmt::format("expected import, inspect, convert, filter, paper2keywords or "
                                             "wordnet before DATA, found '{}'{}",
                                             quoted(rest[0]), did_you_mean(rest[0], kActions)));
    const bool writes = action == "convert" || action == "filter" || action == "paper2keywords";
    if (writes && call.config.out.empty())
        usage_error(data_verb(), "--out is missing: the folder to write to");
    if (action == "paper2keywords") {
        if (rest.empty())
            usage_error(data_verb(), "DUMP is missing; usage: elmo data paper2keywords DUMP --out FOLDER");
        return run_paper2keywords(call, rest[0]);
    }
    if (call.config.data.empty())
        usage_error(data_verb(), "DATA is missing; usage: elmo data [import|inspect|convert|filter] DATA");
    if (action == "inspect") return run_data_report(call);
    if (action == "filter") return run_filters(call);
    if (action == "convert") {
        if (call.extra.at("to").empty())
            usage_error(data_verb(), "--to is missing: the format to write, for example xmc");
        return run_conversion(call);
    }
    show(call, import_data(call.context, call.config));
}

}  // namespace

Verb data_verb() {
    return {
        "data",
        'd',
        "Import, inspect, convert or filter a data set, or make one from a public source",
        "[import|inspect|convert|filter] DATA [options] | elmo data paper2keywords DUMP --out FOLDER | elmo "
        "data wordnet --out FOLDER",
        {{"DATA",
          "Folder or file of the data set (also --data); import and inspect: '-' for standard input"}},
        0,
        2,
        false,
        {{"wordnet", "/usr/share/wordnet",
          "Folder of the WordNet 3.0 database files, for 'elmo data wordnet'"},
         {"to", "",
          "Format that 'elmo data convert' writes: xmc, pecos, jsonl-folder, raw, sparse, fasttext, tsv, csv "
          "or jsonl"},
         {"filters", "own",
          "What 'elmo data filter' writes: own (a row with the text of a label), reciprocal (a training pair "
          "in reverse), or own,reciprocal"}},
        {{"elmo data data/wordnet", "Imports into the cache, or reuses it, and prints counts"},
         {"elmo data tickets.csv --text-column subject+body --label-column tags --label-separator ';'",
          "A CSV with named columns"},
         {"elmo data inspect tickets.csv",
          "Counts, lengths, duplicates, encoding problems, and what training would cost"},
         {"elmo data convert data/wordnet --to fasttext --out data/wordnet-ft", "The same rows for fastText"},
         {"elmo data filter data/LF-Set --filters own,reciprocal --out data/LF-Set", "Filter files"},
         {"elmo data paper2keywords DBLP-Citation-network-V14.json.zip --out data/LF-Paper2Keywords-8.6M",
          "The paper's largest data set from the public dump"},
         {"elmo data wordnet --wordnet /usr/share/wordnet --out data/wordnet",
          "Words and definitions, labelled by what they are, from Debian's wordnet-base"}},
        "",
        run_data,
        {},
        nullptr,
        resolve_data,
        data_word_of_data};
}

}  // namespace elmo::cli
