#include "train/same_run.h"

#include <fmt/format.h>

#include <string>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/version.h"

namespace elmo {
namespace {

// What decides results, and what the data is: equal on all ranks, or they would not train the same run.
std::string describe_run(const Config& config, const RunState& state) {
    std::string text = fmt::format("elmo = {}\ndata = {} {}\nsteps = {}\n", version(), state.data_hash,
                                   state.names_hash, state.total_steps);
    for (const OptionInfo& option : options())
        if (option.role == OptionRole::kResult)
            text += fmt::format("{} = {}\n", option.key, get_option(config, option.key));
    return text;
}

}  // namespace

void require_same_run(Ranks& ranks, const Config& config, const RunState& state) {
    if (ranks.size() == 1) return;
    const std::string mine = describe_run(config, state);
    const auto all = gather(ranks, std::as_bytes(std::span(mine)));
    for (std::size_t r = 1; r < all.size(); ++r) {
        const std::string theirs(reinterpret_cast<const char*>(all[r].data()), all[r].size());
        const std::string first(reinterpret_cast<const char*>(all[0].data()), all[0].size());
        if (theirs == first) continue;
        std::size_t at = 0;  // the line that differs
        while (at < first.size() && at < theirs.size() && first[at] == theirs[at]) ++at;
        const std::size_t begin = first.rfind('\n', at > 0 ? at - 1 : 0);
        const auto line = [&](const std::string& text) {
            const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
            return quoted(text.substr(from, text.find('\n', from) - from));
        };
        throw ConfigError(
            fmt::format("rank {} has another run than the first: expected '{}', found '{}'; start "
                        "all ranks with the same program, options and data",
                        r, line(first), line(theirs)));
    }
}

}  // namespace elmo
