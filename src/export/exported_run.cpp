#include "export/exported_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backend/host_backend.h"
#include "base/progress.h"
#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/safetensors.h"
#include "io/atomic_file.h"
#include "io/output_file.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kRowsAtOnce = 4096;

}  // namespace

void read_label_vectors(const Context& context, const ExportedRun& run, const TakeRows& take) {
    const std::int64_t labels = run.head.layout.rows();
    Progress progress(context, "writing label vectors", labels, "labels");
    std::vector<std::int64_t> rows;
    for (std::int64_t first = 0; first < labels; first += kRowsAtOnce) {
        context.leave_if_stopped();
        rows.resize(static_cast<std::size_t>(std::min(kRowsAtOnce, labels - first)));
        std::iota(rows.begin(), rows.end(), first);
        take(read_head_rows(run.checkpoint.content(), rows));
        progress.update(first + static_cast<std::int64_t>(rows.size()));
    }
    progress.finish();
}

std::vector<StoredTensor> encoder_tensors(const EncoderSpec& spec) {
    const auto backend = make_reference_backend();  // computes nothing: the table of parameters asks for one
    const auto encoder = make_encoder(spec, *backend);
    std::vector<StoredTensor> tensors;
    for (const Parameter& parameter : encoder->parameters())
        tensors.insert(tensors.end(), parameter.stored.begin(), parameter.stored.end());
    return tensors;
}

void read_encoder_tensors(const ExportedRun& run, const std::function<void(const EncoderTensor&)>& take) {
    const SafeTensorsFolder files = open_safetensors_folder(run.checkpoint.content());
    for (const StoredTensor& stored : encoder_tensors(run.encoder)) {
        const TensorInfo& found = files.at(stored.name);
        if (found.shape != stored.shape)
            throw DataError(fmt::format(
                "{}: tensor '{}': expected shape [{}], found {}: do weights and config.json belong together?",
                files.name(), stored.name, fmt::join(stored.shape, ", "), found.shape_text()));
        EncoderTensor tensor{stored.name, stored.shape,
                             std::vector<float>(static_cast<std::size_t>(found.num_elements()))};
        read_tensor(found, tensor.values);
        take(tensor);
    }
}

void copy_files(const ExportedRun& run, const std::vector<std::string>& names, const fs::path& to) {
    for (const std::string& name : names) {
        OutputFile file(to / name, OutputFile::Open::kExclusive);
        file.write(run.checkpoint.content().map(name).bytes());
        file.close();
    }
}

void write_label_names(ExportedRun& run, const fs::path& path) {
    const std::vector<std::string_view> names = run.checkpoint.label_names();
    AtomicFile file(path);
    for (std::int64_t label = 0; label < run.checkpoint.state().labels; ++label) {
        file.write(names.empty() ? std::string_view(std::to_string(label))
                                 : names[static_cast<std::size_t>(label)]);
        file.write("\n");
    }
    file.commit();
}

void require_transformer(const ExportedRun& run, const std::string& to) {
    if (run.encoder.is_bag())
        throw ConfigError(
            fmt::format("{}: expected a run with a transformer for --to {}, found encoder bag, which only "
                        "elmo computes; of this run --to numpy exports the label vectors, and the text "
                        "vectors come from elmo (Predictor.embed in Python, /v1/embed of elmo serve)",
                        run.checkpoint.folder().string(), to));
}

void take_one_window(ExportedRun& run, ExportResult& result, std::string_view what) {
    if (run.encoder.window == 0) return;
    run.max_length = run.encoder.window;
    result.notes.push_back(
        fmt::format("this run reads longer texts in windows of {} tokens; {}", run.encoder.window, what));
}

std::string notes_text(const ExportResult& result) {
    std::string text;
    for (const std::string& note : result.notes) text += "\nNote: " + note + ".\n";
    return text;
}

}  // namespace elmo
