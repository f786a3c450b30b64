// A run that is served: its current checkpoint, which may be replaced while requests are answered, and its
// queue.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "elmo/config.h"
#include "elmo/context.h"
#include "serve/batch_queue.h"

namespace elmo {

class ServedRun {
  public:
    // Loads the run. DataError and the like as Predictor.
    ServedRun(const Context& context, std::string folder, const Config& config, std::int64_t most_texts,
              std::function<void(std::int64_t texts)> batched, Elsewhere elsewhere);

    const std::string& name() const { return name_; }
    const std::string& folder() const { return folder_; }
    const Config& config() const { return config_; }
    std::shared_ptr<LoadedRun> current() const;
    // Takes a new checkpoint if there is one; false if there is none, or if it cannot be loaded, which is
    // reported once. One thread at a time.
    bool reload();
    BatchQueue& queue() { return queue_; }
    const BatchQueue& queue() const { return queue_; }

  private:
    // What changes when the checkpoint, its calibration or its index is replaced.
    std::string stamp() const;
    std::shared_ptr<LoadedRun> load() const;

    Context context_;
    std::string folder_, name_;
    Config config_;
    std::string stamp_;
    mutable std::mutex mutex_;  // of current_
    std::shared_ptr<LoadedRun> current_;
    BatchQueue queue_;  // ends first: its jobs hold the runs
};

}  // namespace elmo
