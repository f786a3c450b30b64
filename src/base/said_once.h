// For calls that open one data set many times: what is said about it is said once.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "elmo/context.h"

namespace elmo {

// The same without messages that begin with `subject`, or with the name of another file (of test rows beside
// the data), and were given before.
inline Context with_said_once(const Context& context, std::string subject) {
    Sinks sinks = context.sinks();
    sinks.message = [message = sinks.message, subject = std::move(subject),
                     said = std::make_shared<std::set<std::string, std::less<>>>()](Severity severity,
                                                                                    std::string_view text) {
        std::error_code error;
        const bool about_data = text.starts_with(subject) ||
                                std::filesystem::is_regular_file(text.substr(0, text.find(':')), error);
        if (about_data && !said->emplace(text).second) return;
        if (message) message(severity, text);
    };
    return context.with_sinks(std::move(sinks));
}

// The same without messages: what there is to say was said, or will be.
inline Context without_messages(const Context& context) {
    Sinks sinks = context.sinks();
    sinks.message = nullptr;
    return context.with_sinks(std::move(sinks));
}

}  // namespace elmo
