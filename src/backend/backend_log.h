// Lines that a backend has for people. A backend that lies in a library of its own has no log of its own: the
// program hands it one.
#pragma once

#include <string_view>

namespace elmo {

class BackendLog {
  public:
    virtual ~BackendLog() = default;
    virtual void info(std::string_view line) = 0;
    virtual void warning(std::string_view line) = 0;
};

}  // namespace elmo
