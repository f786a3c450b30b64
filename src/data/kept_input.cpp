#include "data/kept_input.h"

#include <fmt/format.h>

#include "base/text_util.h"
#include "cache/cache_file.h"
#include "config/views.h"
#include "elmo/error.h"
#include "io/atomic_file.h"
#include "io/packed/raw_input.h"

namespace elmo {
namespace fs = std::filesystem;

Config with_kept_input(const Context& context, Config config) {
    if (config.data != "-") return config;
    const fs::path folder =
        config.cache.empty() ? user_cache_folder("stdin") : cache_folder(config.cache, {});
    RawInput input("-", "standard input");
    if (input.held().empty())
        throw DataError("standard input: expected a data set, found nothing; pipe one in, or name a file");
    // The name is known at the end. Others may keep data that begins alike at the same time.
    AtomicFile file(folder / fmt::format("stdin-{}.partial", hash_text(hash64(input.held()))));
    Hash64 hash;
    std::int64_t bytes = 0;
    do {
        context.leave_if_stopped();
        hash.update(input.held());
        file.write(input.held());
        bytes += static_cast<std::int64_t>(input.held().size());
    } while (input.refill());
    const fs::path kept = folder / fmt::format("stdin-{}", hash_text(hash.digest()));
    std::error_code error;
    if (!fs::exists(kept, error) || fs::file_size(kept, error) != static_cast<std::uintmax_t>(bytes))
        file.commit_as(kept);
    context.info(fmt::format("standard input: kept as {} ({}), since data is read more than once",
                             kept.string(), human_bytes(bytes)));
    config.data = kept.string();
    mark_option(config, "data", Origin::kGiven, std::string(kStandardInput));
    return config;
}

}  // namespace elmo
