// Normalizers: what happens to the characters of a text before it is split into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/spec.h"

namespace elmo {

class Normalizer {
  public:
    explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
    bool empty() const { return steps_.empty(); }

    // Bytes that may become of one, all steps together. Unicode's own rules make 18 characters of one at
    // most.
    static constexpr std::size_t kMostGrowth = 256;

    // Replaces `out` by the normalized text. `text` is valid UTF-8 and no part of `out`. DataError where it
    // grows more than that.
    void apply(std::string_view text, std::string& out) const;

  private:
    std::vector<NormalizerStep> steps_;
};

}  // namespace elmo
