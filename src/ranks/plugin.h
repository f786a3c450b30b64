// Ranks in a separate library, opened where a launcher has started several processes: what the library and
// the program agree on. A library has one entry point, elmo_mpi_plugin or elmo_gloo_plugin. Objects pass
// through it, so both must come from the same headers and compiler: ELMO_RANKS_INTERFACE (made by CMake)
// names them.
#pragma once

#include "elmo/ranks.h"

namespace elmo {

inline constexpr const char* kMpiLibrary = "libelmo_mpi.so";
inline constexpr const char* kMpiPlugin = "elmo_mpi_plugin";
inline constexpr const char* kGlooLibrary = "libelmo_gloo.so";
inline constexpr const char* kGlooPlugin = "elmo_gloo_plugin";

// A rank that can end its part in an orderly way.
class PluginRanks : public Ranks {
  public:
    // After the last collective of all ranks.
    virtual void finish() = 0;
    virtual std::string host() const = 0;
    virtual std::string describe() const = 0;  // the library and its version
};

// If `interface` is the library's own: joins the other ranks, makes them in `*made` and returns null.
// Otherwise does nothing and returns the library's interface.
using RanksPlugin = const char*(const char* interface, PluginRanks** made);

}  // namespace elmo
