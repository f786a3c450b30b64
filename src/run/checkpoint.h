// A checkpoint: one folder that holds everything prediction and resuming need, replaced as one.
//
//   model.safetensors, config.json        the encoder, as transformers loads it
//   tokenizer.json, tokenizer_config.json  its tokenizer
//   head-*.safetensors                    the classifier's weights, mapped at prediction
//   linear.safetensors                    encoder linear: the whole model, instead of these two and
//                                         config.json
//   labels.txt                            label names, a line each (absent where the data has
//                                         none)
//   label_counts.safetensors              training rows of each label, for propensities
//   trained_texts.safetensors             hashes of the training texts, by which eval knows them again
//   recipe.toml                           the whole configuration
//   state.json                            where the run stands
//   optimizer.safetensors                 the encoder's optimiser (last checkpoint only)
//   head_compensation.safetensors         of the head's compensated rows (last checkpoint only)
//   momentum.safetensors                  precision renee: the head's optimiser (last checkpoint only)
//   manifest.json                         sizes and checksums of all of these
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/encoder_folder.h"
#include "elmo/config.h"
#include "io/input_folder.h"
#include "io/mmap_file.h"
#include "linear/model_file.h"
#include "model/encoder/encoder.h"
#include "model/head/head.h"
#include "run/run_state.h"
#include "run/trained_texts.h"
#include "text/tokenizer.h"

namespace elmo {

// The label side of a checkpoint.
struct LabelTable {
    std::vector<std::int64_t> counts;     // training rows of each label
    std::vector<std::string_view> names;  // empty where the data has none
};

// What goes into a checkpoint besides the run state.
struct CheckpointParts {
    const Config& config;
    const Encoder& encoder;
    const Head& head;
    const Tokenizer& tokenizer;
    std::int64_t max_length;  // of a text in tokens
    const LabelTable& labels;
    Ranks* ranks = nullptr;  // that share the head; null: this process has all of it
    const TrainedTexts* texts = nullptr;
    std::span<const float> label_weights = {};  // of training; empty: none
};

// The same of a linear model.
struct LinearParts {
    const Config& config;
    const LinearModel& model;
    const Tokenizer& tokenizer;
    std::int64_t max_length;
    const LabelTable& labels;
    const TrainedTexts* texts = nullptr;
};

// The same of a head on vectors from elsewhere: no encoder and no tokenizer.
struct VectorHeadParts {
    const Config& config;  // encoder: kVectorEncoder
    const Head& head;
    const LabelTable& labels;
};

inline constexpr const char* kHeadCompensationFile = "head_compensation.safetensors";
inline constexpr const char* kMomentumFile = "momentum.safetensors";
inline constexpr const char* kLabelWeightsFile = "label_weights.safetensors";

// How many times a positive of each label counts, as a continued run needs it. DataError if the file is not
// there or holds something else.
std::vector<float> read_label_weights(MappedFile mapped, std::int64_t labels);

// Writes the folder under a temporary name and swaps it in. If anything fails (DataError names file and
// reason), the previous checkpoint stays. `to_continue`: with what only a continued run needs, the state of
// the optimisers (of an encoder that is trained, of a head with one), the head's compensation and the weights
// of labels.
// With several ranks all call it, and the first one writes: no byte depends on their number.
void save_checkpoint(const std::filesystem::path& folder, const CheckpointParts& parts, const RunState& state,
                     bool to_continue);

void save_checkpoint(const std::filesystem::path& folder, const LinearParts& parts, const RunState& state);

void save_checkpoint(const std::filesystem::path& folder, const VectorHeadParts& parts,
                     const RunState& state);

class Checkpoint;
// A checkpoint with encoder, tokenizer and recipe of `from` by their bytes, and other labels:
// write_head(folder) writes their head. Without what only a continued run needs. Written as save_checkpoint
// does. With a configuration, that is its recipe; with texts, those are kept as trained ones.
void derive_checkpoint(const std::filesystem::path& folder, const Checkpoint& from, const LabelTable& labels,
                       const RunState& state,
                       const std::function<void(const std::filesystem::path& folder)>& write_head,
                       const Config* config = nullptr, const TrainedTexts* texts = nullptr);

// A verified checkpoint: every size and checksum agrees with its manifest. Its files stay as they were when
// it was opened, even if it is replaced meanwhile.
class Checkpoint {
  public:
    enum class Check { kAll, kAllButHead };  // the head's files may be many gigabytes

    // `run` is the folder of a run, or of one checkpoint; `which` is best or last. DataError names what is
    // missing or damaged. With kAllButHead the head's sizes are compared, not its checksums.
    Checkpoint(const std::filesystem::path& run, const std::string& which, Check check = Check::kAll);

    // Where it was found: only a name. Read its files from content().
    const std::filesystem::path& folder() const { return content_.path(); }
    const InputFolder& content() const { return content_; }
    const std::string& manifest_hash() const { return manifest_hash_; }
    // Call it when everything needed is read: it frees the disk space of a replaced checkpoint.
    void close_files() { content_.close(); }
    const RunState& state() const { return state_; }
    const Config& config() const { return config_; }
    bool has_optimizer() const { return has_optimizer_; }
    // Holds a linear model instead of an encoder and a head.
    bool is_linear() const { return content_.has(kLinearFile); }
    // Holds a head on vectors from elsewhere: no encoder and no tokenizer.
    bool takes_vectors() const { return config_.encoder == kVectorEncoder; }
    const std::vector<std::string>& files() const { return files_; }  // that the manifest names
    // Bytes of the head's files: what prediction maps.
    std::int64_t head_bytes() const { return head_bytes_; }

    std::vector<std::int64_t> read_label_counts() const;
    // Maps labels.txt; views live as long as this object.
    std::vector<std::string_view> label_names();

  private:
    InputFolder content_;
    std::string manifest_hash_;
    RunState state_;
    Config config_;
    std::vector<std::string> files_;
    bool has_optimizer_ = false;
    std::int64_t head_bytes_ = 0;
    MappedFile names_file_;
};

// ConfigError when the run is a linear model or a head on vectors, which `what` cannot work on: "refine".
void refuse_linear(const Checkpoint& checkpoint, std::string_view what);
// The same of a head on vectors alone, where texts are needed.
void refuse_vectors(const Checkpoint& checkpoint, std::string_view what);

// The encoder of a checkpoint; of a linear model one without any shape, of a head on vectors one with its
// width.
EncoderSpec stored_encoder(const Checkpoint& checkpoint);

// The configuration as a checkpoint keeps it: without the keys about where and how it was started.
std::string stored_recipe(Config config);
// In what a stored recipe makes other results than this configuration, "has seed = 42, found 9"; "" where it
// makes the same. A key that the text does not have yet means its default.
std::string other_result(const std::string& stored, const Config& config);

}  // namespace elmo
