// Importing a data set by itself: tokenizer and cache, made or reused.
#include "base/parallel.h"
#include "cache/cache_file.h"
#include "config/resolve.h"
#include "data/dataset.h"
#include "data/kept_input.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"

namespace elmo {

DataSummary import_data(const Context& given_context, const Config& given) {
    validate(given);
    const Config config = with_kept_input(given_context, with_usual_numbers(with_encoder_folder(given)));
    if (config.data.empty()) throw ConfigError("data: expected a data set (folder or file), found none");
    const Context context = given_context.with_threads(config.threads);
    const auto tokenizer = open_tokenizer(context, config);
    DataSummary summary;
    Dataset::open(context, config, *tokenizer, &summary, {std::begin(kAllSplits), std::end(kAllSplits)},
                  Dataset::Warn::kAlways);
    return summary;
}

}  // namespace elmo
