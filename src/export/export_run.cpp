// The folder of an export: what it may replace, and that it appears whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/path_name.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "export/exported_run.h"
#include "io/atomic_folder.h"
#include "run/run_folder.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

using Export = void (*)(const Context&, ExportedRun&, const fs::path&, ExportResult&);
constexpr std::array<std::pair<const char*, Export>, 3> kKinds = {
    {{"numpy", export_numpy},
     {"sentence-transformers", export_sentence_transformers},
     {"onnx", export_onnx}}};

// Every name that an export writes: a folder with others is not replaced.
constexpr std::array<std::string_view, 13> kWritten = {"1_Pooling",
                                                       "README.md",
                                                       "config.json",
                                                       "config_sentence_transformers.json",
                                                       "labels.npy",
                                                       "labels.txt",
                                                       "model.onnx",
                                                       "model.onnx.data",
                                                       "model.safetensors",
                                                       "modules.json",
                                                       "sentence_bert_config.json",
                                                       "tokenizer.json",
                                                       "tokenizer_config.json"};

void check_out(const std::string& run, const Config& config) {
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the exported files, found none; give --out FOLDER");
    require_other_folder(run, config.out);
    std::error_code error;
    if (!fs::exists(config.out, error)) return;
    if (!fs::is_directory(config.out, error))
        throw ConfigError(fmt::format("out: expected a folder, found the file {}", config.out));
    for (const auto& entry : fs::directory_iterator(config.out)) {
        const std::string name = entry.path().filename().string();
        if (!config.overwrite)
            throw ConfigError(
                fmt::format("out: {} is not empty; give another folder, or --overwrite", config.out));
        if (std::find(kWritten.begin(), kWritten.end(), name) == kWritten.end())
            throw ConfigError(
                fmt::format("overwrite: {} holds '{}', which is not part of an export; give another folder",
                            config.out, quoted(name)));
    }
}

Export kind_of(const std::string& to) {
    for (const auto& [name, kind] : kKinds)
        if (to == name) return kind;
    throw ConfigError(
        fmt::format("to: expected numpy, sentence-transformers or onnx, found '{}'", quoted(to)));
}

ExportedRun open_run(const Context& context, const std::string& path, const Config& config,
                     const std::string& to) {
    Checkpoint checkpoint(path, config.checkpoint);
    if (checkpoint.is_linear())
        throw ConfigError(fmt::format(
            "{}: expected a run with an encoder for --to {}, found a linear model, which has no vectors of "
            "labels or texts; a run of --encoder bag exports to numpy, one of a transformer to all",
            checkpoint.folder().string(), to));
    if (to != "numpy") refuse_vectors(checkpoint, fmt::format("--to {}", to));
    EncoderSpec encoder = stored_encoder(checkpoint);
    HeadSpec head = stored_head(checkpoint.content());
    if (head.layout.rows() != checkpoint.state().labels || head.width != encoder.width)
        throw DataError(fmt::format("{}: expected a head of {} labels and width {}, found {} and {}",
                                    checkpoint.folder().string(), checkpoint.state().labels, encoder.width,
                                    head.layout.rows(), head.width));
    const Config stored = with_usual_numbers(checkpoint.config());
    const std::int64_t max_length =
        checkpoint.takes_vectors() ? 0 : cut_length(context, stored.max_length, encoder);
    return {std::move(checkpoint), std::move(encoder), std::move(head), max_length,
            path_name(path),       config.top};
}

}  // namespace

ExportResult export_run(const Context& context, const std::string& path, const std::string& to,
                        const Config& config) {
    validate(config);
    const Export kind = kind_of(to);
    check_out(path, config);
    ExportedRun run = open_run(context, path, config, to);
    ExportResult result;
    result.to = to;
    result.out = config.out;
    result.labels = run.head.layout.rows();
    result.width = run.head.width;
    AtomicFolder folder(config.out);
    kind(context, run, folder.path(), result);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
        if (entry.is_regular_file())
            result.files.push_back({entry.path().lexically_relative(folder.path()).string(),
                                    static_cast<std::int64_t>(entry.file_size())});
    std::sort(result.files.begin(), result.files.end(),
              [](const ExportedFile& a, const ExportedFile& b) { return a.name < b.name; });
    folder.commit();
    return result;
}

}  // namespace elmo
