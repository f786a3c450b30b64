// `elmo index`: what approximate search (--search approximate) finds labels by.
#pragma once

#include <cstdint>
#include <string>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

// An index and how well it finds what exact search finds.
struct SearchIndex {
    std::int64_t labels = 0, width = 0;
    std::int64_t dims = 0;        // numbers of 4 bits that a label is sketched by
    std::int64_t candidates = 0;  // labels that are scored exactly for an answer of up to five
    std::int64_t texts = 0;       // that recall was measured on: none of them helped to make the index
    // The share of the 1, 5 or 10 best labels of exact search that the answer has.
    double recall_at_1 = 0, recall_at_5 = 0, recall_at_10 = 0;
    double exact_ms = 0, approximate_ms = 0;  // to find the labels of one text, on the machine that made it
    std::int64_t bytes = 0;                   // of its file
};

template <typename AnyIndex, typename Visit>
void visit_numbers(AnyIndex& index, Visit&& visit) requires requires {
    index.recall_at_10;
}
{
    visit("labels", index.labels);
    visit("width", index.width);
    visit("dims", index.dims);
    visit("candidates", index.candidates);
    visit("texts", index.texts);
    visit("recall_at_1", index.recall_at_1);
    visit("recall_at_5", index.recall_at_5);
    visit("recall_at_10", index.recall_at_10);
    visit("exact_ms", index.exact_ms);
    visit("approximate_ms", index.approximate_ms);
}

template <typename Visit>
void visit_fields(const SearchIndex& index, Visit&& visit) {
    visit_numbers(index, visit);
    visit("bytes", index.bytes);
}

// Makes the index of a run and stores it beside the checkpoint, where prediction finds it: half of the run's
// validation texts (or of the rows of config.data, where it is given) shape it, a quarter chooses how many
// candidates reach `recall` of the five best labels, and a quarter measures. On the CPU. ConfigError for a
// linear model.
ELMO_API SearchIndex build_index(const Context& context, const std::string& run, const Config& config,
                                 double recall = 0.99);

}  // namespace elmo
