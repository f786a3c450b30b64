// elmo index: makes the index of a run for approximate search.
#include "elmo/index.h"

#include <fmt/format.h>

#include <charconv>

#include "elmo/messages.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void run_index(Invocation& call) {
    if (call.words.size() == 1) require_data(index_verb(), call.words[0], call.config);
    const std::string& text = call.extra.at("recall");
    double recall = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), recall);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
        usage_error(index_verb(), fmt::format("--recall: expected a number, found '{}'", quoted(text)));
    const SearchIndex index =
        build_index(call.context.with_stop(stop_on_signal()), call.words[0], call.config, recall);
    if (call.json) return write_json(index);
    write_stdout(aligned(Facts{
        {"labels", with_commas(index.labels)},
        {"of each", fmt::format("{} numbers of 4 bits; {} in all", index.dims, human_bytes(index.bytes))},
        {"scored exactly", fmt::format("{} candidates per text", with_commas(index.candidates))},
        {"recall at 1, 5, 10",
         fmt::format("{:.2f}, {:.2f}, {:.2f} % of what exact search finds, on {} other texts",
                     100 * index.recall_at_1, 100 * index.recall_at_5, 100 * index.recall_at_10,
                     with_commas(index.texts))},
        {"labels of one text",
         fmt::format("{:.2f} ms, exact search {:.2f} ms", index.approximate_ms, index.exact_ms)}}));
}

}  // namespace

Verb index_verb() {
    return {
        "index",
        'n',
        "Make the index of a run for approximate search",
        "RUN [DATA] [options]",
        {{"RUN", "Folder that elmo train wrote"},
         {"DATA",
          "Texts to make and measure the index with (also --data); left out: the run's own "
          "validation rows"}},
        1,
        2,
        true,
        {{"recall", "0.99", "Share of the five best labels that must be found"}},
        {{"elmo index runs/first", "Stored beside the checkpoint"},
         {"elmo predict runs/first texts.txt --search approximate", "Uses it"},
         {"elmo serve runs/first --search approximate", "So does the server"}},
        "Stores a sketch of every label in 4-bit numbers. Approximate search reads only the sketch and "
        "scores the most promising labels exactly, so answers have the scores of exact search, and now and "
        "then lack a label. It pays from some hundred thousand labels on, for a few texts at a time. Recall "
        "is measured on texts that did not help to make the index, stored with it and reported with every "
        "use (docs/prediction.md).",
        run_index,
        {},
        nullptr,
        nullptr,
        second_word};
}

}  // namespace elmo::cli
