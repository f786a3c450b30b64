#include "sources/detected.h"

#include <fmt/format.h>

#include "elmo/config.h"

namespace elmo {

std::string detected_line(const std::string& name, const std::vector<DetectedOption>& detected) {
    if (detected.empty()) return {};
    std::string flags;
    for (const DetectedOption& option : detected) {
        const bool plain = option.value.find_first_of(" ,;|*'\"$&<>()\\`#") == option.value.npos;
        flags += fmt::format(" {} {}", flag_of(option.key), plain ? option.value : "'" + option.value + "'");
    }
    return fmt::format("{}: read with{}, as its first rows show; give a flag to read it otherwise", name,
                       flags);
}

void say_detected(const Context& context, const Layout& layout) {
    const std::string line = detected_line(layout.shown(layout.train.text), layout.detected);
    if (!line.empty()) context.info(line);
    for (const SplitFiles* split : {&layout.test, &layout.validation})
        if (split->cells)
            context.info(
                detected_line(layout.shown(split->labels), {{"label_separator", split->cells->name()}}));
}

}  // namespace elmo
