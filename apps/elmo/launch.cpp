#include "launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "elmo/ranks.h"

namespace elmo::cli {
namespace {

std::unique_ptr<Launch> g_launch;  // one per process, as MPI is

bool is_shared(const std::string& verb, const std::string& word) {
    if (verb == "inspect") return is_about_ranks(word);
    if (verb == "bench") return word == "step";
    return verb == "train" || verb == "eval" || verb == "predict" || verb == "calibrate";
}

// A launcher that binds its ranks has divided the cores already.
int threads_of(const Ranks& ranks) {
    cpu_set_t mask;
    const int all = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
    const int bound = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : all;
    return bound < all ? bound : std::max(1, all / ranks.local_size());
}

}  // namespace

bool is_about_ranks(const std::string& word) {
    std::error_code error;
    return word == "ranks" && !std::filesystem::exists(word, error);
}

bool may_take_part(const std::string& verb) {
    return is_shared(verb, "ranks") || is_shared(verb, "step") || launched_as().rank == 0;
}

bool takes_part(const std::string& verb, const std::string& word) {
    return is_shared(verb, word) || launched_as().rank == 0;
}

Context launched_context(const std::string& verb, const std::string& word, Sinks sinks) {
    const LaunchedAs as = launched_as();
    if (as.size == 1 || !is_shared(verb, word)) return Context({.sinks = std::move(sinks)});
    if (!g_launch) g_launch = std::make_unique<Launch>(as);
    const std::shared_ptr<Ranks>& ranks = g_launch->ranks();
    Context::Settings settings;
    settings.threads = threads_of(*ranks);
    settings.sinks = ranks->is_first() ? std::move(sinks) : silent();
    settings.device = ranks->local_rank();
    settings.ranks = ranks;
    return Context(settings);
}

void limit_silence(double seconds) {
    if (g_launch) g_launch->set_timeout(seconds);
}

bool is_first_rank() {
    return !g_launch || g_launch->ranks()->is_first();
}

void finish_launch() {
    if (g_launch) g_launch->finish();
}

void fail_launch(int status, std::string_view message) noexcept {
    if (g_launch) g_launch->fail(status, message);
}

}  // namespace elmo::cli
