#include "option_reasons.h"

#include <fmt/format.h>

#include <algorithm>

#include "elmo/resolve.h"
#include "output.h"

namespace elmo::cli {

void print_explanation(const Verb& verb, const Invocation& invocation) {
    Config config = verb.resolve != nullptr ? verb.resolve(invocation) : invocation.config;
    const bool computes = std::any_of(options().begin(), options().end(), [&](const OptionInfo& option) {
        return option.key == "device" && has_option(verb, option);
    });
    if (computes) config = with_device(invocation.context, config);
    std::vector<OptionReason> rows = explain(config);
    std::erase_if(rows, [&](const OptionReason& row) {
        return std::none_of(options().begin(), options().end(), [&](const OptionInfo& option) {
            return option.key == row.key && has_option(verb, option);
        });
    });
    if (invocation.json) {
        return write_json(FieldGroup{[&](auto& visit) {
            for (const OptionReason& row : rows)
                visit(row.key, FieldGroup{[&](auto& inner) {
                          inner("value", row.value);
                          inner("reason", row.reason);
                      }});
        }});
    }
    std::size_t keys = 0, values = 0;
    for (const OptionReason& row : rows) {
        keys = std::max(keys, row.key.size());
        values = std::max(values, std::min<std::size_t>(row.value.size(), 40));
    }
    std::string out;
    for (const OptionReason& row : rows)
        out += fmt::format("{:<{}}  {:<{}}  {}\n", row.key, keys, row.value.empty() ? "-" : row.value, values,
                           row.reason);
    write_stdout(out);
}

}  // namespace elmo::cli
