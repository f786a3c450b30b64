#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <fstream>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo::cpu {
namespace {

#if defined(__x86_64__)
// AMX needs the processor's feature and the kernel's permission to keep tile state. Virtual machines
// exist that show the first without granting the second.
bool amx_usable() {
    if (!__builtin_cpu_supports("avx512f")) return false;
    unsigned eax = 7, ebx = 0, ecx = 0, edx = 0;
    asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    const bool has_tile_and_bf16 = (edx & (1u << 24)) != 0 && (edx & (1u << 22)) != 0;
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    return has_tile_and_bf16 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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

std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    std::string line;
    while (std::getline(in, line))
        if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
    return "unknown processor";
}

}  // namespace elmo::cpu
