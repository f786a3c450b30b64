#include "run/checkpoint.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/nearest_file.h"
#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "config/rows_path.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "io/atomic_file.h"
#include "io/atomic_folder.h"
#include "io/checksum.h"
#include "io/links.h"
#include "run/manifest.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kState = "state.json";
constexpr const char* kRecipe = "recipe.toml";
constexpr const char* kNames = "labels.txt";
constexpr const char* kCounts = "label_counts.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";

bool is_head(const std::string& name) {
    return name.rfind("head-", 0) == 0;
}

void write_names(const fs::path& file, const std::vector<std::string_view>& names) {
    AtomicFile out(file);
    for (const std::string_view name : names) {
        if (name.find('\n') != std::string_view::npos)
            throw DataError(fmt::format("label name '{}' has a line end in it", quoted(name)));
        out.write(name);
        out.write("\n");
    }
    out.commit();
}

void write_counts(const fs::path& file, const std::vector<std::int64_t>& counts) {
    SafeTensorsWriter out(file, {{"counts", "I64", {static_cast<std::int64_t>(counts.size())}}});
    out.write("counts", std::span<const std::int64_t>(counts));
    out.commit();
}

constexpr const char* kWeightsTensor = "weights";

void write_label_weights(const fs::path& file, std::span<const float> weights) {
    SafeTensorsWriter out(file, {{kWeightsTensor, "F32", {static_cast<std::int64_t>(weights.size())}}});
    out.write(kWeightsTensor, weights);
    out.commit();
}

// What every checkpoint has.
template <class Parts>
void write_common(const fs::path& path, const Parts& parts, const RunState& state) {
    if constexpr (requires { parts.tokenizer; }) save_tokenizer(path, parts.tokenizer, parts.max_length);
    if (!parts.labels.names.empty()) write_names(path / kNames, parts.labels.names);
    write_counts(path / kCounts, parts.labels.counts);
    if constexpr (requires { parts.texts; })
        if (parts.texts != nullptr) parts.texts->save(path / kTrainedTextsFile);
    write_file_atomically(path / kRecipe, stored_recipe(parts.config));
    write_file_atomically(path / kState, state_text(state));
}

bool is_shared(const CheckpointParts& parts) {
    return parts.ranks != nullptr && parts.ranks->size() > 1;
}

// The files of which the ranks have a part each: the first one (with a folder) writes, the others send.
void write_shared_files(const fs::path* path, const CheckpointParts& parts, bool to_continue) {
    parts.head.save_shared(path, *parts.ranks);
    if (!to_continue) return;
    const auto file = [&](const char* name) { return path != nullptr ? *path / name : fs::path(); };
    const fs::path compensation = file(kHeadCompensationFile), optimizer = file(kOptimizer);
    parts.head.compensation().save_shared(path != nullptr ? &compensation : nullptr, *parts.ranks);
    if (!parts.config.freeze_encoder)
        parts.encoder.save_state_shared(path != nullptr ? &optimizer : nullptr, *parts.ranks);
}

void write_files(const fs::path& path, const CheckpointParts& parts, const RunState& state,
                 bool to_continue) {
    parts.encoder.save_weights(path);
    if (is_shared(parts))
        write_shared_files(&path, parts, to_continue);
    else
        parts.head.save(path);
    write_common(path, parts, state);
    if (!to_continue) return;
    if (!parts.config.freeze_encoder && !is_shared(parts)) parts.encoder.save_state(path / kOptimizer);
    if (parts.head.compensation().rows() > 0 && !is_shared(parts))
        parts.head.compensation().save(path / kHeadCompensationFile);
    if (parts.head.renee() != nullptr) parts.head.renee()->save(path / kMomentumFile);
    if (!parts.label_weights.empty()) write_label_weights(path / kLabelWeightsFile, parts.label_weights);
}

// A run's folder has best/ and last/; a checkpoint's folder has a manifest itself.
fs::path find_checkpoint(const fs::path& run, const std::string& which) {
    std::error_code error;
    if (!fs::is_directory(run, error))
        throw DataError(fmt::format("{}: expected the folder of a run, found {}", run.string(),
                                    fs::exists(run, error) ? "a file" : "nothing" + did_you_mean_file(run)));
    if (fs::exists(run / "manifest.json", error)) return run;
    const fs::path folder = run / which;
    refuse_link(folder);
    recover_folder(folder);
    refuse_link(folder);  // what was put back
    if (fs::is_directory(folder, error)) return folder;
    for (const char* other : {"best", "last"})
        if (fs::is_directory(run / other, error))
            throw DataError(fmt::format(
                "{}: expected a checkpoint '{}', found none; this run has {}: give --checkpoint {}",
                run.string(), quoted(which), other, other));
    throw DataError(fmt::format("{}: expected a checkpoint '{}', found none; has this run saved one yet?",
                                run.string(), quoted(which)));
}

}  // namespace

std::string stored_recipe(Config config) {
    config.out.clear();
    config.resume = config.overwrite = false;
    return to_recipe(config);
}

std::string other_result(const std::string& stored, const Config& config) {
    Config was, is;
    try {
        parse_recipe(was, stored, "recipe");
        parse_recipe(is, stored_recipe(config), "recipe");
    } catch (const ConfigError&) {
        return "is of a version with other options";
    }
    for (const OptionInfo& option : options()) {
        const std::string before = get_option(was, option.key), now = get_option(is, option.key);
        // A score alone does not tell on which data it was measured, nor with which counts.
        const bool counts = option.key == "data" || option.key == "propensity_counts";
        if (before != now && (counts || changes_results(option, before, now)))
            return is_rows_path(before) && is_rows_path(now)
                       ? fmt::format("has other rows from memory as {}", option.key)
                       : fmt::format("has {} = {}, found {}", option.key, before, now);
    }
    return {};
}

namespace {

// The replaced folder is deleted, so it must be a checkpoint.
void require_replaceable(const fs::path& target) {
    refuse_link(target);
    std::error_code error;
    if (fs::is_directory(target, error) && !fs::is_empty(target, error) &&
        !fs::exists(target / "manifest.json", error))
        throw DataError(fmt::format("{}: expected a checkpoint to replace, found a folder of other files",
                                    target.string()));
}

template <class WriteFiles>
void replace_checkpoint(const fs::path& target, const WriteFiles& write) {
    try {
        require_replaceable(target);
        AtomicFolder folder(target);
        write(folder.path());
        write_manifest(folder.path());
        folder.commit();
    } catch (const DataError& error) {
        throw DataError(
            fmt::format("{}: not saved, what was there stays: {}", target.string(), error.what()));
    }
}

void copy_to(const MappedFile& from, const fs::path& to) {
    OutputFile file(to, OutputFile::Open::kExclusive);
    file.write(from.bytes());
    file.close();
}

}  // namespace

void save_checkpoint(const fs::path& target, const CheckpointParts& parts, const RunState& state,
                     bool to_continue) {
    if (is_shared(parts) && !parts.ranks->is_first())
        write_shared_files(nullptr, parts, to_continue);
    else
        replace_checkpoint(target,
                           [&](const fs::path& folder) { write_files(folder, parts, state, to_continue); });
    if (is_shared(parts)) parts.ranks->barrier();  // then it is there for all
}

void save_checkpoint(const fs::path& target, const LinearParts& parts, const RunState& state) {
    replace_checkpoint(target, [&](const fs::path& folder) {
        save_linear_model(folder, parts.model);
        write_common(folder, parts, state);
    });
}

void save_checkpoint(const fs::path& target, const VectorHeadParts& parts, const RunState& state) {
    replace_checkpoint(target, [&](const fs::path& folder) {
        parts.head.save(folder);
        write_common(folder, parts, state);
    });
}

void refuse_vectors(const Checkpoint& checkpoint, std::string_view what) {
    if (checkpoint.takes_vectors())
        throw ConfigError(fmt::format(
            "{}: {} needs texts, found a head on vectors from elsewhere, which has no encoder; 'elmo "
            "predict RUN --vectors FILE' and 'elmo serve' take its vectors",
            checkpoint.folder().string(), what));
}

void refuse_linear(const Checkpoint& checkpoint, std::string_view what) {
    refuse_vectors(checkpoint, what);
    if (checkpoint.is_linear())
        throw ConfigError(fmt::format(
            "{}: {} needs a run with an encoder, found a linear model; train one with --encoder bag",
            checkpoint.folder().string(), what));
}

EncoderSpec stored_encoder(const Checkpoint& checkpoint) {
    if (!checkpoint.is_linear() && !checkpoint.takes_vectors())
        return read_encoder_spec(checkpoint.content());
    EncoderSpec spec;
    spec.family = checkpoint.is_linear() ? kLinearEncoder : kVectorEncoder;
    if (checkpoint.takes_vectors()) spec.width = stored_head(checkpoint.content()).width;
    return spec;
}

std::vector<float> read_label_weights(MappedFile mapped, std::int64_t labels) {
    const SafeTensors file = SafeTensors::open(std::move(mapped));
    const TensorInfo& stored = file.at(kWeightsTensor);
    if (stored.dtype != "F32" || stored.shape != std::vector<std::int64_t>{labels})
        throw DataError(fmt::format("{}: expected F32 weights [{}], found {} {}", file.file(), labels,
                                    stored.dtype, stored.shape_text()));
    std::vector<float> weights(static_cast<std::size_t>(labels));
    std::memcpy(weights.data(), stored.data.data(), stored.data.size());
    return weights;
}

void derive_checkpoint(const fs::path& target, const Checkpoint& from, const LabelTable& labels,
                       const RunState& state, const std::function<void(const fs::path& folder)>& write_head,
                       const Config* config, const TrainedTexts* texts) {
    replace_checkpoint(target, [&](const fs::path& folder) {
        for (const std::string& name : from.files())
            if (!is_head(name) && name != kState && name != kNames && name != kCounts && name != kOptimizer &&
                name != kHeadCompensationFile && name != kMomentumFile && name != kLabelWeightsFile &&
                (name != kTrainedTextsFile || texts == nullptr))
                copy_to(from.content().map(name), folder / name);
        if (!labels.names.empty()) write_names(folder / kNames, labels.names);
        write_counts(folder / kCounts, labels.counts);
        if (texts != nullptr) texts->save(folder / kTrainedTextsFile);
        if (config != nullptr) write_file_atomically(folder / kRecipe, stored_recipe(*config));
        write_file_atomically(folder / kState, state_text(state));
        write_head(folder);
    });
}

Checkpoint::Checkpoint(const fs::path& run, const std::string& which, Check check)
    : content_(pin_manifest(find_checkpoint(run, which))) {
    bool has_state = false, has_recipe = false;
    const auto trusted = [&](const std::string& name) {
        return check == Check::kAllButHead && is_head(name);
    };
    for (const ManifestFile& file : check_manifest(content_, trusted)) {
        has_state |= file.name == kState;
        has_recipe |= file.name == kRecipe;
        has_optimizer_ |= file.name == kOptimizer;
        if (is_head(file.name)) head_bytes_ += file.bytes;
        files_.push_back(file.name);
    }
    if (!has_state || !has_recipe)
        throw DataError(fmt::format("{}: expected {} and {} in the manifest; the checkpoint is damaged",
                                    folder().string(), kState, kRecipe));
    state_ = read_state(read_json(content_, kState), (content_ / kState).string());
    config_ = parse_run_recipe(content_.read(kRecipe), (content_ / kRecipe).string());
    manifest_hash_ = hash_text(content_.hash("manifest.json"));
}

std::vector<std::int64_t> Checkpoint::read_label_counts() const {
    const SafeTensors file = SafeTensors::open(content_.map(kCounts));
    const TensorInfo& tensor = file.at("counts");
    if (tensor.dtype != "I64" || tensor.num_elements() != state_.labels)
        throw DataError(fmt::format("{}: expected {} counts of I64, found {} {}", file.file(), state_.labels,
                                    tensor.dtype, tensor.shape_text()));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(state_.labels));
    std::memcpy(counts.data(), tensor.data.data(), tensor.data.size());
    std::int64_t sum = 0;  // which others compute too
    for (const std::int64_t count : counts) {
        if (count < 0 || count > (std::int64_t{1} << 53) - sum)
            throw DataError(fmt::format("{}: expected counts of texts, found {}", file.file(), count));
        sum += count;
    }
    return counts;
}

std::vector<std::string_view> Checkpoint::label_names() {
    std::vector<std::string_view> names;
    if (!content_.has(kNames)) return names;
    names_file_ = content_.map(kNames);
    const auto bytes = names_file_.bytes();
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        names.push_back(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    if (static_cast<std::int64_t>(names.size()) != state_.labels)
        throw DataError(fmt::format("{}: expected {} label names, found {}", (content_ / kNames).string(),
                                    state_.labels, names.size()));
    return names;
}

}  // namespace elmo
