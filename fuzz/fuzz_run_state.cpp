// Any bytes as the state.json of a checkpoint: numbers that a run can have, which are saved and read back as
// the same, or an elmo::Error.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "elmo/error.h"
#include "formats/json_text.h"
#include "run/run_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const std::string_view text(reinterpret_cast<const char*>(data), size);
        const elmo::RunState state = elmo::read_state(elmo::parse_json(text, "fuzz"), "fuzz");
        if (state.step < 0 || state.step > state.total_steps || state.labels < 1) std::abort();
        const std::string saved = elmo::state_text(state);
        if (elmo::state_text(elmo::read_state(elmo::parse_json(saved, "saved"), "saved")) != saved)
            std::abort();
    } catch (const elmo::Error&) {
    }
    return 0;
}
