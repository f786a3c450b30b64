#include "base/process_memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

namespace elmo {
namespace {

// The value in bytes of a "Name:   123 kB" line, or -1.
std::int64_t proc_field(const char* path, const std::string& name) {
    std::ifstream in(path);
    std::string line;
    while (std::getline(in, line)) {
        if (line.rfind(name + ":", 0) != 0) continue;
        long long kib = -1;
        if (std::sscanf(line.c_str() + name.size() + 1, "%lld", &kib) == 1) return kib * 1024;
    }
    return -1;
}

std::int64_t number_in(const char* path) {
    std::ifstream in(path);
    std::int64_t value = -1;
    if (in >> value) return value;
    return -1;
}

}  // namespace

std::int64_t available_memory_bytes() {
    std::int64_t available = proc_field("/proc/meminfo", "MemAvailable");
    if (available < 0) available = std::numeric_limits<std::int64_t>::max();
    const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max");
    const std::int64_t used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0) available = std::min(available, std::max<std::int64_t>(limit - used, 0));
    return available;
}

std::int64_t peak_resident_bytes() {
    return proc_field("/proc/self/status", "VmHWM");
}
std::int64_t resident_bytes() {
    return proc_field("/proc/self/status", "VmRSS");
}

}  // namespace elmo
