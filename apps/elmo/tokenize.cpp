// elmo tokenize: token ids of each line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "elmo/elmo.h"
#include "elmo/text_reader.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void run_tokenize(Invocation& call) {
    if (call.config.tokenizer == "auto")
        usage_error(tokenize_verb(),
                    "--tokenizer is missing: a Hugging Face folder, a tokenizer.json or a run");
    call.config.input = "text";
    const TextEncoder encoder(call.context, call.config);
    TextReader reader(call.words.empty() ? "-" : call.words[0], call.config);
    for (;;) {
        const std::vector<std::string> texts = reader.next(1024);
        if (texts.empty()) return;
        for (const std::string& text : texts) {
            const auto ids = encoder.encode(text);
            write_stdout(call.json ? fmt::format("[{}]\n", fmt::join(ids, ","))
                                   : fmt::format("{}\n", fmt::join(ids, " ")));
        }
        flush_stdout();
    }
}

}  // namespace

Verb tokenize_verb() {
    return {
        "tokenize",
        'k',
        "Print the token ids of each line",
        "--tokenizer FOLDER [FILE] [options]",
        {{"FILE", "Texts, one per line; standard input when left out or '-'"}},
        0,
        1,
        false,
        {},
        {{"elmo tokenize --tokenizer models/all-MiniLM-L6-v2 texts.txt",
          "Ids with the special tokens, separated by spaces"},
         {"elmo tokenize --tokenizer models/all-MiniLM-L6-v2 --json < texts.txt", "One JSON array per line"}},
        "Texts are cut at --max-length tokens, 128 unless it is given; training may take longer texts.",
        run_tokenize};
}

}  // namespace elmo::cli
