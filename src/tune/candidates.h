// The candidates of a search, and who stays in it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "elmo/config.h"

namespace elmo {

// What a candidate has other than the defaults: keys and values as text, in the order of kTuned.
struct Candidate {
    std::vector<std::pair<std::string, std::string>> changes;
    std::string name() const;  // "head_lr 0.1, dropout 0.3", or "the defaults"
};

// Number 0 has the defaults; the others differ from it and from one another. A function of the seed. What was
// given in `asked` is not varied; `defaults` is its complete configuration, and `label_texts` says whether
// augment can be varied. Fewer than `count` where there are no more.
std::vector<Candidate> make_candidates(const Config& asked, const Config& defaults, bool label_texts,
                                       std::int64_t count);

// The complete configuration of a candidate.
Config with_changes(Config defaults, const Candidate& candidate);

// The indices of the better third of the scores (rounded up), ascending: of equal ones the earlier. Number
// 0, the defaults, always stays: the gain is measured against it.
std::vector<std::size_t> survivors(const std::vector<double>& scores);

}  // namespace elmo
