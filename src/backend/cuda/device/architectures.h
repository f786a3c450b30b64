// The architectures that the kernels were compiled for (CMAKE_CUDA_ARCHITECTURES), and what that means for a
// card.
#pragma once

#include <charconv>
#include <string_view>

namespace elmo::cuda {

// Whether machine code for a card of this compute capability is in a list like "80,90a-real,120-virtual".
// If not, the driver compiles the list's PTX when a kernel is first used. Machine code for 8.0 runs on 8.6
// and 8.9 too, but on no other major version; with an `a` at its end only on that version.
inline bool has_machine_code(std::string_view architectures, int major, int minor) {
    while (!architectures.empty()) {
        const std::size_t comma = architectures.find(',');
        std::string_view entry = architectures.substr(0, comma);
        architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 1);
        if (entry.ends_with("-virtual")) continue;
        int version = 0;
        const char* end = std::from_chars(entry.data(), entry.data() + entry.size(), version).ptr;
        const bool exact = end != entry.data() + entry.size() && *end == 'a';
        if (version / 10 == major && (exact ? version % 10 == minor : version % 10 <= minor)) return true;
    }
    return false;
}

}  // namespace elmo::cuda
