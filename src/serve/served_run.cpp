#include "serve/served_run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/path_name.h"
#include "elmo/error.h"
#include "elmo/resolve.h"
#include "rank/index/index_file.h"
#include "run/calibration_file.h"
#include "serve/requests.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kAbsent = "-";
constexpr std::chrono::milliseconds kWarmUp{200};
constexpr const char* kText = "";  // no word that a tokenizer may not know, and of which it would warn

// Room for the largest question; a request that says less is answered with what the caller configured.
Config with_room(Config config) {
    set_option(config, "top", std::to_string(kMostTop + kMostWithout));
    config.threshold = 0;
    return config;
}

// The first batch of a size takes longer than the next ones: files are read, and a GPU loads what it runs.
// Here nobody waits for it. Where batches are slow, the first ones do.
void warm_up(Predictor& predictor, std::int64_t batch_size) {
    const auto until = std::chrono::steady_clock::now() + kWarmUp;
    for (std::int64_t size = 1; size <= batch_size && predictor.takes_texts(); size *= 2) {
        predictor.rank(predictor.tokenize(std::vector<std::string>(static_cast<std::size_t>(size), kText)),
                       {});
        if (std::chrono::steady_clock::now() > until) return;
    }
}

std::string file_stamp(const fs::path& file) {
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) return kAbsent;
    return fmt::format("{}:{}:{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                       found.st_mtim.tv_nsec);
}

}  // namespace

ServedRun::ServedRun(const Context& context, std::string folder, const Config& config,
                     std::int64_t most_texts, std::function<void(std::int64_t)> batched, Elsewhere elsewhere)
    : context_(context),
      folder_(std::move(folder)),
      name_(path_name(folder_)),
      config_(resolve_for_run(folder_, config)),
      stamp_(stamp()),
      current_(load()),
      queue_(most_texts, config_.batch_size, answer_batch, std::move(batched), std::move(elsewhere)) {}

std::shared_ptr<LoadedRun> ServedRun::current() const {
    const std::lock_guard lock(mutex_);
    return current_;
}

std::string ServedRun::stamp() const {
    const fs::path run(folder_);
    std::error_code error;
    const fs::path checkpoint = fs::exists(run / "manifest.json", error) ? run : run / config_.checkpoint;
    return file_stamp(checkpoint / "manifest.json") + file_stamp(calibration_file(checkpoint)) +
           file_stamp(index_file(checkpoint));
}

std::shared_ptr<LoadedRun> ServedRun::load() const {
    Predictor predictor(context_, folder_, with_room(config_));
    Question usual;  // of a request that says nothing: refused now, not when it comes
    usual.threshold = config_.threshold;
    predictor.predict(std::vector<std::string>(), usual);
    predictor.search_labels("", 0, 1);  // makes its index now, not while somebody waits
    warm_up(predictor, config_.batch_size);
    const std::string checkpoint = predictor.checkpoint_hash();
    return std::make_shared<LoadedRun>(LoadedRun{std::move(predictor), checkpoint});
}

bool ServedRun::reload() {
    const std::string now = stamp();
    if (now == stamp_ || now.starts_with(kAbsent)) return false;  // it may be on its way
    stamp_ = now;
    try {
        auto loaded = load();
        const std::lock_guard lock(mutex_);
        current_.swap(loaded);
        return true;
    } catch (const std::exception& error) {
        context_.warning(fmt::format("{}: the checkpoint that was loaded stays, the new one cannot be: {}",
                                     name_, error.what()));
        return false;
    }
}

}  // namespace elmo
