// elmo cache: what imports have left on the disk, and removing it.
#include "elmo/cache.h"

#include <fmt/format.h>

#include "elmo/messages.h"
#include "output.h"
#include "verbs.h"

namespace elmo::cli {
namespace {

void run_cache(Invocation& call) {
    const std::string& action = call.words[0];
    if (action != "list" && action != "clear")
        usage_error(cache_verb(), fmt::format("expected list or clear, found '{}'{}", quoted(action),
                                              did_you_mean(action, {"list", "clear"})));
    const std::vector<std::string> places(call.words.begin() + 1, call.words.end());
    const CacheList list = action == "list" ? list_caches(places) : clear_caches(places);
    if (call.json) return write_json(list);
    std::vector<std::vector<std::string>> rows;
    for (const CacheUse& use : list.caches)
        rows.push_back({use.folder, counted(use.files, "file"), human_bytes(use.bytes)});
    rows.push_back(
        {action == "list" ? "all" : "removed", counted(list.files, "file"), human_bytes(list.bytes)});
    write_stdout(aligned(rows));
}

}  // namespace

Verb cache_verb() {
    return {
        "cache",
        '-',
        "List the caches that imports left, or remove them",
        "list|clear [PLACE...] [options]",
        {{"list|clear", "What to do"},
         {"PLACE",
          "Data sets or cache folders; when left out, the current folder's cache and all in the user's "
          "cache"}},
        1,
        1 << 20,
        false,
        {},
        {{"elmo cache list", "Every cache in the user's cache folder, and the one here"},
         {"elmo cache clear tickets.csv", "Removes what imports of files in this folder left"}},
        "A cache holds what was read from a data set, so that the next run starts at once; it is made "
        "again when it is not there. Data from standard input is kept in the user's cache, and clear removes "
        "it, too: pipe it in again. After clear, a command that takes the data from a run asks for their "
        "path "
        "once: that they were read here is forgotten, too. Nothing but cache files is removed.",
        run_cache};
}

}  // namespace elmo::cli
