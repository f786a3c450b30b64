// Any bytes as a recipe, as users write it and as a run stores it: a configuration that is written and read
// back as the same, or an elmo::Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/resolve.h"
#include "elmo/config.h"
#include "elmo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const elmo::Config config = elmo::parse_run_recipe(text, "fuzz");
        const std::string written = elmo::to_recipe(config);
        elmo::Config again;
        elmo::parse_recipe(again, written, "written");
        if (elmo::to_recipe(again) != written) std::abort();
        elmo::validate(config);
    } catch (const elmo::Error&) {
    }
    return 0;
}
