#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <oneapi/dnnl/dnnl.hpp>

#include <fstream>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo::cpu {
namespace {

#if defined(__x86_64__)
// AMX needs the processor's feature, a palette of tiles and the kernel's permission to keep their state.
// Virtual machines exist that show the first and the last without the palette: there every tile
// instruction is illegal, and a library that asks only for the feature crashes.
bool amx_usable() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    const bool has_tile_and_bf16 = (edx & (1u << 24)) != 0 && (edx & (1u << 22)) != 0;
    if (!has_tile_and_bf16 || __get_cpuid_count(0x1d, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    const bool has_palette = eax >= 1;
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return has_palette && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool avx512_bf16() {
    return __builtin_cpu_supports("avx512bf16") != 0;
}
bool is_amd() {
    return __builtin_cpu_is("amd") != 0;
}
#else
bool amx_usable() {
    return false;
}
bool avx512_bf16() {
    return false;
}
bool is_amd() {
    return false;
}
#endif

struct Machine {
    bool amx = amx_usable();
    bool bf16_dot = avx512_bf16();
    Machine() {
        if (!amx)
            dnnl::set_max_cpu_isa(bf16_dot ? dnnl::cpu_isa::avx512_core_bf16
                                           : dnnl::cpu_isa::avx512_core_vnni);
    }
};

const Machine& machine() {
    static const Machine the_machine;
    return the_machine;
}

}  // namespace

Products choose_products(const std::string& wanted) {
    const Machine& m = machine();
    const bool can_bf16 = m.amx || m.bf16_dot;
    if (wanted == "fp32") return Products::kFp32;
    if (wanted == "bf16") {
        if (!can_bf16)
            throw ConfigError(fmt::format(
                "cpu_products: this processor ({}) has no BF16 dot-product instructions; use fp32",
                processor_name()));
        return Products::kBf16;
    }
    if (wanted != "auto")
        throw ConfigError(
            fmt::format("cpu_products: expected auto, bf16 or fp32, found '{}'", quoted(wanted)));
    return m.amx || (m.bf16_dot && is_amd()) ? Products::kBf16 : Products::kFp32;
}

bool has_tiles() {
    return machine().amx;
}

std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    std::string line;
    while (std::getline(in, line))
        if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
    return "unknown processor";
}

}  // namespace elmo::cpu
