// Labels into the binary cache: label matrices of the splits, label names, filter pairs. Needs no tokenizer.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cache/cache_file.h"
#include "config/views.h"
#include "elmo/context.h"
#include "sources/layout.h"

namespace elmo {

// The statistics that a labels file of the cache carries, section "stats".
struct LabelStats {
    std::int64_t num_labels = 0;
    std::int64_t merged_labels = 0;
    std::int64_t unsorted_rows = 0;
    std::int64_t unknown_labels = 0;  // distinct names of this split that training does not have
    std::int64_t stray_quotes = 0;
    std::int64_t null_labels = 0;
};

// The cache files of a data set's labels; those that a data set does not have are empty.
struct LabelCache {
    std::optional<CacheFile> names;  // ragged "names" of bytes
    struct OfSplit {
        std::optional<CacheFile> labels;  // ragged "labels" of uint32, "stats"
        std::optional<CacheFile> filter;  // ragged "filter" of uint32
    };
    OfSplit train, test, validation;
    bool reused = true;  // nothing had to be imported

    OfSplit& of(SplitName split);
    const OfSplit& of(SplitName split) const { return const_cast<LabelCache*>(this)->of(split); }
};

// Maps the label cache of the layout in `folder`, importing what is missing or out of date.
LabelCache open_label_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const std::filesystem::path& folder);

}  // namespace elmo
