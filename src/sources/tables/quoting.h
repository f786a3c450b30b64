// Whether the fields of a table between tabs stand in quotes where they need it, as pandas and R write them,
// or are taken as they are, quotes and all, as most others do.
#pragma once

#include <filesystem>

namespace elmo {

// Looks at the first megabytes. True only where nothing else explains them: every quote is part of a well
// quoted field, and there is a doubled one, or every field is quoted, or lines cannot be rows of their own.
bool looks_quoted(const std::filesystem::path& file, char delimiter);

}  // namespace elmo
