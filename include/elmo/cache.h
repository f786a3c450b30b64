// The binary caches that imports leave: where they are, how large, and removing them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elmo/api.h"

namespace elmo {

struct CacheUse {
    std::string folder;
    std::int64_t files = 0, bytes = 0;
};

template <typename Visit>
void visit_fields(const CacheUse& use, Visit&& visit) {
    visit("folder", use.folder);
    visit("files", use.files);
    visit("bytes", use.bytes);
}

struct CacheList {
    std::vector<CacheUse> caches;
    std::int64_t files = 0, bytes = 0;  // together
};

template <typename Visit>
void visit_fields(const CacheList& list, Visit&& visit) {
    visit("caches", list.caches);
    visit("files", list.files);
    visit("bytes", list.bytes);
}

// The caches of the named data sets (folders or files) and cache folders; with no name, those of the current
// folder and all in the user's cache. What is not there is left out.
ELMO_API CacheList list_caches(const std::vector<std::string>& places);

// Removes their files and returns what was removed. Files of other kinds in the folders stay. A cache is made
// again when its data is read; an import that is under way fails.
ELMO_API CacheList clear_caches(const std::vector<std::string>& places);

}  // namespace elmo
