// elmo tokenize: the ids of one text at a time.
#include "data/tokenizer_files.h"
#include "elmo/error.h"
#include "elmo/tokenizer.h"

namespace elmo {
namespace {

// A run has its tokenizer in its checkpoints, which all have the same.
std::filesystem::path folder_of(const std::string& given) {
    std::error_code error;
    const std::filesystem::path of_run = std::filesystem::path(given) / "best";
    return std::filesystem::exists(of_run / "tokenizer.json", error) ? of_run : std::filesystem::path(given);
}

}  // namespace

struct TextEncoder::Impl {
    std::unique_ptr<Tokenizer> tokenizer;
    std::int64_t max_length = 0;
};

TextEncoder::TextEncoder(const Context& context, const Config& config) : impl_(std::make_unique<Impl>()) {
    const ReadOptions reading(config);
    if (reading.tokenizer == "auto")
        throw ConfigError("tokenizer: expected a folder or a tokenizer.json, found none");
    impl_->tokenizer = load_tokenizer(context, folder_of(reading.tokenizer));
    impl_->max_length = reading.max_length;
}
TextEncoder::~TextEncoder() = default;

std::vector<std::int32_t> TextEncoder::encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    impl_->tokenizer->encode(text, impl_->max_length, ids);
    return ids;
}

}  // namespace elmo
