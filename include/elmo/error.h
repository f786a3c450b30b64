// The errors of the library. Each is one clear line: what was expected, what was found, what to do.
// The library throws these and never exits; the program maps them to exit codes. They are visible outside
// shared libraries, so that one can catch what another throws.
#pragma once

#include <stdexcept>
#include <string>

#include "elmo/api.h"

namespace elmo {

class ELMO_API Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The user asked for something impossible: an unknown key, a value out of range. Exit code 2.
class ELMO_API ConfigError : public Error {
  public:
    using Error::Error;
};

// A file is missing, malformed or does not fit another. Names the file and, where it can, the line. Exit
// code 1.
class ELMO_API DataError : public Error {
  public:
    using Error::Error;
};

// The machine cannot do it or failed while doing it. Exit code 1.
class ELMO_API DeviceError : public Error {
  public:
    using Error::Error;
};

// Not enough memory. Names the tensor and carries the plan. Exit code 1.
class ELMO_API OutOfMemory : public DeviceError {
  public:
    using DeviceError::DeviceError;
};

// Training met a NaN or Inf. Names the step and the tensor. Exit code 1.
class ELMO_API NumericError : public Error {
  public:
    using Error::Error;
};

// The context's stop flag ended the work before it was done; the message says how to go on. Exit code 130.
class ELMO_API Interrupted : public Error {
  public:
    using Error::Error;
};

}  // namespace elmo
