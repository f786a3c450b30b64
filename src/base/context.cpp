#include "elmo/context.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/process_memory.h"
#include "elmo/error.h"

namespace elmo {

Context::Context() : Context(Settings()) {}

Context::Context(Settings settings)
    : settings_(std::make_shared<const Settings>(std::move(settings))),
      pool_(std::make_shared<ThreadPool>(settings_->threads)),
      start_bytes_(std::max<std::int64_t>(resident_bytes(), 0)) {}

Context Context::with_threads(std::int64_t threads) const {
    Context other = *this;
    if (threads > 0 && threads != num_threads())
        other.pool_ = std::make_shared<ThreadPool>(static_cast<int>(threads));
    return other;
}

Context Context::with_sinks(Sinks sinks) const {
    Settings settings = *settings_;
    settings.sinks = std::move(sinks);
    Context other = *this;
    other.settings_ = std::make_shared<const Settings>(std::move(settings));
    return other;
}

Context Context::with_stop(const std::atomic<bool>& stop) const {
    Settings settings = *settings_;
    settings.stop = &stop;
    Context other = *this;
    other.settings_ = std::make_shared<const Settings>(std::move(settings));
    return other;
}

void Context::info(std::string_view message) const {
    if (sinks().message) sinks().message(Severity::kInfo, message);
}
void Context::warning(std::string_view message) const {
    if (sinks().message) sinks().message(Severity::kWarning, message);
}
void Context::debug(std::string_view message) const {
    if (sinks().message) sinks().message(Severity::kDebug, message);
}

void Context::leave_if_stopped() const {
    if (stop_requested())
        throw Interrupted("stopped before anything was learnt; the same command starts again");
}

int Context::num_threads() const {
    return pool_->size();
}

}  // namespace elmo
