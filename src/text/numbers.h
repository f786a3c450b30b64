// The tokenizer of bag-of-words features (number_tokenizer in text/tokenizer.h).
#pragma once

#include "text/tokenizer.h"

namespace elmo {

// Whether number_tokenizer made it, also if it was stored and read again.
bool is_number_tokenizer(const Tokenizer& tokenizer);

}  // namespace elmo
