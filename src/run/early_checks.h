// What can be known to fail before a data set is read, which may take minutes.
#pragma once

#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// Error if the device is not there or the folder config.out cannot be created or written; a warning if its
// disk is nearly full. Leaves nothing behind.
void check_before_import(const Context& context, const Config& config);

}  // namespace elmo
