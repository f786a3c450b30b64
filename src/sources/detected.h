// What was found in the data for options that nobody gave, said in one line.
#pragma once

#include "elmo/context.h"
#include "sources/layout.h"

namespace elmo {

// One line for people, as flags: "tickets.csv: read with --label-separator ';' ..."; "" where nothing was
// detected.
std::string detected_line(const std::string& name, const std::vector<DetectedOption>& detected);
// The line about UTF-8 that is read so though the encoding is another.
std::string utf8_line(const std::string& name);
// Says it of a layout.
void say_detected(const Context& context, const Layout& layout);

}  // namespace elmo
