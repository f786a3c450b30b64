// The tokenizer of a run: found, or learnt from the training texts; and the files it leaves in a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "config/views.h"
#include "elmo/context.h"
#include "io/input_folder.h"
#include "text/tokenizer.h"

namespace elmo {

// reading.tokenizer, or with auto the encoder folder's, or one learnt from the training texts. A learnt one
// is kept in the data cache and reused while texts and options stay the same.
std::unique_ptr<Tokenizer> open_tokenizer(const Context& context, const ReadOptions& reading);

// The tokenizer of a checkpoint, as save_tokenizer left it.
std::unique_ptr<Tokenizer> stored_tokenizer(const InputFolder& checkpoint);

// tokenizer.json, and the tokenizer_config.json with which transformers.AutoTokenizer loads it.
void save_tokenizer(const std::filesystem::path& folder, const Tokenizer& tokenizer, std::int64_t max_length);

}  // namespace elmo
