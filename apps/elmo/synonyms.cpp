#include "synonyms.h"

#include <fmt/format.h>

#include <utility>

namespace elmo::cli {
namespace {

constexpr std::pair<std::string_view, std::string_view> kVerbs[] = {{"supervised", "train"},
                                                                    {"fit", "train"},
                                                                    {"finetune", "train"},
                                                                    {"fine-tune", "train"},
                                                                    {"test", "eval"},
                                                                    {"test-label", "eval"},
                                                                    {"evaluate", "eval"},
                                                                    {"score", "eval"},
                                                                    {"compare", "eval RUN1 RUN2 DATA"},
                                                                    {"pred", "predict"},
                                                                    {"predict-prob", "predict"},
                                                                    {"infer", "predict"},
                                                                    {"classify", "predict"},
                                                                    {"autotune", "tune"},
                                                                    {"convert", "data convert"},
                                                                    {"dump", "inspect"},
                                                                    {"info", "inspect"},
                                                                    {"quantize", "train --precision"}};

}  // namespace

std::string verb_meant_by(std::string_view verb) {
    for (const auto& [theirs, ours] : kVerbs)
        if (theirs == verb) return fmt::format(" (did you mean '{}'?)", ours);
    return "";
}

}  // namespace elmo::cli
