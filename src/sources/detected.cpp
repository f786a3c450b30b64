#include "sources/detected.h"

#include <fmt/format.h>

#include "elmo/config.h"

namespace elmo {

void say_detected(const Context& context, const Layout& layout) {
    if (layout.detected.empty()) return;
    std::string flags;
    for (const DetectedOption& option : layout.detected) {
        const bool plain = option.value.find_first_of(" ,;|*'\"$&<>()\\`#") == option.value.npos;
        flags += fmt::format(" {} {}", flag_of(option.key), plain ? option.value : "'" + option.value + "'");
    }
    context.info(fmt::format("{}: read with{}, as its first rows show; give a flag to read it otherwise",
                             layout.train.text.string(), flags));
}

}  // namespace elmo
