// elmo export: a run for other tools.
#include "elmo/export.h"

#include <fmt/format.h>

#include "elmo/messages.h"
#include "output.h"
#include "stop_signal.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void run_export(Invocation& call) {
    const std::string& to = call.extra.at("to");
    if (to.empty()) usage_error(export_verb(), "--to is missing: numpy, sentence-transformers or onnx");
    if (call.config.out.empty())
        usage_error(export_verb(), "--out is missing: the folder to write the exported files to");
    const ExportResult result =
        export_run(call.context.with_stop(stop_on_signal()), call.words[0], to, call.config);
    for (const std::string& note : result.notes) call.context.warning(note);
    if (call.json) return write_json(result);
    Facts facts = {
        {"folder", result.out}, {"labels", with_commas(result.labels)}, {"width", with_commas(result.width)}};
    for (const ExportedFile& file : result.files) facts.push_back({file.name, human_bytes(file.bytes)});
    write_stdout(aligned(facts));
}

}  // namespace

Verb export_verb() {
    return {
        "export",
        'o',
        "Write a run for other tools: NumPy, sentence-transformers, ONNX",
        "RUN --to numpy|sentence-transformers|onnx --out FOLDER [options]",
        {{"RUN", "Folder that elmo train wrote"}},
        1,
        1,
        true,
        {{"to", "",
          "numpy: label vectors and names; sentence-transformers: the encoder; onnx: the whole model, from "
          "token ids to the best labels"}},
        {{"elmo export runs/first --to numpy --out vectors", "labels.npy, labels.txt"},
         {"elmo export runs/first --to sentence-transformers --out encoder",
          "A folder that SentenceTransformer('encoder') loads"},
         {"elmo export runs/first --to onnx --out model --top 10",
          "model.onnx with its weights, for onnxruntime; ten labels per text unless k is given"}},
        "The folder has a README.md with the lines of Python that use it (docs/export.md). numpy takes "
        "runs of every encoder but linear; the others take runs of a transformer.",
        run_export};
}

}  // namespace elmo::cli
