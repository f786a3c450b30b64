// For calls that train on one data set many times: what is said about it is said once.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "elmo/context.h"

namespace elmo {

// The same without messages that begin with `subject` and were given before.
inline Context with_said_once(const Context& context, std::string subject) {
    Sinks sinks = context.sinks();
    sinks.message = [message = sinks.message, subject = std::move(subject),
                     said = std::make_shared<std::set<std::string, std::less<>>>()](Severity severity,
                                                                                    std::string_view text) {
        if (text.starts_with(subject) && !said->emplace(text).second) return;
        if (message) message(severity, text);
    };
    return context.with_sinks(std::move(sinks));
}

}  // namespace elmo
