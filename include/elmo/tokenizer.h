// `elmo tokenize`: the ids of a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "elmo/api.h"
#include "elmo/context.h"

namespace elmo {

struct Config;

// Ids of one text, special tokens included; loads config.tokenizer (which may be a run) once.
class ELMO_API TextEncoder {
  public:
    TextEncoder(const Context& context, const Config& config);
    ~TextEncoder();
    std::vector<std::int32_t> encode(std::string_view text) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace elmo
