// Date, machine and version of a study.
#include <elmo_commit.h>  // made by the build: ELMO_COMMIT
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "elmo/version.h"
#include "study/study_files.h"

namespace elmo {
namespace {

// "2026-11-15 14:20 UTC"
std::string date_now() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
    return text;
}

// Model name and cores of the host.
std::string host_machine() {
    std::ifstream info("/proc/cpuinfo");
    std::string line, model = "unknown processor";
    while (std::getline(info, line)) {
        if (line.rfind("model name", 0) != 0) continue;
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos) model = line.substr(colon + 2);
        break;
    }
    return fmt::format("{}, {} cores", model, std::thread::hardware_concurrency());
}

}  // namespace

Provenance provenance_now(const std::string& command) {
    return {command, date_now(), host_machine(), fmt::format("elmo {} ({})", version(), ELMO_COMMIT)};
}

}  // namespace elmo
