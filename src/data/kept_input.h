// Standard input as a data set: kept in a file first, since every verb reads its data more than once.
#pragma once

#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// Where config.data is "-": all of standard input goes to a file, named by its content, in the folder that
// config.cache names or in the user's cache, and config.data is that file. Says so. The same input again is
// the same file, whose cache is reused. Any other configuration is returned as it is.
Config with_kept_input(const Context& context, Config config);

}  // namespace elmo
