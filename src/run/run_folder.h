// The folder of a run: whether it may be written, what a continued run takes from it.
//   RUN/best/ RUN/last/ checkpoints   RUN/log.jsonl   RUN/tensorboard/
//   RUN/recipe.toml (options of a training without a checkpoint yet)
//   RUN/scores.jsonl   RUN/label_scores.jsonl   RUN/calibration-best.json   RUN/index-best.safetensors
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "elmo/config.h"
#include "elmo/context.h"
#include "io/folder_lock.h"
#include "run/checkpoint.h"

namespace elmo {

// The part of a run's folder in which elmo refine keeps its work until it is whole.
inline constexpr const char* kRefineWork = "refine";

// Scores of the labels, which elmo report leaves in the run: the protocol, then a line per label.
inline constexpr const char* kLabelScoresFile = "label_scores.jsonl";

// DataError if an entry of the run's folder is a symbolic link: writing to it would go elsewhere.
void refuse_links(const std::filesystem::path& run);

// ConfigError when `out` is the run that is read, or the run of the checkpoint that is: overwriting removes
// what is there first.
void require_other_folder(const std::string& run, const std::string& out);

class RunFolder {
  public:
    // Checks config.out; with resume, locks it (of several ranks, only the first one) and restores a
    // checkpoint after an interrupted exchange. ConfigError when it holds something and neither resume nor
    // overwrite is set, when overwrite would delete what is not a run, or when the run to be continued is
    // being written.
    RunFolder(const Context& context, const Config& config);

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path best() const { return path_ / "best"; }
    std::filesystem::path last() const { return path_ / "last"; }
    // The checkpoint to continue from; null for a new run (also when the run stopped before it saved one).
    const Checkpoint* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }

    // Call it when the run is restored from it: frees the disk space of a replaced checkpoint.
    void close_checkpoint() {
        if (checkpoint_) checkpoint_->close_files();
    }

    // The options that are not given, of the training that stopped here before it saved a checkpoint.
    Config with_begun(Config given) const;
    // prepare() writes the options that are given, for with_begun.
    void keep_recipe(const Config& given);
    // A checkpoint has them now.
    void drop_recipe() const;

    // Creates the folder and locks it while this object lives (ConfigError if another process writes it, or
    // has written it since the check); with overwrite, removes the files of the run that was there. Nothing
    // on other ranks than the first.
    void prepare();
    // After prepare(): continues this object's run from its last checkpoint, or from the beginning if it has
    // none.
    void take_up();
    // The same from the beginning: the run replaces what was written.
    void start_over() { checkpoint_.reset(); }

  private:
    std::filesystem::path path_;
    bool overwrite_ = false;
    bool writes_ = true;  // the first rank
    std::string recipe_;  // "" for none to write
    std::optional<Checkpoint> checkpoint_;
    std::optional<FolderLock> lock_;
};

}  // namespace elmo
