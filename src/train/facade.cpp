// The small verbs of the library's door: version, data, tokenize.
#include <fmt/format.h>

#include "base/parallel.h"
#include "data/dataset.h"
#include "data/wordnet.h"
#include "elmo/elmo.h"
#include "train/tokenizer_files.h"

namespace elmo {

std::string version() {
    return ELMO_VERSION;
}

DataSummary import_data(const Config& config) {
    validate(config);
    if (config.data.empty()) throw ConfigError("data: expected a data set (folder or file), found none");
    set_num_threads(static_cast<int>(config.threads));
    const auto tokenizer = open_tokenizer(config);
    DataSummary summary;
    Dataset::open(config, *tokenizer, &summary);
    return summary;
}

DataSummary make_wordnet(const std::string& wordnet_folder, const Config& config) {
    if (config.out.empty())
        throw ConfigError("out: expected a folder for the data set, found none; give --out FOLDER");
    WordnetOptions options;
    options.overwrite = config.overwrite;
    return write_wordnet(wordnet_folder, config.out, options);
}

struct TextEncoder::Impl {
    std::unique_ptr<Tokenizer> tokenizer;
    std::int64_t max_length = 0;
};

TextEncoder::TextEncoder(const Config& config) : impl_(std::make_unique<Impl>()) {
    if (config.tokenizer == "auto")
        throw ConfigError("tokenizer: expected a folder or a tokenizer.json, found none");
    impl_->tokenizer = load_tokenizer(config.tokenizer);
    impl_->max_length = config.max_length;
}
TextEncoder::~TextEncoder() = default;

std::vector<std::int32_t> TextEncoder::encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    impl_->tokenizer->encode(text, impl_->max_length, ids);
    return ids;
}

}  // namespace elmo
