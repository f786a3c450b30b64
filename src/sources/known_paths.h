// Paths that only the recipe of a run names. A run may come from anybody, so such a path is read only if it
// was read as data here before: the cache that the import left has a mark for it. The mark's name is a hash
// of the path and of what the maker of a downloaded cache cannot know: what tells this very file or folder
// from all others on this machine, or a secret of the user.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/views.h"

namespace elmo {

// elmo's folder in the user's cache, which may not be there yet; "" where no variable says where that is.
std::filesystem::path user_cache();

// Where the cache of a data set may lie, in the order of preference: `configured` alone if it is given.
std::vector<std::filesystem::path> cache_places(const std::string& configured,
                                                const std::filesystem::path& data);

// Marks the data, the validation file and the filter file as read. DataError when the cache cannot be
// written.
void mark_known_paths(const std::filesystem::path& cache_folder, const ReadOptions& reading);
// The same of what data, validation and test file are copies of, which is what a run will name, and of a
// validation file that is none; not of rows from memory, which no path leads to.
void mark_known_originals(const std::filesystem::path& cache_folder, const ReadOptions& reading);

// Whether it was marked in a cache of the data that `reading` names.
bool is_known_path(const ReadOptions& reading, const std::string& path);

// What is said of data that only a run names and that is not there. A path that is not absolute is as it was
// given when training was started.
std::string gone_data_of_run(const std::string& path);

// ConfigError, with what to do, if `key` ("data", "filter" ...) is a path that only a run's recipe names
// (`of_run`) and that was not marked, in such a cache or, but for the data, in one beside the path.
void require_known_path(const ReadOptions& reading, const std::string& path, bool of_run,
                        const std::string& key);

}  // namespace elmo
