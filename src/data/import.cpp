// Importing a data set by itself: tokenizer and cache, made or reused.
#include "base/parallel.h"
#include "config/resolve.h"
#include "data/dataset.h"
#include "data/tokenizer_files.h"
#include "elmo/error.h"

namespace elmo {

DataSummary import_data(const Config& given) {
    validate(given);
    const Config config = with_encoder_folder(given);
    if (config.data.empty()) throw ConfigError("data: expected a data set (folder or file), found none");
    set_num_threads(static_cast<int>(config.threads));
    const auto tokenizer = open_tokenizer(config);
    DataSummary summary;
    Dataset::open(config, *tokenizer, &summary);
    return summary;
}

}  // namespace elmo
