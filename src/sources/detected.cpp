#include "sources/detected.h"

#include <fmt/format.h>

#include <set>

#include "elmo/config.h"
#include "io/line_reader.h"
#include "sources/records/record.h"

namespace elmo {

std::string detected_line(const std::string& name, const std::vector<DetectedOption>& detected) {
    if (detected.empty()) return {};
    std::string flags;
    for (const DetectedOption& option : detected) {
        const bool plain = option.value.find_first_of(" ,;|*'\"$&<>()\\`#") == option.value.npos;
        flags += fmt::format(" {} {}", flag_of(option.key), plain ? option.value : "'" + option.value + "'");
    }
    return fmt::format("{}: read with{}, as its first rows show; give your own to read it otherwise", name,
                       flags);
}

std::string utf8_line(const std::string& name) {
    return fmt::format("{}: rows that are UTF-8 are read so, in spite of --encoding latin-1", name);
}

namespace {

bool begins_with_utf8(const std::filesystem::path& file) {
    constexpr std::int64_t kLines = 2000;
    LineReader lines(file);
    while (const auto line = lines.next_line()) {
        if (holds_utf8(*line)) return true;
        if (lines.line_number() == kLines) break;
    }
    return false;
}

}  // namespace

void say_detected(const Context& context, const Layout& layout) {
    const std::string line = detected_line(layout.shown(layout.train.text), layout.detected);
    if (!line.empty()) context.info(line);
    for (const std::string& note : layout.notes) context.info(note);
    for (const std::string& warning : layout.warnings) context.warning(warning);
    std::set<std::filesystem::path> files;
    for (const SplitFiles* split : {&layout.train, &layout.test, &layout.validation})
        if (layout.table.latin1 && files.insert(split->text).second && !split->text.empty() &&
            begins_with_utf8(split->text))
            context.info(utf8_line(layout.shown(split->text)));
    for (const SplitFiles* split : {&layout.test, &layout.validation})
        if (!split->detected.empty())
            context.info(detected_line(layout.shown(split->labels), split->detected));
}

}  // namespace elmo
